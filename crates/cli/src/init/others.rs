//! What the other collections of the database show of a collection.

use std::collections::BTreeSet;

use mongo_patterns_core::catalog::COLLECTION;
use mongodb::bson::{Bson, Document, doc};

use super::lists::overflow;
use super::sample::{LOOKED_UP, Sample, Seen, integer, is_called_id, is_date};
use crate::context::Context;
use crate::failure::Failure;
use crate::profile::Profile;
use crate::settings::HistorySettings;

/// The field with the version of a source and of its copies.
const VERSION: &str = "v";

/// Returns the names of the other collections.
async fn names(context: &Context, collection: &str) -> Result<Vec<String>, Failure> {
    let database = &context.database;
    let names = database
        .list_collection_names()
        .filter(doc! { "type": "collection" })
        .await;
    let mut names = names.map_err(Failure::on(format!("`listCollections` on {}", database.name())))?;
    names.retain(|name| name != collection && name != COLLECTION && !name.starts_with("system."));
    names.sort_unstable();
    Ok(names)
}

/// Adds the second collections that have the form of a pattern, and notes about those that could have it.
pub(super) async fn find(context: &Context, sample: &Sample, seen: &mut Seen) -> Result<(), Failure> {
    let is_list = seen.profile.bucket.is_empty() && seen.profile.subset.is_empty();
    let array = sample.array().filter(|_| is_list);
    let (of, copies) = (&sample.collection, copies(sample));
    for name in names(context, of).await? {
        let other = Sample::read(context, &name).await?;
        if other.documents.is_empty() {
            continue;
        }
        if let Some(array) = array {
            overflow(context, (sample, array), &other, seen).await?;
        }
        if let Some(settings) = history(sample, &other) {
            seen.note(format!(
                "{name} has the indexes of revisions, and these documents have their fields: a history"
            ));
            seen.profile = Profile {
                history: vec![settings],
                ..Profile::default()
            };
            return Ok(());
        }
        for reference in references(sample, &name) {
            let ids = sample
                .distinct(reference)
                .into_iter()
                .map(|id| doc! { "_id": { "$eq": id } });
            if let Some(found) = most(context, &name, ids.collect()).await? {
                seen.note(format!(
                    "{found} of `{reference}` are `_id`s of {name}: these documents could be its children, for `embedded --collection {name} --source {of} --reference {reference} analyze`, or for `subset --children-collection {of} --parent {reference} analyze`"
                ));
            }
        }
        for (field, copies) in &copies {
            let mut copied: Vec<&str> = copies.iter().flat_map(|copy| copy.keys().map(String::as_str)).collect();
            copied.sort_unstable();
            copied.dedup();
            copied.retain(|name| ![VERSION, "deleted"].contains(name) && other.names().contains(name));
            let is_copied = |name: &str| name == "_id" || copied.contains(&name);
            let equal = |copy: &Document| -> Document {
                let fields = copy.iter().filter(|(name, _)| is_copied(name));
                fields
                    .map(|(name, value)| (name.clone(), doc! { "$eq": value }.into()))
                    .collect()
            };
            if !copied.is_empty()
                && let Some(found) = most(context, &name, copies.iter().map(|copy| equal(copy)).collect()).await?
            {
                let copied = copied.join(",");
                seen.note(format!(
                    "{found} in `{field}`, which have a version, are equal to documents of {name}: these could be copies, for `reference --collection {of} --source-collection {name} --reference {field} --copy {copied} verify`"
                ));
            }
        }
    }
    Ok(())
}

/// Returns how many documents of a collection some of these filters find, as `5 of 6 values`, if most do. Each finds one at most.
async fn most(context: &Context, collection: &str, mut filters: Vec<Document>) -> Result<Option<String>, Failure> {
    let mut seen = BTreeSet::new();
    filters.retain(|filter| seen.insert(filter.to_string()));
    filters.truncate(LOOKED_UP);
    let all = filters.len();
    let collection = context.database.collection::<Document>(collection);
    let found = collection.count_documents(doc! { "$or": filters }).await;
    let found = found.map_err(Failure::on(collection.namespace()))?;
    Ok((found * 2 > all as u64).then(|| format!("{found} of {all} values")))
}

