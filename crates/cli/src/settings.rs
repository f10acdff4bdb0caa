//! The settings of each pattern, as options and as tables of the profile.

use clap::{Args, ValueEnum};
use mongo_patterns_core::FieldName;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, Document};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The type of a bucket's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyType {
    /// An integer.
    Int,
    /// A string.
    String,
    /// An ObjectId.
    #[value(name = "objectid")]
    ObjectId,
    /// A UUID, as binary data of subtype 4.
    Uuid,
}

/// The form of the times of flat documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TimeFormat {
    /// A BSON date.
    Date,
    /// A number of seconds since 1970.
    EpochSeconds,
    /// A number of milliseconds since 1970.
    EpochMillis,
    /// A text such as 2024-05-01T12:00:00Z.
    #[serde(rename = "iso-8601")]
    #[value(name = "iso-8601")]
    Iso8601,
}

impl From<TimeFormat> for mongo_patterns_bucket::TimeFormat {
    fn from(format: TimeFormat) -> Self {
        match format {
            TimeFormat::Date => Self::Date,
            TimeFormat::EpochSeconds => Self::EpochSeconds,
            TimeFormat::EpochMillis => Self::EpochMillis,
            TimeFormat::Iso8601 => Self::Iso8601,
        }
    }
}

impl KeyType {
    /// Returns the type by the name of its BSON type, as the catalog has it.
    pub(crate) fn of_entry(name: &str) -> Option<Self> {
        match name {
            "int" => Some(Self::Int),
            "string" => Some(Self::String),
            "objectId" => Some(Self::ObjectId),
            "binData" => Some(Self::Uuid),
            _ => None,
        }
    }

    /// Returns the type of a key with this value.
    pub(crate) fn of(value: &Bson) -> Option<Self> {
        match value {
            Bson::Int32(_) | Bson::Int64(_) => Some(Self::Int),
            // The legacy shell writes integers as doubles.
            Bson::Double(number) if number.fract() == 0.0 => Some(Self::Int),
            Bson::String(_) => Some(Self::String),
            Bson::ObjectId(_) => Some(Self::ObjectId),
            Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid => Some(Self::Uuid),
            _ => None,
        }
    }
}

/// The fields of buckets and their flat collection.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct BucketSettings {
    /// The collection of the buckets.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The flat collection, one document per item: the source of analyze and migrate.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) flat: Option<String>,
    /// The field that holds the key, such as customerId.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) key: Option<String>,
    /// The key field of the flat documents, if its name differs.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) flat_key: Option<String>,
    /// The type of the keys. By default that of the catalog, or the most common type of the first documents.
    #[arg(long, global = true, value_enum, value_name = "TYPE")]
    pub(crate) key_type: Option<KeyType>,
    /// The array field of a bucket that holds its items, such as history.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) items: Option<String>,
    /// The field that holds the number of items. [default: count]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) count: Option<String>,
    /// The field of an item that holds its time, a date.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) time: Option<String>,
    /// The field of an item that identifies it within its key.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) item_id: Option<String>,
    /// The fields of an item of which a bucket keeps the sum, separated by commas.
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) sum: Option<Vec<String>>,
    /// The fields of an item of which a bucket keeps the least value, separated by commas.
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) min: Option<Vec<String>>,
    /// The fields of an item of which a bucket keeps the greatest value, separated by commas.
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) max: Option<Vec<String>>,
    /// The fields of an item of which a bucket counts the values, separated by commas.
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) count_by: Option<Vec<String>>,
    /// A bucket keeps the first and the last time of its items.
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) first_and_last: Option<bool>,
    /// The length of the windows of time that have buckets of their own, such as 3600. [default: none]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(crate) window_seconds: Option<u32>,
    /// The field of a bucket that holds the start of its window. [default: window]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) window_field: Option<String>,
    /// The server removes a bucket this many seconds after its last item.
    #[arg(long, global = true, value_name = "SECONDS")]
    pub(crate) expire_after_seconds: Option<u32>,
    /// The field of a bucket that holds its figures. [default: figures]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) figures: Option<String>,
    /// The number of items in a full bucket. [default: 10]
    #[arg(long, global = true, value_name = "ITEMS")]
    pub(crate) page_size: Option<u32>,
    /// Keeps the _id of each flat document in its item.
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) keep_ids: Option<bool>,
    /// The form of the times of the flat documents, which migrate converts to dates. [default: date]
    #[arg(long, global = true, value_name = "FORM")]
    pub(crate) time_format: Option<TimeFormat>,
}

