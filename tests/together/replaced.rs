//! Calls that replace or restore a document, beside repositories that own fields of it.

use std::collections::BTreeMap;

use futures::future::join_all;
use mongo_patterns_testkit::{self as testkit, RecordedCommand, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::owners::{One, Place};
use super::replacers::{Replacer, places};
use support::common::dropped_commands;

/// Drops what an earlier place has stored.
pub(super) async fn empty(db: &TestDatabase) {
    db.plain_client().database(db.database().name()).drop().await.unwrap();
}

async fn set_up(replacer: &dyn Replacer, owners: &[One]) {
    replacer.repository().ensure_indexes().await.unwrap();
    for owner in owners {
        owner.repository().ensure_indexes().await.unwrap();
    }
}

async fn begin(replacer: &dyn Replacer, owners: &[One], id: i32) {
    replacer.insert(id).await.unwrap();
    for owner in owners {
        owner.begin(id).await;
    }
}

#[tokio::test]
async fn each_call_keeps_what_each_other_repository_owns() {
    testkit::run(async |db| {
        for (place, replacer, owners) in places(db) {
            empty(db).await;
            // The order of the set-ups does not matter: this repository is the first.
            set_up(&*replacer, &owners).await;
            begin(&*replacer, &owners, 1).await;
            let mut written = Vec::new();
            let mut write = async |times: i32| {
                for _ in 0..times {
                    written.push(written.len() as i32 + 1);
                    for owner in &owners {
                        owner.write(1, *written.last().unwrap()).await;
                    }
                }
                written.clone()
            };
            write(12).await;
            for call in replacer.calls() {
                let context = format!("{}, {call}", replacer.repository().pattern());
                let content = doc! { "$set": { "other": "content" } };
                let plain = db.plain_collection::<Document>(place.collection);
                plain.update_one(doc! { "_id": 1 }, content).await.unwrap();
                let before = place.stored(1).await;
                replacer.replace(call, 1, 1000).await.unwrap();
                let after = place.stored(1).await;
                for field in owners.iter().flat_map(|owner| owner.fields()) {
                    assert!(before.contains_key(field), "{context}: {field}");
                    assert_eq!(after.get(field), before.get(field), "{context}: {field}");
                }
                assert!(!after.contains_key("other"), "{context}");
                let number = if *call == "restore" { 0 } else { 1000 };
                assert_eq!(
                    after.get_str("name").unwrap(),
                    format!("replaced, {number}"),
                    "{context}"
                );
                let written = write(2).await;
                for owner in &owners {
                    owner.check(1, &written).await;
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn eight_writers_of_others_and_eight_that_replace_lose_nothing() {
    const DOCUMENTS: i32 = 3;
    const EACH: i32 = 12;
    testkit::run(async |db| {
        for number in 0..places(db).len() {
            empty(db).await;
            // Two processes.
            let processes: Vec<_> = (0..2).map(|_| places(db).swap_remove(number)).collect();
            for (_, replacer, owners) in &processes {
                set_up(&**replacer, owners).await;
            }
            let (_, replacer, owners) = &processes[0];
            for id in 0..DOCUMENTS {
                begin(&**replacer, owners, id).await;
            }
            let others = (0..8).map(async |task: i32| {
                let (_, _, owners) = &processes[task as usize % 2];
                let owner = task as usize % owners.len();
                let mut written = Vec::new();
                for n in 0..EACH {
                    let (id, n) = ((task + n) % DOCUMENTS, task * EACH + n);
                    owners[owner].write(id, n).await;
                    written.push((owner, id, n));
                }
                written
            });
            let replaced = (0..8).map(async |task: i32| {
                let (_, replacer, _) = &processes[task as usize / 4];
                let calls = replacer.calls();
                let mut made = Vec::new();
                for n in 0..EACH {
                    let (id, call) = ((task + n) % DOCUMENTS, calls[(task + n) as usize % calls.len()]);
                    replacer.replace(call, id, task * EACH + n).await.unwrap();
                    made.push(id);
                }
                made
            });
            let (written, made) = futures::join!(join_all(others), join_all(replaced));
            dropped_commands(db).await;

            let mut of_owner: BTreeMap<(usize, i32), Vec<i32>> = BTreeMap::new();
            for (owner, id, n) in written.into_iter().flatten() {
                of_owner.entry((owner, id)).or_default().push(n);
            }
            let made: Vec<i32> = made.into_iter().flatten().collect();
            for id in 0..DOCUMENTS {
                for (owner, one) in owners.iter().enumerate() {
                    one.check(id, &of_owner[&(owner, id)]).await;
                }
            }
            let calls = |of: i32| made.iter().filter(|id| **id == of).count();
            let calls: Vec<_> = (0..DOCUMENTS).map(|id| (id, calls(id))).collect();
            replacer.check(db, &calls).await;
        }
    })
    .await;
}

/// Returns the names of the commands that a call sends, and the commands.
pub(super) async fn sent<T>(db: &TestDatabase, call: impl IntoFuture<Output = T>) -> (T, Vec<String>, Vec<Document>) {
    db.recorder().clear();
    let done = call.into_future().await;
    let essences = db.recorder().commands().iter().map(RecordedCommand::essence).collect();
    (done, db.recorder().names(), essences)
}

fn is_of_catalog(command: &Document) -> bool {
    command.get("find") == Some(&"mongo_patterns".into())
}

/// A repository that was set up before another one, and one that was never set up, read the catalog once.
#[tokio::test]
async fn a_repository_learns_of_others_whatever_the_order_of_the_set_ups() {
    testkit::run(async |db| {
        for (place, replacer, _) in places(db) {
            empty(db).await;
            replacer.repository().ensure_indexes().await.unwrap();
            replacer.insert(1).await.unwrap();
            let first = replacer.calls()[0];
            let replaced = async |replacer: &dyn Replacer, reads: usize| {
                let (done, _, commands) = sent(db, replacer.replace(first, 1, 5)).await;
                done.unwrap();
                let read = commands.iter().filter(|command| is_of_catalog(command)).count();
                assert_eq!(read, reads, "{}: {commands:?}", replacer.repository().pattern());
            };
            replaced(&*replacer, 0).await;

            let (counters, embedded) = (place.counters(), place.embedded());
            counters.repository().ensure_indexes().await.unwrap();
            counters.write(1, 1).await;
            replaced(&*replacer, 1).await;
            replaced(&*replacer, 0).await;
            counters.check(1, &[1]).await;
            // Of another collection.
            let elsewhere = Place {
                collection: "elsewhere",
                ..place.clone()
            };
            elsewhere.counters().repository().ensure_indexes().await.unwrap();
            replaced(&*replacer, 0).await;
            // Once more, for what is set up already.
            counters.repository().ensure_indexes().await.unwrap();
            replaced(&*replacer, 0).await;

            // Those of a program that does not set them up.
            let number = places(db)
                .iter()
                .position(|(_, one, _)| one.repository().pattern() == replacer.repository().pattern());
            let (_, without, _) = places(db).swap_remove(number.unwrap());
            replaced(&*without, 1).await;
            replaced(&*without, 0).await;
            counters.check(1, &[1]).await;

            if place.collection == "prices" {
                // The documents of intervals are no parents.
                embedded.repository().ensure_indexes().await.unwrap_err();
                replaced(&*without, 0).await;
                continue;
            }
            embedded.repository().ensure_indexes().await.unwrap();
            embedded.write(1, 7).await;
            replaced(&*without, 1).await;
            replaced(&*replacer, 1).await;
            embedded.check(1, &[7]).await;
        }
    })
    .await;
}

/// A repository alone sends what it did before there were others.
#[tokio::test]
async fn a_repository_that_shares_its_documents_with_no_other_sends_the_document_alone() {
    testkit::run(async |db| {
        let literal = |document: Document| doc! { "$literal": document };
        let of_history = |content: Document| {
            let own = doc! {
                "_id": "$_id", "revision": { "$add": ["$revision", 1] },
                "at": { "$max": [{ "$add": ["$at", 1] }, "$$NOW"] },
            };
            let merged = vec![doc! { "_id": "$_id" }, literal(content), own];
            Bson::from(vec![doc! { "$replaceWith": { "$mergeObjects": merged } }])
        };
        let content = || doc! { "name": "replaced, 5" };
        for (_, replacer, _) in places(db) {
            empty(db).await;
            let set_up = replacer.repository().ensure_indexes();
            set_up.await.unwrap();
            replacer.insert(1).await.unwrap();
            for call in replacer.calls() {
                let pattern = replacer.repository().pattern();
                let (done, _, commands) = sent(db, replacer.replace(call, 1, 5)).await;
                done.unwrap();
                assert!(!commands.iter().any(is_of_catalog), "{pattern}: {commands:?}");
                let update = commands
                    .iter()
                    .find_map(|command| match command.get("update")?.as_str()? {
                        "notes" | "orders" => command.get_array("updates").ok()?[0].as_document()?.get("u"),
                        _ => None,
                    });
                let changed = commands.iter().find_map(|command| {
                    command.get("findAndModify")?;
                    command.get("update")
                });
                match (pattern, *call) {
                    ("history", "restore") => {
                        let first = doc! { "schemaVersion": 1, "name": "replaced, 0" };
                        assert_eq!(changed, Some(&of_history(first)));
                    }
                    ("history", _) => assert_eq!(changed, Some(&of_history(content()))),
                    ("schema", _) => {
                        let mut whole = content();
                        whole.insert("schemaVersion", 2);
                        assert_eq!(update, Some(&whole.into()));
                    }
                    ("intervals", _) => {
                        let merged = changed.unwrap().as_array().unwrap()[0].as_document().unwrap();
                        let merged = merged.get_document("$replaceWith").unwrap();
                        let merged = merged.get_array("$mergeObjects").unwrap();
                        assert_eq!(merged.len(), 3);
                        assert_eq!(merged[1], literal(doc! { "item": 1, "name": "replaced, 5" }).into());
                    }
                    (_, _) => {
                        let replaced = changed.unwrap().as_document().unwrap();
                        assert_eq!(replaced.get_str("name").unwrap(), "replaced, 5", "{commands:?}");
                    }
                }
            }
        }
    })
    .await;
}
