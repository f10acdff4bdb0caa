//! Old revisions that are archived instead of deleted.

use std::collections::HashMap;
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::archive::{Archive, ArchiveBuilder};
use mongo_patterns::{ErrorKind, Repository, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::archive::sales::{AGE, new, old};
use support::common::{all, dropped_commands};
use support::explain::explain;
use support::history;
use support::history::{Policies, current, number, policies, policy, push, revisions};
use support::pace::Pace;

fn builder(db: &TestDatabase) -> ArchiveBuilder<Document> {
    let [hot, cold] = ["policyRevisions", "archivedRevisions"].map(|name| db.collection::<Document>(name));
    let archive = Archive::builder(hot, cold).age_field("dateSet").older_than(AGE);
    archive.keep_newest_by("policyId")
}

fn cold(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("archivedRevisions")
}

async fn office(db: &TestDatabase) -> (Policies, Archive<Document>) {
    let (policies, archive) = (policies(db).await, builder(db).build().unwrap());
    archive.ensure_indexes().await.unwrap();
    db.recorder().clear();
    (policies, archive)
}

/// Stores policies with a revision at each of these times.
async fn plant(db: &TestDatabase, histories: &[(i32, Vec<DateTime>)]) {
    for collection in [current(db), revisions(db), cold(db)] {
        collection.delete_many(doc! {}).await.unwrap();
    }
    let (mut newest, mut stored) = (Vec::new(), Vec::new());
    for (id, times) in histories {
        let mut document = policy(*id);
        for (number, time) in (1_i32..).zip(times) {
            document.extend(doc! { "revision": number, "dateSet": time });
            stored.push(document.clone());
        }
        newest.push(document);
    }
    current(db).insert_many(newest).await.unwrap();
    revisions(db).insert_many(stored).await.unwrap();
    db.recorder().clear();
}

/// Policies of which all, some, one or none of the revisions are old.
fn histories() -> Vec<(i32, Vec<DateTime>)> {
    let old = |minutes: std::ops::Range<i64>| minutes.map(old);
    vec![
        (1, old(1..6).chain([new(5), new(3)]).collect()),
        (2, old(3..9).collect()),
        (3, vec![new(2), new(1)]),
        (4, old(4..5).chain([new(1)]).collect()),
    ]
}

/// Returns the numbers of the revisions of each policy.
async fn numbers(collection: &Collection<Document>) -> HashMap<i64, Vec<i64>> {
    let mut numbers: HashMap<i64, Vec<i64>> = HashMap::new();
    for revision in all(collection).await {
        let of_policy = numbers.entry(number(&revision, "policyId")).or_default();
        of_policy.push(number(&revision, "revision"));
        of_policy.sort_unstable();
    }
    numbers
}

async fn assert_sound(policies: &Policies) {
    let found: Vec<_> = policies.verify().stream().try_collect().await.unwrap();
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn the_revisions_that_a_deletion_keeps_stay() {
    testkit::run(async |db| {
        let (policies, archive) = office(db).await;
        plant(db, &histories()).await;
        for id in 1..=4 {
            policies.delete_before(id, old(100)).await.unwrap();
        }
        let kept = numbers(&revisions(db)).await;
        plant(db, &histories()).await;
        let due = archive.due().await.unwrap();
        assert_eq!((due.documents, due.oldest), (4 + 5, Some(old(1))));
        let planned = archive.run().plan().await.unwrap().migrated;
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.oldest), (9, Some(old(1))));
        assert_eq!(planned, moved);
        assert_eq!(numbers(&revisions(db)).await, kept);
        assert_eq!(
            numbers(&cold(db)).await,
            HashMap::from([(1, (1..5).collect()), (2, (1..6).collect())])
        );
        assert_sound(&policies).await;
        for (id, time, revision) in [(1, old(100), 5), (1, new(4), 6), (2, old(100), 6), (4, new(30), 1)] {
            assert_eq!(policies.as_of(id, time).await.unwrap().unwrap().revision, revision);
        }
        assert_eq!(archive.due().await.unwrap().documents, 0);
        db.recorder().clear();
        assert_eq!(archive.run().await.unwrap().documents, 0);
        let names = db.recorder().names();
        let commands = ["find", "aggregate", "find", "commitTransaction"];
        assert_eq!(names[4..], commands, "{names:?}");
        // The numbers continue.
        assert_eq!(policies.update(2, push("watch")).await.unwrap().revision, 7);
        assert_eq!(archive.restore_many(doc! { "policyId": 1 }).await.unwrap().documents, 4);
        assert_sound(&policies).await;
    })
    .await;
}