/// The fields and limits of documents with overflow documents.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct OutlierSettings {
    /// The collection of the documents.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The collection of the overflow documents. [default: that of the documents with _extras appended]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) extras_collection: Option<String>,
    /// The array field of a document.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) array: Option<String>,
    /// The field of an overflow document that holds the _id of its document. [default: parent_id]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) parent: Option<String>,
    /// The field that marks a document with overflow documents. [default: has_extras]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) flag: Option<String>,
    /// The array field of an overflow document. [default: that of the documents with _extra appended]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) extras: Option<String>,
    /// The field of an overflow document that holds its position. [default: seq]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) seq: Option<String>,
    /// The field of an overflow document that holds the number of its elements. [default: count]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) count: Option<String>,
    /// The number of elements that stay in a document. [default: 50]
    #[arg(long, global = true, value_name = "ELEMENTS")]
    pub(crate) threshold: Option<u32>,
    /// The greatest number of elements in an overflow document. [default: 500]
    #[arg(long, global = true, value_name = "ELEMENTS")]
    pub(crate) cap: Option<u32>,
    /// Every element is unique in its list.
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) unique: Option<bool>,
}

/// The fields of parents and children, and the size of a subset.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct SubsetSettings {
    /// The collection of the parents.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The collection of all children.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) children_collection: Option<String>,
    /// The array field of a parent that holds its first children.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) subset: Option<String>,
    /// The field of a child that holds the _id of its parent.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) parent: Option<String>,
    /// The field of a child that identifies it within its parent.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) child_id: Option<String>,
    /// The order of the children: a field, or -field for descending order; separate several by commas.
    #[arg(
        long,
        global = true,
        value_name = "FIELDS",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(crate) order: Option<Vec<String>>,
    /// The number of children in a subset. [default: 10]
    #[arg(long, global = true, value_name = "CHILDREN")]
    pub(crate) size: Option<u32>,
    /// The fields of a child that are embedded, separated by commas. [default: all but _id and the parent's]
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) embed: Option<Vec<String>>,
    /// The field of a parent that counts the writes to its subset. [default: the subset's with _version appended]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) version: Option<String>,
    /// The field of a parent that holds the number of its children. [default: none]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) total: Option<String>,
    /// The sums in a parent: field=child's field, such as rating_sum=rating; separate several by commas. [default: none]
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) sum: Option<Vec<String>>,
    /// The minima in a parent, as those of --sum.
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) min: Option<Vec<String>>,
    /// The maxima in a parent, as those of --sum.
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) max: Option<Vec<String>>,
    /// The counts by value in a parent, as those of --sum, such as stars=rating.
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) count_by: Option<Vec<String>>,
    /// The further subsets of a parent, which are tables of the profile.
    #[arg(skip)]
    pub(crate) further: Option<Vec<FurtherSubset>>,
}

/// A further subset of a parent: `[[subset.further]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FurtherSubset {
    pub(crate) field: String,
    /// As that of the first subset: a field, or -field for descending order.
    pub(crate) order: Vec<String>,
    pub(crate) size: Option<u32>,
    pub(crate) filter: Option<Document>,
    pub(crate) embedded_fields: Option<Vec<String>>,
}