/// Returns the fields whose values are documents with an `_id` and a version, and these documents.
fn copies(sample: &Sample) -> Vec<(&str, Vec<&Document>)> {
    let copies = |field: &str| -> Option<Vec<&Document>> {
        let values = sample.documents.iter().filter_map(|document| document.get(field));
        let values = values.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice));
        let values = values.filter(|value| !matches!(value, Bson::Null));
        let is_copy = |copy: &&Document| copy.contains_key("_id") && copy.get(VERSION).and_then(integer).is_some();
        values.map(|copy| copy.as_document().filter(is_copy)).collect()
    };
    let names = sample.names().into_iter();
    let fields = names.filter_map(|field| Some((field, copies(field).filter(|copies| !copies.is_empty())?)));
    fields.collect()
}

/// Returns the id field, the number and the time of revisions, by their two indexes.
pub(super) fn revisions(sample: &Sample) -> Option<[&str; 3]> {
    let mut unique = sample.indexes().filter(|(_, is_unique)| *is_unique);
    unique.find_map(|(keys, _)| {
        let [id, revision] = keys[..] else { return None };
        sample.indexes().find_map(|(keys, _)| match keys[..] {
            [of, time, last] if of == id && last == revision && sample.has(time, is_date) => Some([id, revision, time]),
            _ => None,
        })
    })
}

/// Returns the settings of current documents, if the other collection has their revisions.
fn history(sample: &Sample, other: &Sample) -> Option<HistorySettings> {
    let [id, revision, time] = revisions(other)?;
    if !sample.has(revision, |value| integer(value).is_some()) || !sample.has(time, is_date) {
        return None;
    }
    let is_by_id = !sample.names().contains(id);
    Some(HistorySettings {
        collection: Some(sample.collection.clone()),
        revisions_collection: Some(other.collection.clone()),
        id: Some(if is_by_id { "_id" } else { id }.to_owned()),
        document_id: is_by_id.then(|| id.to_owned()).filter(|id| id != "documentId"),
        revision: Some(revision.to_owned()).filter(|revision| revision != "revision"),
        time: Some(time.to_owned()).filter(|time| time != "time"),
        ..HistorySettings::default()
    })
}

/// Returns the fields that are named like ids of another collection: `customerId` like `customers`.
fn references<'s>(sample: &'s Sample, other: &str) -> impl Iterator<Item = &'s str> {
    let other = other.to_lowercase();
    let candidates = sample.candidates(&[]).into_iter();
    candidates.filter(move |name| {
        let stem = name.to_lowercase();
        let stem = stem.trim_end_matches("id").trim_end_matches('_');
        is_called_id(name) && !stem.is_empty() && other.starts_with(stem)
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::*;
    use crate::init::sample;

    #[test]
    fn revisions_are_known_by_their_indexes() {
        let policy = |n: i32| doc! { "_id": n, "policyId": n, "revision": 1_i64, "dateSet": DateTime::now() };
        let current = sample::sample("policies", (0..3).map(policy), &[]);
        let indexes = [
            doc! { "key": { "policyId": 1, "revision": 1 }, "unique": true },
            doc! { "key": { "policyId": 1, "dateSet": 1, "revision": 1 } },
        ];
        let of = |indexes: &[Document]| sample::sample("policyRevisions", (0..3).map(policy), indexes);
        let found = history(&current, &of(&indexes)).unwrap();
        let names = [&found.revisions_collection, &found.id, &found.time].map(Option::as_deref);
        assert_eq!(names, ["policyRevisions", "policyId", "dateSet"].map(Some));
        assert!(history(&current, &of(&indexes[..1])).is_none());
        let others = sample::sample("sales", [doc! { "_id": 1 }], &[]);
        assert!(history(&others, &of(&indexes)).is_none());
    }

    #[test]
    fn a_field_is_named_like_the_collection_that_it_refers_to() {
        let reviews = sample::sample(
            "review",
            [doc! { "product_id": 1, "review_id": 1, "stars": 5, "Id": 1 }],
            &[],
        );
        assert_eq!(references(&reviews, "Products").collect::<Vec<_>>(), ["product_id"]);
        assert_eq!(references(&reviews, "stars").count(), 0);
    }

    #[test]
    fn documents_with_an_id_and_a_version_are_copies() {
        let copy = |id: i32| doc! { "_id": id, "name": "Ann", "v": 1_i64 };
        let order =
            |n: i32| doc! { "_id": n, "customer": copy(n), "payers": [copy(1), copy(2)], "address": { "_id": n } };
        let orders = sample::sample("orders", (0..3).map(order), &[]);
        let fields: Vec<(&str, usize)> = copies(&orders)
            .into_iter()
            .map(|(field, copies)| (field, copies.len()))
            .collect();
        assert_eq!(fields, [("customer", 3), ("payers", 6)]);
    }
}