/// Revisions of one time, and documents without a value, or with one that is no id, stay.
#[tokio::test]
async fn what_is_not_older_than_the_newest_stays() {
    testkit::run(async |db| {
        let archive = builder(db).build().unwrap();
        archive.ensure_indexes().await.unwrap();
        let of = |id: i32, policy: Bson, time: DateTime| doc! { "_id": id, "policyId": policy, "dateSet": time };
        let stored = [
            of(1, 1.into(), old(0)),
            of(2, 1.0.into(), old(1)),
            of(3, Bson::Int64(1), old(1)),
            of(4, Bson::Null, old(0)),
            of(5, Bson::Null, old(1)),
            doc! { "_id": 6, "dateSet": old(0) },
            of(7, vec![1, 8].into(), old(0)),
            of(8, doc! { "$gt": 1 }.into(), old(0)),
            of(9, doc! { "$gt": 1 }.into(), old(1)),
        ];
        revisions(db).insert_many(stored).await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 2);
        let ids: Vec<_> = all(&cold(db))
            .await
            .iter()
            .map(|one| one.get_i32("_id").unwrap())
            .collect();
        assert_eq!(ids, [1, 8]);
    })
    .await;
}

/// A run that ends after any of its commands.
#[tokio::test]
async fn an_interrupted_run_leaves_no_gap() {
    testkit::run(async |db| {
        let (policies, archive) = office(db).await;
        for commands in (5..40).step_by(3) {
            plant(db, &histories()).await;
            tokio::select! {
                moved = archive.run().chunk(2).into_future() => drop(moved.unwrap()),
                () = db.recorder().sent(commands) => {}
            }
            dropped_commands(db).await;
            assert_sound(&policies).await;
            archive.run().await.unwrap();
            assert_sound(&policies).await;
            assert_eq!(cold(db).count_documents(doc! {}).await.unwrap(), 9, "{commands}");
        }
    })
    .await;
}

/// A revision that cannot move ends the run, so that no newer one moves before it.
#[tokio::test]
async fn a_revision_that_cannot_move_ends_the_run() {
    testkit::run(async |db| {
        let (policies, archive) = office(db).await;
        plant(db, &histories()).await;
        let filter = doc! { "policyId": 2, "revision": 3 };
        let third = revisions(db).find_one(filter.clone()).await.unwrap().unwrap();
        cold(db).insert_one(&third).await.unwrap();
        let refused = archive.run().chunk(2).await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.document_id()),
            (ErrorKind::AlreadyExists, third.get("_id"))
        );
        assert_sound(&policies).await;
        archive.run().replace_archived().await.unwrap();
        assert_eq!(cold(db).count_documents(doc! {}).await.unwrap(), 9);

        plant(db, &histories()).await;
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let stored = revisions(db);
        let hold = stored.update_one(filter, doc! { "$set": { "held": true } });
        hold.session(&mut session).await.unwrap();
        let policy = RetryPolicy::default().with_max_elapsed(Duration::from_millis(300));
        let hurried = builder(db).retry(policy).build().unwrap();
        let refused = hurried.run().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Contention);
        session.abort_transaction().await.unwrap();
        assert_sound(&policies).await;
        archive.run().await.unwrap();
        assert_eq!(cold(db).count_documents(doc! {}).await.unwrap(), 9);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_beside_runs_leave_no_gap() {
    testkit::run(async |db| {
        let (policies, archive) = office(db).await;
        for id in 0..4 {
            policies.insert(&policy(id)).await.unwrap();
        }
        let pace = Pace::of(0);
        // Not recorded: their commands would allow further ones.
        let plain = db.plain_client().database(db.database().name());
        let writing = history::builder(&plain).build().unwrap();
        let writers = (0..4).map(|writer| {
            let (pace, policies) = (pace.clone(), &writing);
            async move {
                while pace.next().await {
                    policies.update(writer, push("item")).await.unwrap();
                }
            }
        });
        let runs = async {
            let work = async {
                for _ in 0..8 {
                    let run = || archive.run().before(DateTime::now()).chunk(50).into_future();
                    let (first, second) = tokio::join!(run(), run());
                    first.unwrap();
                    second.unwrap();
                }
            };
            pace.beside(db, 2, work).await;
            pace.end();
        };
        tokio::join!(join_all(writers), runs);
        assert_sound(&policies).await;
        let (hot, cold) = (numbers(&revisions(db)).await, numbers(&cold(db)).await);
        assert!(!cold.is_empty());
        for (id, numbers) in hot {
            let all: Vec<i64> = cold.get(&id).into_iter().flatten().chain(&numbers).copied().collect();
            assert!(all.iter().copied().eq(1..=all.len() as i64), "{id}: {all:?}");
        }
    })
    .await;
}

/// One key of the index for each value, however many revisions it has.
#[tokio::test]
async fn the_newest_is_found_by_the_index() {
    testkit::run(async |db| {
        let (_, archive) = office(db).await;
        let histories: Vec<_> = (0..3).map(|id| (id, (0..100).map(old).collect())).collect();
        plant(db, &histories).await;
        archive.run().chunk(30).await.unwrap();
        let commands = db.recorder().commands();
        let newest = commands.iter().find(|command| command.name == "aggregate").unwrap();
        plant(db, &histories).await;
        let examined = explain(db, newest).await;
        assert_eq!(examined.index, "policyId_1_dateSet_1_revision_1");
        assert!(examined.keys <= 8 && examined.documents == 0, "{examined:?}");
    })
    .await;
}
