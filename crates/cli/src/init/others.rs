//! What the other collections of the database show of a collection.

use mongo_patterns_core::catalog::COLLECTION;
use mongodb::bson::{Document, doc};

use super::Seen;
use super::lists::{LOOKED_UP, overflow};
use super::sample::{Sample, integer, is_called_id, is_date};
use crate::context::Context;
use crate::failure::Failure;
use crate::profile::Profile;
use crate::settings::HistorySettings;

/// Returns the names of the other collections.
pub(super) async fn names(context: &Context, collection: &str) -> Result<Vec<String>, Failure> {
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
    let lists: Vec<String> = seen
        .profile
        .outlier
        .iter()
        .filter_map(|settings| settings.array.clone())
        .collect();
    for name in names(context, &sample.collection).await? {
        let other = Sample::read(context, &name).await?;
        if other.documents.is_empty() {
            continue;
        }
        for array in &lists {
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
            could_be_children(context, (sample, reference), &name, seen).await?;
        }
    }
    Ok(())
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

/// Returns the fields whose names are those of ids of another collection: `customerId` of `customers`.
fn references<'s>(sample: &'s Sample, other: &str) -> impl Iterator<Item = &'s str> {
    let other = other.to_lowercase();
    let candidates = sample.candidates(&[]).into_iter();
    candidates.filter(move |name| {
        let stem = name.to_lowercase();
        let stem = stem.trim_end_matches("id").trim_end_matches('_');
        is_called_id(name) && !stem.is_empty() && other.starts_with(stem)
    })
}

/// Adds a note if most values of a field are `_id`s of another collection.
async fn could_be_children(
    context: &Context,
    (sample, reference): (&Sample, &str),
    other: &str,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let values: Vec<_> = sample.distinct(reference).into_iter().take(LOOKED_UP).collect();
    let parents = context.database.collection::<Document>(other);
    let found = parents.count_documents(doc! { "_id": { "$in": &values } }).await;
    let found = found.map_err(Failure::on(parents.namespace()))?;
    if found * 2 > values.len() as u64 {
        let (collection, all) = (&sample.collection, values.len());
        seen.note(format!(
            "{found} of {all} values of `{reference}` are `_id`s of {other}: these documents could be its children, for `embedded --collection {other} --source {collection} --reference {reference} analyze`, or for `subset --children-collection {collection} --parent {reference} analyze`"
        ));
    }
    Ok(())
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
}
