//! Histories that move with their revisions.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::try_join_all;
use mongo_patterns::archive::Archive;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};

use super::books::problems;
use super::sales::{beside_blocked, beside_writers};
use support::archive::sales::{AGE, new};
use support::common::all;
use support::history::{Policies, builder, policy, policy_by_id, push};

const COLD: [&str; 2] = ["archivedPolicies", "archivedRevisions"];

/// After all that a test writes.
fn later() -> DateTime {
    new(-60)
}

fn cold_in(database: &Database, id: &str) -> Policies {
    let [current, revisions] = COLD.map(|name| database.collection::<Document>(name));
    let cold = Policies::builder(current, revisions).id_field(id);
    cold.revision_field("revision").time_field("dateSet").build().unwrap()
}

/// Returns the repositories of both, and the archive, of policies with an id or by `_id`.
async fn office(db: &TestDatabase, id: &str) -> ([Policies; 2], Archive<Document>) {
    let database = db.database();
    let policies = [builder(database).id_field(id).build().unwrap(), cold_in(database, id)];
    for policies in &policies {
        policies.ensure_indexes().await.unwrap();
    }
    let collection = |name| database.collection::<Document>(name);
    let archive = Archive::builder(collection("currentPolicies"), collection(COLD[0]));
    let archive = archive.age_field("dateSet").older_than(AGE).id_field(id);
    let owner = if id == "_id" { "documentId" } else { id };
    let archive = archive.related(collection("policyRevisions"), collection(COLD[1]), owner);
    let archive = archive.build().unwrap();
    archive.ensure_indexes().await.unwrap();
    db.recorder().clear();
    (policies, archive)
}

