//! A check and a repair of many documents, of those that change, and of those that another program stored twice.

use futures::{StreamExt, TryStreamExt};
use mongo_patterns::ErrorKind;
use mongo_patterns::history::{Finding, Problem, Repaired, Unrepaired};
use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::common::{all, until_error};
use support::history::*;

async fn repaired(policies: &Policies) -> Vec<Repaired> {
    policies.repair().stream().try_collect().await.unwrap()
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn findings_of_many_documents_are_streamed() {
    const MANY: i32 = 105;
    testkit::run(async |db| {
        let policies = policies(db).await;
        // More than a batch has.
        let many = (0..MANY).map(|id| {
            let mut policy = policy(id);
            policy.extend(doc! { "revision": 1, "dateSet": DateTime::now() });
            policy
        });
        current(db).insert_many(many).await.unwrap();
        let found = findings(&policies).await;
        assert_eq!(found.len(), MANY as usize);
        let unrecorded = Problem::Unrecorded { revision: 1 };
        assert!(found.iter().all(|finding| finding.problem == unrecorded));
        let names = names(db);
        assert!(names.contains("getMore"), "{names}");
        assert_eq!(repaired(&policies).await.len(), MANY as usize);
        assert_eq!(findings(&policies).await, []);
        assert_eq!(all(&revisions(db)).await.len(), MANY as usize);
    })
    .await;
}

/// Writers of two processes continue while documents are checked and repaired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn a_check_of_documents_that_change_finds_no_damage() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        for id in 1..=3 {
            policies.insert(&policy(id)).await.unwrap();
        }
        policies.delete(3).await.unwrap();
        let other = builder(db.database()).build().unwrap();
        let writers = [policies.clone(), other].map(|policies| {
            tokio::spawn(async move {
                for n in 0..30 {
                    policies.update(1 + n % 2, push("watch")).await.unwrap();
                }
            })
        });
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            assert_eq!(findings(&policies).await, []);
            assert_eq!(repaired(&policies).await, []);
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let judged = [judge(db, 1).await, judge(db, 2).await];
        assert_eq!(
            judged.map(|judged| (judged.revision, judged.missing, judged.doubled)),
            [(31, 0, 0), (31, 0, 0)]
        );
    })
    .await;
}

/// The repair comes first, as the texts of the findings say.
#[tokio::test]
async fn a_change_before_the_repair_loses_the_revision_of_another_program() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        for id in 1..=4 {
            policies.insert(&policy(id)).await.unwrap();
        }
        let (current, revisions) = (current(db), revisions(db));
        let by_another = |id: i32, change| current.update_one(doc! { "policyId": id }, change);
        let mut recorded = push("car");
        recorded.extend(doc! { "$inc": { "revision": 1 }, "$currentDate": { "dateSet": true } });
        for id in [1, 2] {
            by_another(id, recorded.clone()).await.unwrap();
        }
        for id in [3, 4] {
            by_another(id, push("car")).await.unwrap();
        }
        for id in [1, 3] {
            policies.update(id, push("watch")).await.unwrap();
        }
        assert_eq!(repaired(&policies).await.len(), 3);
        let problems: Vec<Problem> = findings(&policies)
            .await
            .into_iter()
            .map(|found| found.problem)
            .collect();
        assert_eq!(problems, [Problem::Gap { from: 2, to: 2 }]);
        for id in [2, 4] {
            policies.update(id, push("watch")).await.unwrap();
        }
        let mut kept = Vec::new();
        for id in 1..=4 {
            let stored = revisions.find(doc! { "policyId": id }).sort(doc! { "revision": 1 });
            let stored: Vec<_> = stored.await.unwrap().try_collect().await.unwrap();
            kept.push(stored.iter().map(|revision| items(revision).len()).collect::<Vec<_>>());
        }
        assert_eq!(kept, [vec![0, 2], vec![0, 1, 2], vec![0, 2], vec![0, 1, 2]]);
    })
    .await;
}

fn stored(id: impl Into<Bson>, revision: impl Into<Bson>, name: &str) -> Document {
    doc! {
        "_id": ObjectId::new(), "policyId": id.into(), "customerName": name, "itemsInsured": [], "revision": revision.into(),
        "dateSet": DateTime::from_millis(1000),
    }
}

/// Returns the findings, and the kind of the error after them.
async fn verified(policies: &Policies) -> (Vec<Finding>, ErrorKind) {
    let (found, error) = until_error(policies.verify().stream()).await;
    assert_eq!(error.operation(), Some("verify"));
    (found, error.kind())
}

#[tokio::test]
async fn documents_and_revisions_that_are_stored_twice_are_named_before_the_indexes_exist() {
    testkit::run(async |db| {
        let policies = builder(db.database()).build().unwrap();
        let now = [
            stored(1, 1, "a"),
            stored(1_i64, 1, "b"),
            stored(2, 1, "a"),
            stored(Bson::Null, 1, "a"),
        ];
        let copies = [
            stored(1, 1, "a"),
            stored(1, 2, "a"),
            stored(1.0, 2_i64, "b"),
            stored(2, 1, "a"),
        ];
        current(db).insert_many(&now).await.unwrap();
        revisions(db).insert_many(&copies).await.unwrap();
        let ids =
            |documents: [&Document; 2]| -> Vec<Bson> { documents.map(|one| one.get("_id").unwrap().clone()).to_vec() };
        let (found, error) = verified(&policies).await;
        assert_eq!(error, ErrorKind::IndexMissing);
        let found: Vec<(Bson, Problem, Vec<Bson>)> = found
            .into_iter()
            .map(|found| (found.document_id, found.problem, found.document_ids))
            .collect();
        assert_eq!(
            found,
            [
                (1.into(), Problem::DuplicateId { documents: 2 }, ids([&now[0], &now[1]])),
                (
                    1.into(),
                    Problem::DuplicateRevision { revisions: 2 },
                    ids([&copies[1], &copies[2]])
                ),
            ]
        );

        let error = policies.ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert!(error.to_string().contains("verify()"), "{error}");

        // A repair decides nothing.
        policies.ensure_indexes().replace_settings().await.unwrap_err();
        let before = [all(&current(db)).await, all(&revisions(db)).await];
        let repaired: Vec<_> = policies.repair().stream().collect().await;
        let (last, repaired) = repaired.split_last().unwrap();
        assert_eq!(last.as_ref().unwrap_err().kind(), ErrorKind::IndexMissing);
        assert_eq!(repaired.len(), 2);
        for one in repaired {
            assert_eq!(one.as_ref().unwrap().unrepaired, Some(Unrepaired::Duplicate));
        }
        assert_eq!([all(&current(db)).await, all(&revisions(db)).await], before);

        // With the named ones corrected, everything else is checked.
        current(db).delete_one(doc! { "_id": now[1].get("_id") }).await.unwrap();
        current(db).delete_one(doc! { "_id": now[3].get("_id") }).await.unwrap();
        revisions(db)
            .delete_one(doc! { "_id": copies[2].get("_id") })
            .await
            .unwrap();
        assert_eq!(verified(&policies).await, (vec![], ErrorKind::IndexMissing));
        policies.ensure_indexes().await.unwrap();
        let left: Vec<Problem> = findings(&policies).await.iter().map(|found| found.problem).collect();
        assert!(left.contains(&Problem::Ahead { revision: 2 }), "{left:?}");
    })
    .await;
}
