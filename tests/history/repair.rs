//! A check and a repair of many documents, and of those that change.

use futures::TryStreamExt;
use mongo_patterns::history::{Problem, Repaired};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{DateTime, doc};

use support::common::all;
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
