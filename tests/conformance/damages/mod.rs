//! The damage that other programs can do: `verify` finds it and nothing else, and `repair` corrects what can be known.

mod bucket;
mod history;
mod intervals;
mod model;
mod outlier;
mod reference;
mod subset;
mod subset_rebuild;

use std::cell::Cell;
use std::collections::HashSet;

use futures::future::LocalBoxFuture;
use futures::{StreamExt, join, stream};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc, serialize_to_bson};
use serde::Serialize;

use super::each;
use model::{Damage, Model, Outcome, Stored, damage};
use support::common::{contents, drop_all, until};

type Check = for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, ()>;

/// Runs a generic check for each pattern, or for these.
macro_rules! for_each {
    ($check:ident) => {
        for_each!($check: bucket::Buckets, history::Histories, intervals::Intervals, outlier::Lists,
            reference::Orders, subset::Children)
    };
    ($check:ident: $($model:ty),*) => {{
        let all = [$((stringify!($model), (|db| Box::pin($check::<$model>(db))) as Check)),*];
        each(all, |(name, _)| name, async |db, (_, check)| check(db).await).await;
    }};
}

#[tokio::test]
async fn each_kind_of_damage_is_found_and_nothing_else() {
    for_each!(found);
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_kind_of_damage_is_repaired_or_left_as_it_is() {
    for_each!(repaired);
}

/// Not of histories, which need their repair before the next write.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_kind_of_damage_is_repaired_while_its_documents_are_written() {
    for_each!(repaired_beside_writers: bucket::Buckets, intervals::Intervals, outlier::Lists,
        reference::Orders, subset::Children);
}

/// All documents, by the names of their collections.
type Contents = [(String, Vec<Document>)];

async fn found<M: Model>(db: &TestDatabase) {
    let (model, damages) = (M::new(db).await, M::damages());
    assert_eq!(model.verify().await, []);
    let sound = contents(db).await;
    damage(db, &damages).await;
    let damaged = contents(db).await;
    db.recorder().clear();
    let found = model.verify().await;
    assert_is_read_only(db);
    let expected = damages.iter().flat_map(|damage| damage.findings(db));
    assert_eq!(sorted(found), sorted(expected));
    for damage in &damages {
        if let Some(found) = model.verify_owner(&damage.owner).await {
            assert_eq!(sorted(found), sorted(damage.findings(db)));
        }
    }
    let mut others = owned::<M>(&sound);
    others.retain(|(_, owner, _)| damages.iter().all(|damage| damage.owner != *owner));
    assert!(!others.is_empty());
    for (_, owner, _) in others {
        assert_eq!(model.verify_owner(&owner).await.unwrap_or_default(), [], "{owner}");
    }
    assert_eq!(texts(&contents(db).await), texts(&damaged));
}

async fn repaired<M: Model>(db: &TestDatabase) {
    let (model, damages) = (M::new(db).await, M::damages());
    let sound = contents(db).await;
    damage(db, &damages).await;
    let damaged = contents(db).await;
    db.recorder().clear();
    let planned = model.repair(true).await;
    assert_is_read_only(db);
    assert_eq!(texts(&contents(db).await), texts(&damaged), "a dry run writes nothing");
    let done = model.repair(false).await;
    assert_eq!(sorted(&done), sorted(&planned), "a dry run reports what a repair does");

    let findings = done.iter().flat_map(|one| {
        let findings = one.findings.iter();
        findings.map(move |finding| (finding, one.unrepaired))
    });
    let expected = damages.iter().flat_map(|damage| {
        let findings = damage.findings(db).into_iter();
        findings.map(move |finding| (finding, damage.left()))
    });
    let expected = sorted(expected);
    assert_eq!(sorted(findings), expected);
    let repairs = if M::IS_ONE_REPAIR {
        damages.len()
    } else {
        expected.len()
    };
    assert_eq!(done.len(), repairs);

    let repaired = contents(db).await;
    let ids = |contents: &Contents| {
        let ids = owned::<M>(contents).into_iter();
        let ids = ids.map(|(stored, _, document)| format!("{} {:?}", stored[0], document.get("_id")));
        ids.collect::<HashSet<String>>()
    };
    let gone = ids(&damaged).difference(&ids(&repaired)).count();
    assert_eq!(done.iter().map(|one| one.deleted).sum::<u64>(), gone as u64);
    let (left, fixed): (Vec<_>, Vec<_>) = damages.iter().partition(|damage| damage.left().is_some());
    let unrelated = |contents: &Contents| {
        let mut unrelated = owned::<M>(contents);
        unrelated.retain(|(_, owner, _)| fixed.iter().all(|damage| damage.owner != *owner));
        let texts = unrelated.iter().map(|owned| format!("{owned:?}"));
        texts.collect::<Vec<String>>()
    };
    assert_eq!(unrelated(&repaired), unrelated(&damaged), "sound and left documents");
    for damage in &fixed {
        let expected = match &damage.outcome {
            Outcome::Values(values) => values.clone(),
            _ => values::<M>(&sound, &damage.owner),
        };
        assert_eq!(values::<M>(&repaired, &damage.owner), expected, "{}", damage.owner);
    }

    let findings_left = left.iter().flat_map(|damage| damage.findings(db));
    assert_eq!(sorted(model.verify().await), sorted(findings_left));
    let again = model.repair(false).await;
    assert_eq!(
        sorted(again),
        sorted(done.iter().filter(|one| one.unrepaired.is_some()))
    );
    assert_eq!(texts(&contents(db).await), texts(&repaired), "nothing is left to do");

    // What is left can prevent an index.
    for ([collection, ..], owner, document) in owned::<M>(&repaired) {
        if left.iter().any(|damage| damage.owner == owner) {
            let collection = db.plain_collection::<Document>(collection);
            let deleted = collection.delete_one(doc! { "_id": document.get("_id") });
            deleted.await.unwrap();
        }
    }
    M::judge(db).await;
    model.repository().ensure_indexes().await.unwrap();
    for damage in fixed {
        model.write(damage.owner.clone(), 0).await.unwrap();
    }
    assert_eq!(model.verify().await, []);
}

