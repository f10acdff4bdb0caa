//! The catalog of the database: the settings of collections that a repository has set up.

use futures::TryStreamExt;
use mongo_patterns_core::catalog::COLLECTION;
use mongo_patterns_core::{Error, ErrorKind};
use mongodb::bson::{Bson, Document, doc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Context;
use crate::failure::Failure;
use crate::nested::{further, references};
use crate::profile::{Profile, overlay};
use crate::settings::{
    BucketSettings, EmbeddedSettings, HistorySettings, KeyType, OutlierSettings, ReferenceSettings, SubsetSettings,
};

/// The settings of a collection that the catalog has.
pub(crate) struct Stored {
    pub(crate) profile: Profile,
    pub(crate) patterns: Vec<&'static str>,
}

/// Returns the settings of all patterns of a collection, also as that of overflow documents, children, revisions, sources
/// or further referring documents.
pub(crate) async fn settings_of(context: &Context, collection: &str) -> Result<Stored, Failure> {
    let filter = doc! { "$or": [
        { "_id.collection": collection },
        { "settings.extras_collection": collection },
        { "settings.children_collection": collection },
        { "settings.revisions_collection": collection },
        { "settings.source_collection": collection },
        { "settings.references.collection": collection },
    ] };
    let mut entries = find(context, filter).await?;
    // Its own entry is preferred to one that names it.
    let is_own = |entry: &Document| {
        let id = entry.get_document("_id");
        id.is_ok_and(|id| id.get_str("collection").is_ok_and(|name| name == collection))
    };
    entries.sort_by_key(|entry| !is_own(entry));
    let mut stored = Stored {
        profile: Profile::default(),
        patterns: Vec::new(),
    };
    for entry in &entries {
        stored.add(entry);
    }
    Ok(stored)
}

/// Finds entries. A user who may not read the catalog finds none, as in the library.
async fn find(context: &Context, filter: Document) -> Result<Vec<Document>, Failure> {
    let catalog = context.database.collection::<Document>(COLLECTION);
    let entries = match catalog.find(filter).sort(doc! { "_id": 1 }).await {
        Ok(entries) => entries.try_collect().await,
        Err(error) => Err(error),
    };
    match entries.map_err(|error| (Error::from(error.clone()).kind(), error)) {
        Ok(entries) => Ok(entries),
        Err((ErrorKind::Unauthorized, _)) => Ok(Vec::new()),
        Err((_, error)) => Err(Failure::on(catalog.namespace())(error)),
    }
}

impl Stored {
    /// Adds an entry. Of two entries of one pattern, the first one counts.
    fn add(&mut self, entry: &Document) {
        let (Ok(id), Ok(settings)) = (entry.get_document("_id"), entry.get_document("settings")) else {
            return;
        };
        fn set<S: Managed>(known: &mut Option<S>, id: &Document, settings: &Document) -> Option<&'static str> {
            let is_first = known.is_none();
            known.get_or_insert_with(|| S::of_entry(id, settings));
            is_first.then_some(S::PATTERN)
        }
        let profile = &mut self.profile;
        self.patterns.extend(match id.get_str("kind").unwrap_or_default() {
            "bucket" => set(&mut profile.bucket, id, settings),
            "outlier" => set(&mut profile.outlier, id, settings),
            "subset" => set(&mut profile.subset, id, settings),
            "embedded" => set(&mut profile.embedded, id, settings),
            "history" => set(&mut profile.history, id, settings),
            "reference" => set(&mut profile.reference, id, settings),
            _ => None,
        });
    }
}

/// Settings that the catalog stores.
pub(crate) trait Managed: Clone + Serialize + DeserializeOwned {
    const PATTERN: &'static str;

    /// The collection, and the array field if one of several can be managed.
    fn id(&self) -> (Option<&String>, Option<&String>);

    /// Returns the settings of an entry by its `_id` and its settings.
    fn of_entry(id: &Document, settings: &Document) -> Self;
}

/// Completes settings by those of the catalog. Settings that contradict it stay as they are, and the command refuses them.
pub(crate) async fn complete<S: Managed>(context: &Context, given: S) -> Result<S, Failure> {
    let (Some(collection), field) = given.id() else {
        return Ok(given);
    };
    let entries = find(context, doc! { "_id.kind": S::PATTERN }).await?;
    let part = |entry: &Document, name: &str| entry.get_document(name).cloned().unwrap_or_default();
    let is_given = |id: &Document| {
        text(id, "collection").as_ref() == Some(collection) && (field.is_none() || text(id, "field").as_ref() == field)
    };
    let same: Vec<&Document> = entries.iter().filter(|entry| is_given(&part(entry, "_id"))).collect();
    if let ([], false) = (same.as_slice(), entries.is_empty()) {
        let name = |id: Document| [text(&id, "collection"), text(&id, "field")].into_iter().flatten();
        let names = entries
            .iter()
            .map(|entry| name(part(entry, "_id")).collect::<Vec<_>>().join("."));
        let names = names.collect::<Vec<_>>().join(", ");
        let unknown = format!("no {} of that name in the catalog: {names}", S::PATTERN);
        let _ = context.unknown.set((collection.clone(), unknown));
    }
    match same.as_slice() {
        [entry] => overlay(
            Some(&S::of_entry(&part(entry, "_id"), &part(entry, "settings"))),
            &given,
        ),
        _ => Ok(given),
    }
}

impl Managed for BucketSettings {
    const PATTERN: &'static str = "bucket";