/// The fields of parents with embedded children.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddedSettings {
    /// The collection of the parents.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The array field of a parent that holds its children.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) children: Option<String>,
    /// The field of a child that identifies it. [default: _id]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) child_id: Option<String>,
    /// The greatest number of children of a parent. [default: 100]
    #[arg(long, global = true, value_name = "CHILDREN")]
    pub(crate) max_children: Option<u32>,
    /// The collection of the children, one document each: the source of analyze and migrate.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// The field of such a document that holds the _id of its parent.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) reference: Option<String>,
    /// The field by which children are ordered. [default: their _id]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) sort: Option<String>,
}

/// The collections and fields of documents with a history.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct HistorySettings {
    /// The collection of the current documents.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The collection of the revisions.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) revisions_collection: Option<String>,
    /// The field that holds the id of a document, such as policyId, or _id.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) id: Option<String>,
    /// The field in which a revision holds the _id of its document, with --id _id. [default: documentId]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) document_id: Option<String>,
    /// The field that holds the number of the revision. [default: revision]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) revision: Option<String>,
    /// The field that holds the time of the revision. [default: time]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) time: Option<String>,
    /// The field that is true in the revision of a deletion. [default: deleted]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) deleted: Option<String>,
    /// The fields that describe a change, such as changedBy, separated by commas. [default: none]
    #[arg(long, global = true, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) change_fields: Option<Vec<String>>,
}

/// The collections and fields of documents with copies of their sources.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferenceSettings {
    /// The collection of the referring documents, such as orders.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The collection of the sources, such as customers.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) source_collection: Option<String>,
    /// The field with the reference, such as customer.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) reference: Option<String>,
    /// The fields of a source that are copied, such as name,address.city; path in the copy=path in the source, such as
    /// mail=contact.email, if they differ.
    #[arg(long, global = true, value_name = "PATHS", value_delimiter = ',')]
    pub(crate) copy: Option<Vec<String>>,
    /// The field is an array of references.
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) array: Option<bool>,
    /// The copies stay as they were stored.
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) snapshot: Option<bool>,
    /// The field that holds the version, in sources and copies. [default: v]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) version_field: Option<String>,
    /// The unique field of a source by which documents name it before the migration, such as username, which is copied
    /// too. [default: _id]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) source_key: Option<String>,
    /// The further references to the same sources, which are tables of the profile.
    #[arg(skip)]
    pub(crate) further: Option<Vec<ReferenceField>>,
}

/// A reference field: a further one is `[[reference.further]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferenceField {
    /// The collection of the referring documents, if it is another one than that of the pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collection: Option<String>,
    pub(crate) field: String,
    pub(crate) copy: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) array: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) snapshot: bool,
}

/// Returns a required setting, or an error that names its option.
pub(crate) fn need<'s>(value: Option<&'s String>, pattern: &str, name: &str) -> Result<&'s str, Failure> {
    value.map(String::as_str).ok_or_else(|| {
        let option = name.replace('_', "-");
        Failure::missing(format!(
            "--{option} is missing: pass it, or set `{name}` in a table [[{pattern}]] of the profile, which `init` writes"
        ))
    })
}

/// Checks field names by their options, because the error of a repository does not name the option.
pub(crate) fn check_fields<'s, N: IntoIterator<Item = &'s String>>(
    options: impl IntoIterator<Item = (&'static str, N)>,
) -> Result<(), Failure> {
    for (option, names) in options {
        for name in names {
            FieldName::of_element(name.as_str()).map_err(|error| Failure::usage(format!("{option}: {error}")))?;
        }
    }
    Ok(())
}

/// Calls the setters of a builder for the settings that are given.
macro_rules! with_given {
    ($builder:expr, $($setting:expr => $setter:ident),+ $(,)?) => {{
        let mut builder = $builder;
        $(if let Some(value) = $setting {
            builder = builder.$setter(value);
        })+
        builder
    }};
}

pub(crate) use with_given;

/// Checks that two options name different collections.
pub(crate) fn check_different(options: [&str; 2], names: [&Option<String>; 2]) -> Result<(), Failure> {
    if names[0].is_none() || names[0] != names[1] {
        return Ok(());
    }
    let [one, other] = options;
    Err(Failure::usage(format!(
        "{one} and {other} name the same collection: use two collections"
    )))
}
