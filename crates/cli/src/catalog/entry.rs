//! The settings of each pattern, by the entry of a collection.

use mongodb::bson::{Bson, Document};

use crate::document_settings::{ArchiveSettings, SchemaSettings, TrashSettings};
use crate::output::to_json;
use crate::profile::Settings;
use crate::settings::{
    BucketSettings, EmbeddedSettings, FurtherSubset, HistorySettings, KeyType, OutlierSettings, ReferenceField,
    ReferenceSettings, SubsetSettings,
};

/// Settings that the catalog stores.
pub(crate) trait Managed: Settings {
    /// Returns the settings of an entry by its `_id` and its settings.
    fn of_entry(id: &Document, settings: &Document) -> Self;
}

impl Managed for BucketSettings {
    fn of_entry(id: &Document, settings: &Document) -> Self {
        let none = Document::new();
        let figures = settings.get_document("figures").unwrap_or(&none);
        let window = settings.get_document("window").unwrap_or(&none);
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
            ..Self::default()
        }
    }
}

impl Managed for OutlierSettings {
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
            further: further_subsets(settings),
        }
    }
}

impl Managed for EmbeddedSettings {
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
    fn of_entry(id: &Document, settings: &Document) -> Self {
        references(text(id, "collection"), id.get_str("field").ok(), settings)
    }
}

impl Managed for ArchiveSettings {
    fn of_entry(id: &Document, settings: &Document) -> Self {
        let related = settings.get_array("related").ok().map(|related| {
            let related = related.iter().filter_map(Bson::as_document);
            related.flat_map(|one| {
                [
                    in_database(one, "collection"),
                    in_database(one, "archive"),
                    text(one, "field"),
                ]
            })
        });
        let keep = settings.get("keep").map(|keep| to_json(&restored(keep)).to_string());
        Self {
            collection: text(id, "collection"),
            archive: text(settings, "archive_collection"),
            archive_db: text(settings, "archive_database"),
            age: text(settings, "age"),
            keep,
            keep_newest_by: text(settings, "keep_newest_by"),
            related: related.and_then(Iterator::collect),
            id: text(settings, "id"),
        }
    }
}

impl Managed for SchemaSettings {
    fn of_entry(id: &Document, settings: &Document) -> Self {
        Self {
            collection: text(id, "collection"),
            version_field: text(settings, "version"),
        }
    }
}

impl Managed for TrashSettings {
    fn of_entry(id: &Document, settings: &Document) -> Self {
        let related = settings.get_array("related").ok().map(|related| {
            let related = related.iter().filter_map(Bson::as_document);
            related.flat_map(|one| [in_database(one, "collection"), text(one, "field")])
        });
        Self {
            collection: text(id, "collection"),
            trash: text(settings, "trash_collection"),
            trash_db: text(settings, "trash_database"),
            expires_after_ms: settings
                .get_i64("expires_after_ms")
                .ok()
                .and_then(|time| time.try_into().ok()),
            related: related.and_then(Iterator::collect),
        }
    }
}

/// Returns the name of a collection without its database.
fn in_database(document: &Document, field: &str) -> Option<String> {
    let (_, name) = document.get_str(field).ok()?.split_once('.')?;
    Some(name.to_owned())
}

