//! `upsert`: one revision, whether the document exists or not.

use std::collections::BTreeSet;

use futures::future::join_all;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::history::*;

fn with_items(id: impl Into<Bson>, items: &[&str]) -> Document {
    let mut policy = policy(id);
    policy.insert("itemsInsured", items);
    policy
}

#[tokio::test]
async fn a_document_is_inserted_or_replaced_with_one_revision() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.upsert(&policy(0)).await.unwrap();
        db.recorder().clear();
        let inserted = policies.upsert(&with_items(1, &["car"])).await.unwrap();
        assert_eq!(inserted.revision, 1);
        assert_eq!(
            names(db),
            "findAndModify find find findAndModify insert commitTransaction"
        );
        let mut other = with_items(1, &["ring"]);
        other.extend(doc! { "_id": "another", "revision": 77 });
        let replaced = policies.upsert(&other).await.unwrap();
        assert_eq!(replaced.revision, 2);
        assert!(replaced.time > inserted.time);
        assert_eq!(names(db), "findAndModify insert commitTransaction");
        let equal = policies.upsert(&with_items(1_i64, &["ring"])).await.unwrap();
        assert_eq!(equal.revision, 3, "each call is a revision");
        policies.delete(1).await.unwrap();
        assert_eq!(policies.upsert(&policy(1)).await.unwrap().revision, 5);
        let copies = copies(db, 1).await;
        let found: Vec<Vec<String>> = copies
            .iter()
            .filter(|copy| !copy.contains_key("deleted"))
            .map(items)
            .collect();
        assert_eq!(found, [vec!["car"], vec!["ring"], vec!["ring"], vec![]]);
        assert_eq!(judge(db, 1).await.revision, 5);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_upserts_of_a_new_document_are_its_first_revisions() {
    testkit::run(async |db| {
        let processes = [policies(db).await, policies(db).await];
        let writers = (0..16).map(|writer: usize| {
            let policies = processes[writer % 2].clone();
            tokio::spawn(async move {
                let name = writer.to_string();
                let upserted = policies.upsert(&with_items(1, &[&name])).await.unwrap();
                if writer.is_multiple_of(4) {
                    policies.delete(1).await.unwrap();
                }
                (upserted.revision, name)
            })
        });
        let written: Vec<(u64, String)> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
        let distinct: BTreeSet<u64> = written.iter().map(|(revision, _)| *revision).collect();
        assert_eq!(distinct.len(), 16);
        let copies = copies(db, 1).await;
        for (revision, name) in written {
            let stored = &copies[usize::try_from(revision).unwrap() - 1];
            assert_eq!(items(stored), [name]);
        }
        assert_eq!(findings(&processes[0]).await, []);
    })
    .await;
}