/// A writer of each owner writes beside repairs what is written after a repair in another run.
async fn repaired_beside_writers<M: Model>(db: &TestDatabase) {
    const WRITES: i32 = 5;
    let mut damages = M::damages();
    damages.retain(|damage| damage.left().is_none());
    let prepare = async || {
        drop_all(db).await;
        let model = M::new(db).await;
        damage(db, &damages).await;
        model
    };
    let parts = async || {
        let contents = contents(db).await;
        let of_owner =
            |damage: &Damage<M>| sorted(values::<M>(&contents, &damage.owner).into_iter().flat_map(M::parts));
        damages.iter().map(of_owner).collect::<Vec<Vec<String>>>()
    };

    let model = prepare().await;
    model.repair(false).await;
    model.repository().ensure_indexes().await.unwrap();
    for damage in &damages {
        for n in 1..=WRITES {
            model.write(damage.owner.clone(), n).await.unwrap();
        }
    }
    let expected = parts().await;

    let model = prepare().await;
    let writing = Cell::new(true);
    let writers = damages.iter().map(|damage| async {
        for n in 1..=WRITES {
            until("the repair of what refuses a write", async || {
                match model.write(damage.owner.clone(), n).await {
                    Ok(()) => true,
                    Err(error) => {
                        assert!(!error.is_outcome_unknown(), "{error:?}");
                        false
                    }
                }
            })
            .await;
        }
    });
    // Some owners at a time, so that the writes do not repair all of them.
    let writers = async {
        stream::iter(writers).buffer_unordered(2).collect::<()>().await;
        writing.set(false);
    };
    let repairs = async {
        let mut repaired = 0;
        while writing.get() {
            repaired += model.repair(false).await.len();
            model.repository().ensure_indexes().await.unwrap();
        }
        repaired
    };
    let (repaired, ()) = join!(repairs, writers);
    assert!(repaired > 0);
    model.repair(false).await;
    assert_eq!(model.verify().await, []);
    let found = parts().await;
    for ((damage, found), expected) in damages.iter().zip(found).zip(expected) {
        assert_eq!(found, expected, "{}", damage.owner);
    }
}

fn assert_is_read_only(db: &TestDatabase) {
    let names = db.recorder().names();
    let is_write =
        |name: &String| ["insert", "update", "delete", "findAndModify", "bulkWrite"].contains(&name.as_str());
    assert!(!names.is_empty() && !names.iter().any(is_write), "{names:?}");
}

/// Returns values as texts, which show the values of users that their `Debug` output hides.
fn sorted<T: Serialize>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    let texts = values
        .into_iter()
        .map(|value| serialize_to_bson(&value).unwrap().to_string());
    let mut texts: Vec<String> = texts.collect();
    texts.sort_unstable();
    texts
}

/// Returns all documents with the types of their values, in which NaN is equal.
fn texts(contents: &Contents) -> Vec<String> {
    let documents = contents.iter().flat_map(|(_, documents)| documents);
    documents.map(|document| format!("{document:?}")).collect()
}

/// Returns the documents of the pattern with their collections and owners.
fn owned<M: Model>(contents: &Contents) -> Vec<(&'static Stored, Bson, &Document)> {
    let owned = M::COLLECTIONS.iter().flat_map(|stored| {
        let of_name = contents.iter().filter(move |(name, _)| name == stored[0]);
        let documents = of_name.flat_map(|(_, documents)| documents);
        documents.map(move |document| (stored, M::owner(stored, document), document))
    });
    owned.collect()
}

/// Returns the values of an owner in their order, collection by collection.
fn values<M: Model>(contents: &Contents, owner: &Bson) -> Vec<Bson> {
    let mut owned = owned::<M>(contents);
    owned.retain(|(_, other, _)| other == owner);
    for of_collection in owned.chunk_by_mut(|one, other| one.0 == other.0) {
        of_collection.sort_by_key(|([.., order], _, document)| {
            let value = document.get(order)?;
            let time = value.as_datetime().map(|time| time.timestamp_millis());
            value.as_i32().map(i64::from).or(value.as_i64()).or(time)
        });
    }
    let values = owned
        .into_iter()
        .flat_map(|([.., path, _], _, document)| values_at(document.into(), path));
    values.collect()
}

/// Returns the values at a path. An array has those of all of its elements.
fn values_at(value: Bson, path: &str) -> Vec<Bson> {
    match (value, path.split_once('.').unwrap_or((path, ""))) {
        (Bson::Array(elements), _) => elements
            .into_iter()
            .flat_map(|element| values_at(element, path))
            .collect(),
        (value, ("", _)) => vec![value],
        (Bson::Document(document), (field, rest)) => {
            let value = document.get(field).cloned();
            value.map_or_else(Vec::new, |value| values_at(value, rest))
        }
        _ => Vec::new(),
    }
}