async fn assert_sound(policies: &[Policies; 2], archive: &Archive<Document>) {
    for policies in policies {
        let found: Vec<_> = policies.verify().stream().try_collect().await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
    assert_eq!(problems(archive).await, []);
}

#[tokio::test]
async fn a_history_moves_there_and_back() {
    for id in ["policyId", "_id"] {
        testkit::run(async |db| {
            let (policies, archive) = office(db, id).await;
            let [hot, cold] = &policies;
            let policy = |number: i32| match id {
                "_id" => policy_by_id(number),
                _ => policy(number),
            };
            for number in 1..=2 {
                hot.insert(&policy(number)).await.unwrap();
                for item in 0..number {
                    hot.update(number, push(&item.to_string())).await.unwrap();
                }
            }
            // The revisions of a deleted document have none to move with.
            hot.insert(&policy(3)).await.unwrap();
            hot.delete(3).await.unwrap();
            let valid = hot.at(2, 2).await.unwrap().unwrap();
            let moved = archive.run().before(later()).await.unwrap();
            assert_eq!((moved.documents, moved.related), (2, 2 + 3));
            assert!(hot.get(2).await.unwrap().is_none());
            assert_eq!(cold.get(2).await.unwrap().unwrap().revision, 3);
            assert_eq!(cold.as_of(2, valid.time).await.unwrap().unwrap(), valid);
            assert_sound(&policies, &archive).await;
            let update = hot.update(2, push("late")).await.unwrap_err();
            assert_eq!(update.kind(), ErrorKind::NotFound);

            // Inserted again: it stays, as a whole.
            hot.insert(&policy(1)).await.unwrap();
            let again = archive.run().before(later()).await.unwrap();
            assert_eq!((again.documents, again.conflicts), (0, 1));
            hot.delete(1).await.unwrap();
            let first = doc! { "revision": { "$lte": 2 } };
            hot.revisions_collection().delete_many(first).await.unwrap();

            let found = cold.collection().find_one(doc! { id: 2 }).await.unwrap().unwrap();
            archive.restore(found.get("_id").unwrap().clone()).await.unwrap();
            assert_eq!(hot.update(2, push("more")).await.unwrap().revision, 4);
            assert_eq!(hot.as_of(2, valid.time).await.unwrap().unwrap(), valid);
            assert_sound(&policies, &archive).await;
        })
        .await;
    }
}

/// An update after the chunk has read the revisions stores another one.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_update_between_the_read_and_the_deletion_is_archived() {
    testkit::run(async |db| {
        let (policies, archive) = office(db, "policyId").await;
        policies[0].insert(&policy(1)).await.unwrap();
        let plain = db.plain_client().database(db.database().name());
        let other = builder(&plain).build().unwrap();
        other.update(1, push("car")).await.unwrap();
        let deletes = ("delete", Duration::from_millis(500));
        let update = other.update(1, push("watch")).into_future();
        let (moved, updated) = beside_blocked(db, deletes, archive.run().before(later()), update).await;
        updated.unwrap();
        let moved = moved.unwrap();
        assert_eq!((moved.documents, moved.related), (1, 3));
        assert_eq!(policies[1].get(1).await.unwrap().unwrap().revision, 3);
        assert_sound(&policies, &archive).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_revision_is_lost_beside_runs_and_restores() {
    testkit::run(no_revision_is_lost).await;
}

async fn no_revision_is_lost(db: &TestDatabase) {
    const POLICIES: i32 = 6;
    /// The most updates: each revision moves in each round, so their number is bounded, and so is their size.
    const UPDATES: i64 = 100;
    let (policies, archive) = office(db, "policyId").await;
    let [hot, _] = &policies;
    // Not recorded: their commands would allow further ones.
    let processes = [(); 2].map(|()| {
        let plain = db.plain_client().database(db.database().name());
        builder(&plain).build().unwrap()
    });
    for id in 0..POLICIES {
        hot.insert(&policy(id)).await.unwrap();
    }
    let done = AtomicI64::new(0);
    let update = async |id: i32, n: i32| {
        if done.load(Ordering::Relaxed) >= UPDATES {
            return false;
        }
        let update = doc! { "$set": { "customerName": n.to_string() } };
        let updated = processes[usize::from(n % 2 == 0)].update(id, update).await;
        if let Err(error) = updated {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
            return false;
        }
        done.fetch_add(1, Ordering::Relaxed);
        true
    };
    let round = async || {
        let run = || archive.run().before(later()).chunk(2).into_future();
        try_join_all([run(), run()]).await.unwrap();
        archive.restore_many(doc! {}).chunk(2).await.unwrap();
    };
    let acknowledged = beside_writers(db, (POLICIES, 30), update, round).await;
    assert_sound(&policies, &archive).await;
    archive.run().before(later()).await.unwrap();
    assert_sound(&policies, &archive).await;
    let (hot_left, revisions) = (
        all(&db.plain_collection::<Document>("policyRevisions")).await,
        all(&db.plain_collection::<Document>(COLD[1])).await,
    );
    assert!(hot_left.is_empty());
    assert_eq!(revisions.len() as i64, acknowledged + i64::from(POLICIES));
}

/// A follower of the policies would take them for deleted ones.
#[tokio::test]
async fn a_plan_warns_of_a_follower() {
    testkit::run(async |db| {
        let (policies, archive) = office(db, "policyId").await;
        policies[0].insert(&policy(1)).await.unwrap();
        let planned = archive.run().before(later()).plan().await.unwrap();
        assert_eq!(planned.warnings, []);
        let follow = policies[0].follow("policies").enable_pre_images();
        follow.run_until_current().await.unwrap();
        let planned = archive.run().before(later()).plan().await.unwrap();
        let collection = format!("{}.currentPolicies", db.database().name());
        let text = planned.warnings[0].to_string();
        assert!(text.contains("`policies`") && text.contains(&collection), "{text}");
        assert_eq!(planned.warnings.len(), 1);
        assert_eq!(archive.restore_many(doc! {}).plan().await.unwrap().warnings, []);
    })
    .await;
}