    fn id(&self) -> (Option<&String>, Option<&String>) {
        (self.collection.as_ref(), None)
    }

    fn of_entry(id: &Document, settings: &Document) -> Self {
        let none = Document::new();
        let figures = settings.get_document("figures").unwrap_or(&none);
        let window = settings.get_document("window").unwrap_or(&none);
        let bytes = settings.get_document("bytes").unwrap_or(&none);
        let names = |name: &str| texts(figures, name).filter(|names| !names.is_empty());
        Self {
            collection: text(id, "collection"),
            key: text(settings, "key"),
            key_type: settings.get_str("key_type").ok().and_then(KeyType::of_entry),
            items: text(settings, "items"),
            count: text(settings, "count"),
            time: text(settings, "time"),
            item_id: text(settings, "item_id"),
            sum: names("sum"),
            min: names("min"),
            max: names("max"),
            count_by: names("count_by"),
            first_and_last: figures.get_bool("first_and_last").ok().filter(|is_kept| *is_kept),
            figures: text(figures, "field"),
            window_seconds: number(window, "seconds"),
            window_field: text(window, "field"),
            expire_after_seconds: number(settings, "expire_after_seconds"),
            page_size: number(settings, "page_size"),
            max_bucket_bytes: number(bytes, "most"),
            bytes_field: text(bytes, "field"),
            ..Self::default()
        }
    }
}

impl Managed for OutlierSettings {
    const PATTERN: &'static str = "outlier";

    fn id(&self) -> (Option<&String>, Option<&String>) {
        (self.collection.as_ref(), self.array.as_ref())
    }

    fn of_entry(id: &Document, settings: &Document) -> Self {
        Self {
            collection: text(id, "collection"),
            extras_collection: text(settings, "extras_collection"),
            array: text(settings, "array"),
            parent: text(settings, "parent"),
            flag: text(settings, "flag"),
            extras: text(settings, "extras"),
            seq: text(settings, "seq"),
            count: text(settings, "count"),
            threshold: number(settings, "threshold"),
            cap: number(settings, "max_extras_elements"),
            unique: settings.get_bool("unique").ok().filter(|unique| *unique),
        }
    }
}

impl Managed for SubsetSettings {
    const PATTERN: &'static str = "subset";

    fn id(&self) -> (Option<&String>, Option<&String>) {
        (self.collection.as_ref(), self.subset.as_ref())
    }

    fn of_entry(id: &Document, settings: &Document) -> Self {
        Self {
            collection: text(id, "collection"),
            children_collection: text(settings, "children_collection"),
            subset: text(settings, "subset"),
            parent: text(settings, "parent"),
            child_id: text(settings, "child_id"),
            order: texts(settings, "order"),
            size: number(settings, "size"),
            embed: texts(settings, "embedded_fields"),
            version: text(settings, "version"),
            total: text(settings, "total"),
            sum: pairs(settings, "sum"),
            min: pairs(settings, "min"),
            max: pairs(settings, "max"),
            count_by: pairs(settings, "count_by"),
            add_subset: further::of_entry(settings),
        }
    }
}

impl Managed for EmbeddedSettings {
    const PATTERN: &'static str = "embedded";

    fn id(&self) -> (Option<&String>, Option<&String>) {
        (self.collection.as_ref(), self.children.as_ref())
    }

    fn of_entry(id: &Document, settings: &Document) -> Self {
        Self {
            collection: text(id, "collection"),
            children: text(settings, "children"),
            child_id: text(settings, "child_id"),
            max_children: number(settings, "max_children"),
            ..Self::default()
        }
    }
}

impl Managed for HistorySettings {
    const PATTERN: &'static str = "history";

    fn id(&self) -> (Option<&String>, Option<&String>) {
        (self.collection.as_ref(), None)
    }

    fn of_entry(id: &Document, settings: &Document) -> Self {
        Self {
            collection: text(id, "collection"),
            revisions_collection: text(settings, "revisions_collection"),
            id: text(settings, "id"),
            document_id: text(settings, "document_id"),
            revision: text(settings, "revision"),
            time: text(settings, "time"),
            deleted: text(settings, "deleted"),
            change_fields: texts(settings, "change_fields"),
        }
    }
}

impl Managed for ReferenceSettings {
    const PATTERN: &'static str = "reference";

    fn id(&self) -> (Option<&String>, Option<&String>) {
        (self.collection.as_ref(), self.reference.as_ref())
    }

    fn of_entry(id: &Document, settings: &Document) -> Self {
        references::of_entry(text(id, "collection"), id.get_str("field").ok(), settings)
    }
}

fn text(document: &Document, field: &str) -> Option<String> {
    document.get_str(field).ok().map(str::to_owned)
}

fn texts(document: &Document, field: &str) -> Option<Vec<String>> {
    let texts = document.get_array(field).ok()?;
    texts.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns the names of fields and their values, as `field=value`.
fn pairs(document: &Document, field: &str) -> Option<Vec<String>> {
    let pairs = document.get_document(field).ok()?.iter();
    pairs
        .map(|(field, value)| value.as_str().map(|value| format!("{field}={value}")))
        .collect()
}

fn number(document: &Document, field: &str) -> Option<u32> {
    match document.get(field)? {
        Bson::Int32(number) => u32::try_from(*number).ok(),
        Bson::Int64(number) => u32::try_from(*number).ok(),
        _ => None,
    }
}
