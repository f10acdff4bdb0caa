//! Damage by other programs: `verify` names it, and `repair` corrects what can be known.

use futures::TryStreamExt;
use mongo_patterns::history::{Problem, Repaired, Unrepaired};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::common::support::all;
use crate::history::support::*;

/// Stores policy 1 with five revisions, policy 2 with two, and policy 3 with two and a deletion.
async fn sound(db: &TestDatabase) -> Policies {
    let policies = policies(db).await;
    for (id, revisions) in [(1, 5), (2, 2), (3, 2)] {
        policies.insert(&policy(id)).await.unwrap();
        for n in 2..=revisions {
            policies.update(id, push(&n.to_string())).await.unwrap();
        }
    }
    policies.delete(3).await.unwrap();
    policies
}

async fn repaired(policies: &Policies) -> Vec<Repaired> {
    policies.repair().stream().try_collect().await.unwrap()
}

async fn contents(db: &TestDatabase) -> [Vec<Document>; 2] {
    [all(&current(db)).await, all(&revisions(db)).await]
}

fn of(id: i32, revision: i32) -> Document {
    doc! { "policyId": id, "revision": revision }
}

/// A change of the stored documents by another program.
#[derive(Debug)]
enum Damage {
    Update(&'static str, Document, Document),
    Delete(&'static str, Document),
    Insert(&'static str, Document),
}

const CURRENT: &str = "currentPolicies";
const REVISIONS: &str = "policyRevisions";

/// Damages with their findings, and what a repair cannot correct.
fn damages() -> Vec<(Damage, Problem, Option<Unrepaired>)> {
    use Damage::{Delete, Insert, Update};
    let set = |field: &str, value: Bson| doc! { "$set": { field: value } };
    let early = DateTime::from_millis(5);
    let mut ahead = policy(1);
    ahead.extend(doc! { "revision": 6, "dateSet": DateTime::now() });
    vec![
        (
            // The manual's first command, without the second.
            Update(
                CURRENT,
                of(1, 5),
                doc! { "$push": { "itemsInsured": "6" }, "$inc": { "revision": 1 }, "$currentDate": { "dateSet": true } },
            ),
            Problem::Unrecorded { revision: 6 },
            None,
        ),
        (Delete(REVISIONS, of(1, 5)), Problem::Unrecorded { revision: 5 }, None),
        (
            Update(CURRENT, of(1, 5), set("customerName", "Joe".into())),
            Problem::Different { revision: 5 },
            None,
        ),
        (
            Delete(REVISIONS, of(1, 3)),
            Problem::Gap { from: 3, to: 3 },
            Some(Unrepaired::Unknown),
        ),
        (
            Update(REVISIONS, of(1, 3), set("dateSet", early.into())),
            Problem::TimeReversed { revision: 3 },
            Some(Unrepaired::Unknown),
        ),
        (
            Insert(REVISIONS, ahead),
            Problem::Ahead { revision: 6 },
            Some(Unrepaired::Ahead),
        ),
        (
            Delete(CURRENT, of(1, 5)),
            Problem::CurrentMissing { revision: 5 },
            Some(Unrepaired::CurrentMissing),
        ),
        (
            Update(CURRENT, of(1, 5), set("revision", "five".into())),
            Problem::Invalid,
            Some(Unrepaired::Invalid),
        ),
    ]
}

async fn apply(db: &TestDatabase, damage: &Damage) {
    let collection = |name: &str| db.plain_collection::<Document>(name);
    match damage {
        Damage::Update(name, filter, update) => {
            let updated = collection(name)
                .update_one(filter.clone(), update.clone())
                .await
                .unwrap();
            assert_eq!(updated.modified_count, 1);
        }
        Damage::Delete(name, filter) => {
            assert_eq!(
                collection(name).delete_one(filter.clone()).await.unwrap().deleted_count,
                1
            );
        }
        Damage::Insert(name, document) => drop(collection(name).insert_one(document).await.unwrap()),
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn each_kind_of_damage_is_found_and_repaired_where_it_can_be_known() {
    testkit::run(async |db| {
        for (damage, problem, unrepaired) in damages() {
            let policies = sound(db).await;
            assert_eq!(findings(&policies).await, []);
            apply(db, &damage).await;
            let damaged = contents(db).await;
            let found = findings(&policies).await;
            assert!(
                found.iter().all(|finding| finding.document_id == 1.into()),
                "{damage:?}: {found:?}"
            );
            let problems: Vec<&Problem> = found.iter().map(|finding| &finding.problem).collect();
            assert!(problems.contains(&&problem), "{damage:?}: {problems:?}");
            let dry: Vec<Repaired> = policies.repair().dry_run().stream().try_collect().await.unwrap();
            assert_eq!(dry.len(), found.len(), "{damage:?}");
            assert_eq!(contents(db).await, damaged, "{damage:?}: a dry run changes nothing");

            let done = repaired(&policies).await;
            let of_problem = done
                .iter()
                .find(|repaired| repaired.findings[0].problem == problem)
                .unwrap();
            assert_eq!(of_problem.unrepaired, unrepaired, "{damage:?}");
            if unrepaired.is_none() {
                assert_eq!(found.len(), 1, "{damage:?}: {found:?}");
                assert_eq!(findings(&policies).await, [], "{damage:?}");
                let now = current(db).find_one(doc! { "policyId": 1 }).await.unwrap().unwrap();
                assert_eq!(judge(db, 1).await.different, 0, "{damage:?}");
                let next = policies.update(1, push("after")).await.unwrap().revision;
                assert_eq!(next as i64, number(&now, "revision") + 1);
                assert_eq!(findings(&policies).await, [], "{damage:?}");
            } else {
                assert_eq!(contents(db).await, damaged, "{damage:?}: nothing is changed on a guess");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn pruned_revisions_are_no_gap() {
    testkit::run(async |db| {
        let policies = sound(db).await;
        policies.prune(1).keep_last(2).await.unwrap();
        policies.prune(3).keep_last(1).await.unwrap();
        assert_eq!(findings(&policies).await, []);
        assert!(repaired(&policies).await.is_empty());
        revisions(db).delete_one(of(1, 4)).await.unwrap();
        assert_eq!(findings(&policies).await, [], "this is a prune too");
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn findings_of_many_documents_are_streamed() {
    const MANY: i32 = 105;
    testkit::run(async |db| {
        let policies = policies(db).await;
        // More than a batch has.
        let many: Vec<Document> = (0..MANY)
            .map(|id| {
                let mut policy = policy(id);
                policy.extend(doc! { "revision": 1, "dateSet": DateTime::now() });
                policy
            })
            .collect();
        current(db).insert_many(&many).await.unwrap();
        let found = findings(&policies).await;
        assert_eq!(found.len(), MANY as usize);
        assert!(
            found
                .iter()
                .all(|finding| finding.problem == Problem::Unrecorded { revision: 1 })
        );
        assert!(
            db.recorder().names().contains(&"getMore".to_owned()),
            "{:?}",
            db.recorder().names()
        );
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
        let policies = sound(db).await;
        let other = builder(db.database()).build().unwrap();
        let writers = [policies.clone(), other].map(|policies| {
            tokio::spawn(async move {
                for n in 0..60 {
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
            [(65, 0, 0), (62, 0, 0)]
        );
    })
    .await;
}
