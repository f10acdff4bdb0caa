//! The catalog of the database: the settings of collections that a repository has set up.

mod entry;

use futures::TryStreamExt;
use mongo_patterns_core::catalog::COLLECTION;
use mongodb::bson::{Document, doc};
use mongodb::options::ReadPreference;

pub(crate) use self::entry::Managed;
use self::entry::text;
use crate::command::of_program;
use crate::context::Context;
use crate::failure::Failure;
use crate::profile::{PATTERNS, Profile, overlay};

/// Returns all settings of the catalog, or what it has of a collection, also as the second collection of a pattern.
pub(crate) async fn all(context: &Context, collection: Option<&str>) -> Result<Profile, Failure> {
    // A program archives in files.
    let mut filter = doc! { "_id.kind": { "$in": PATTERNS }, "settings.files": { "$ne": true } };
    if let Some(collection) = collection {
        let as_second = ["extras", "children", "revisions", "source", "archive", "trash"];
        let as_second = as_second.map(|name| doc! { format!("settings.{name}_collection"): collection });
        let mut of_collection = vec![
            doc! { "_id.collection": collection },
            doc! { "settings.references.collection": collection },
        ];
        of_collection.extend(as_second);
        filter.insert("$or", of_collection);
    }
    let mut profile = Profile::default();
    for entry in find(context, filter).await? {
        let [id, settings] = ["_id", "settings"].map(|name| part(&entry, name));
        match id.get_str("kind").unwrap_or_default() {
            "bucket" => profile.bucket.push(Managed::of_entry(&id, &settings)),
            "outlier" => profile.outlier.push(Managed::of_entry(&id, &settings)),
            "subset" => profile.subset.push(Managed::of_entry(&id, &settings)),
            "embedded" => profile.embedded.push(Managed::of_entry(&id, &settings)),
            "history" => profile.history.push(Managed::of_entry(&id, &settings)),
            "reference" => profile.reference.push(Managed::of_entry(&id, &settings)),
            "archive" => profile.archive.push(Managed::of_entry(&id, &settings)),
            "schema" => profile.schema.push(Managed::of_entry(&id, &settings)),
            "trash" => profile.trash.push(Managed::of_entry(&id, &settings)),
            _ => {}
        }
    }
    Ok(profile)
}

/// Finds entries. The name of a second database stays only if it differs, so that a profile is valid for a copy too.
async fn find(context: &Context, filter: Document) -> Result<Vec<Document>, Failure> {
    let catalog = context.database.collection::<Document>(COLLECTION);
    let on = || Failure::on(format!("`find` on {}", catalog.namespace()));
    let entries = catalog.find(filter).sort(doc! { "_id": 1 });
    let entries = entries
        .selection_criteria(ReadPreference::Primary.into())
        .await
        .map_err(on())?;
    let mut entries: Vec<Document> = entries.try_collect().await.map_err(on())?;
    for settings in entries.iter_mut().flat_map(|entry| entry.get_document_mut("settings")) {
        for name in ["archive_database", "trash_database"] {
            if text(settings, name).as_deref() == Some(context.database.name()) {
                settings.remove(name);
            }
        }
    }
    Ok(entries)
}

/// Returns the settings of options, then of the profile, then of the catalog. Settings that contradict the catalog
/// stay as they are, and the command refuses them.
pub(crate) async fn settings<S: Managed>(context: &Context, options: &S) -> Result<S, Failure> {
    let given = context.profile.settings(options)?;
    match stored(context, &given).await? {
        Some(stored) => overlay(&stored, &given),
        None => Ok(given),
    }
}

/// Returns the settings of the catalog for the same collection. Without any, the context knows what the catalog has instead.
pub(crate) async fn stored<S: Managed>(context: &Context, given: &S) -> Result<Option<S>, Failure> {
    let [collection, field] = given.id();
    let kind = doc! { "_id.kind": S::PATTERN };
    let of_collection = doc! { "_id.collection": collection, "_id.kind": { "$in": PATTERNS } };
    let entries = find(context, doc! { "$or": [kind, of_collection] }).await?;
    let ids: Vec<Document> = entries.iter().map(|entry| part(entry, "_id")).collect();
    let is_of_pattern = |id: &Document| text(id, "kind").as_deref() == Some(S::PATTERN);
    let is_given = |id: &Document| {
        let is = |name: &str, given: Option<&String>| text(id, name).as_ref() == given;
        is_of_pattern(id) && is("collection", collection) && (field.is_none() || is("field", field))
    };
    let mut same = (0..).zip(&ids).filter(|(_, id)| is_given(id)).map(|(number, _)| number);
    if let (Some(number), None) = (same.next(), same.next()) {
        let entry: &Document = &entries[number];
        return Ok(Some(S::of_entry(&ids[number], &part(entry, "settings"))));
    }
    let other = ids
        .iter()
        .find(|id| !is_of_pattern(id) && text(id, "collection").as_ref() == collection);
    let names = ids.iter().filter(|id| is_of_pattern(id)).map(name);
    let names = names.collect::<Vec<_>>().join(", ");
    let known = match (collection, other) {
        (Some(collection), Some(other)) => {
            let pattern = other.get_str("kind").unwrap_or_default();
            Some(format!(
                "{collection} has the {pattern} pattern: `{}`",
                verify(pattern, collection)
            ))
        }
        _ if names.is_empty() => None,
        (Some(_), None) => Some(format!("no {} of that name in the catalog: {names}", S::PATTERN)),
        (None, _) => Some(format!("the catalog has {names}")),
    };
    if let Some(known) = known {
        let _ = context.known.set((collection.cloned(), known));
    }
    Ok(None)
}

/// Returns the command that verifies a collection.
fn verify(pattern: &str, collection: &str) -> String {
    let mut command = of_program(pattern);
    match pattern {
        "schema" => command.verb("verify").value(collection),
        _ => command.option("collection", collection).verb("verify"),
    };
    command.to_string()
}

/// Returns the collection of an entry with its field.
fn name(id: &Document) -> String {
    let parts = ["collection", "field"]
        .into_iter()
        .filter_map(|name| id.get_str(name).ok());
    parts.collect::<Vec<_>>().join(".")
}

fn part(document: &Document, field: &str) -> Document {
    document.get_document(field).cloned().unwrap_or_default()
}
