//! The catalog of the database: the settings of collections that a repository has set up.

use futures::TryStreamExt;
use mongo_patterns_core::catalog::COLLECTION;
use mongodb::bson::{Bson, Document, doc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::failure::Failure;
use crate::profile::{Profile, overlay};
use crate::settings::{
    BucketSettings, EmbeddedSettings, FurtherSubset, HistorySettings, KeyType, OutlierSettings, ReferenceField,
    ReferenceSettings, SubsetSettings,
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

/// Finds entries.
async fn find(context: &Context, filter: Document) -> Result<Vec<Document>, Failure> {
    let catalog = context.database.collection::<Document>(COLLECTION);
    let on = || Failure::on(catalog.namespace());
    let entries = catalog.find(filter).sort(doc! { "_id": 1 }).await.map_err(on())?;
    entries.try_collect().await.map_err(on())
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
    match stored(context, &given).await? {
        Some(stored) => overlay(Some(&stored), &given),
        None => Ok(given),
    }
}

/// Returns the settings of the catalog for the same collection.
pub(crate) async fn stored<S: Managed>(context: &Context, given: &S) -> Result<Option<S>, Failure> {
    let (Some(collection), field) = given.id() else {
        return Ok(None);
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
    Ok(match same.as_slice() {
        [entry] => Some(S::of_entry(&part(entry, "_id"), &part(entry, "settings"))),
        _ => None,
    })
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
            further: further_subsets(settings),
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
        references(text(id, "collection"), id.get_str("field").ok(), settings)
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

/// Returns the further subsets of a parent. A filter is stored as pairs.
fn further_subsets(settings: &Document) -> Option<Vec<FurtherSubset>> {
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