pub(super) fn text(document: &Document, field: &str) -> Option<String> {
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

/// Returns a filter, which is stored as pairs.
fn restored(stored: &Bson) -> Bson {
    let pair = |pair: &Bson| match pair.as_array()?.as_slice() {
        [Bson::String(name), value] => Some((name.clone(), restored(value))),
        _ => None,
    };
    match stored {
        Bson::Array(pairs) => Bson::Document(pairs.iter().filter_map(pair).collect()),
        Bson::Document(array) => {
            let values = array.get_array("array").into_iter().flatten();
            Bson::Array(values.map(restored).collect())
        }
        value => value.clone(),
    }
}

/// Returns the further subsets of a parent.
fn further_subsets(settings: &Document) -> Option<Vec<FurtherSubset>> {
    let subsets = settings.get_document("further_subsets").ok()?.iter();
    let subsets = subsets.map(|(field, settings)| {
        let settings = settings.as_document()?;
        let filter = settings.get("filter").filter(|filter| **filter != Bson::Null);
        Some(FurtherSubset {
            field: field.clone(),
            order: texts(settings, "order")?,
            size: number(settings, "size"),
            filter: filter.and_then(|filter| restored(filter).as_document().cloned()),
            embedded_fields: texts(settings, "embedded_fields"),
        })
    });
    subsets.collect()
}

/// Returns the settings of the references to a source: those of one reference field, and the further ones.
fn references(collection: Option<String>, field: Option<&str>, settings: &Document) -> ReferenceSettings {
    let references = settings.get_array("references").into_iter().flatten();
    let references = references.filter_map(|reference| reference_field(reference.as_document()?));
    let (first, mut further): (Vec<_>, Vec<_>) =
        references.partition(|stored| stored.collection == collection && field == Some(stored.field.as_str()));
    for reference in &mut further {
        reference.collection = reference
            .collection
            .take()
            .filter(|name| Some(name) != collection.as_ref());
    }
    let first = first.into_iter().next();
    let is_set = |is_set: fn(&ReferenceField) -> bool| first.as_ref().is_some_and(is_set).then_some(true);
    ReferenceSettings {
        array: is_set(|first| first.array),
        snapshot: is_set(|first| first.snapshot),
        reference: first.as_ref().map(|first| first.field.clone()),
        copy: first.map(|first| first.copy),
        collection,
        source_collection: text(settings, "source_collection"),
        version_field: text(settings, "version"),
        source_key: text(settings, "source_key"),
        further: (!further.is_empty()).then_some(further),
    }
}

/// Returns a reference in the catalog.
fn reference_field(reference: &Document) -> Option<ReferenceField> {
    let copied = reference.get_array("copied").ok()?.iter();
    let copied = copied.map(|copied| {
        let copied = copied.as_document()?;
        let (target, source) = (copied.get_str("field").ok()?, copied.get_str("from").ok()?);
        Some(match target == source && !target.contains('=') {
            true => target.to_owned(),
            false => format!("{target}={source}"),
        })
    });
    Some(ReferenceField {
        collection: reference.get_str("collection").ok().map(str::to_owned),
        field: reference.get_str("field").ok()?.to_owned(),
        copy: copied.collect::<Option<_>>()?,
        array: reference.get_bool("array").unwrap_or(false),
        snapshot: reference.get_bool("snapshot").unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn further_subsets_are_those_of_the_catalog() {
        let pairs = doc! { "filter": [["stars", [["$in", { "array": [4, [["a", 1]]] }]]]] };
        let settings = doc! { "further_subsets": { "best": {
            "order": ["-stars", "review_id"],
            "size": 3_i64,
            "filter": pairs.get("filter").unwrap(),
            "embedded_fields": null,
        } } };
        let expected = FurtherSubset {
            field: "best".to_owned(),
            order: ["-stars", "review_id"].map(str::to_owned).to_vec(),
            size: Some(3),
            filter: Some(doc! { "stars": { "$in": [4, { "a": 1 }] } }),
            embedded_fields: None,
        };
        assert_eq!(further_subsets(&settings), Some(vec![expected]));
        assert_eq!(further_subsets(&doc! {}), None);
    }

    #[test]
    fn an_archive_is_that_of_the_catalog() {
        let related = doc! { "collection": "shop.extra", "archive": "cold.extra.old", "field": "book_id" };
        let settings = doc! {
            "age": "date", "archive_database": "cold", "archive_collection": "old", "keep": [["a", [["$gt", 1]]]],
            "related": [related], "id": "isbn",
        };
        let archive = ArchiveSettings::of_entry(&doc! { "collection": "sales" }, &settings);
        assert_eq!(archive.keep.as_deref(), Some(r#"{"a":{"$gt":1}}"#));
        assert_eq!(archive.related.unwrap(), ["extra", "extra.old", "book_id"]);
        assert_eq!(
            (archive.archive_db.as_deref(), archive.id.as_deref()),
            (Some("cold"), Some("isbn"))
        );
    }

    #[test]
    fn references_are_those_of_the_catalog() {
        let reference = |collection: &str, field: &str, array: bool, copied: &[(&str, &str)]| {
            let copied = copied.iter();
            let copied: Vec<Document> = copied
                .map(|(field, from)| doc! { "field": field, "from": from })
                .collect();
            doc! { "collection": collection, "field": field, "array": array, "snapshot": !array, "copied": copied }
        };
        let entry = doc! {
            "source_collection": "customers",
            "version": "version",
            "references": [
                reference("invoices", "customer", false, &[("name", "name")]),
                reference("orders", "buyers", true, &[("mail", "contact.email"), ("name", "name")]),
                reference("orders", "payer", false, &[("name", "name")]),
            ],
        };
        let settings = references(Some("orders".into()), Some("buyers"), &entry);
        assert_eq!(settings.copy.unwrap(), ["mail=contact.email", "name"]);
        assert_eq!(
            (settings.array, settings.snapshot, settings.version_field.as_deref()),
            (Some(true), None, Some("version"))
        );
        let further = |collection: Option<&str>, field: &str| ReferenceField {
            collection: collection.map(str::to_owned),
            field: field.to_owned(),
            copy: vec!["name".to_owned()],
            array: false,
            snapshot: true,
        };
        let expected = [further(Some("invoices"), "customer"), further(None, "payer")];
        assert_eq!(settings.further.unwrap(), expected);
    }
}
