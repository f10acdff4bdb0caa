//! An archive in another cluster. In most tests both are one server: the calls have a session for each.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::archive::{Archive, Problem};
use mongo_patterns::mongodb::Client;
use mongo_patterns::{ErrorKind, Repository, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint, Mongod, MongodOptions, TestDatabase};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ClientOptions;

use super::concurrent;
use super::sales::*;
use support::archive::sales::*;
use support::common::{all, dropped_commands};

pub async fn problems(archive: &Archive<Document>) -> Vec<(Bson, Problem)> {
    let found: Vec<_> = archive.verify().stream().try_collect().await.unwrap();
    found.into_iter().map(|one| (one.document_id, one.problem)).collect()
}

pub fn catalog(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("mongo_patterns")
}

async fn record(db: &TestDatabase) -> Document {
    let filter = doc! { "_id.kind": "archive_of" };
    catalog(db).find_one(filter).await.unwrap().unwrap()
}

pub async fn last_move(db: &TestDatabase) -> Option<ObjectId> {
    let entry = catalog(db).find_one(doc! { "_id.kind": "archive" }).await.unwrap();
    entry.unwrap().get_object_id("move").ok()
}

/// Changes the record, as a process that died has left it.
pub async fn leave(db: &TestDatabase, id: ObjectId, before: Option<ObjectId>, restores: bool, ids: Vec<Bson>) {
    let set = doc! { "$set": { "move": id, "before": before, "restores": restores, "ids": ids } };
    let filter = doc! { "_id.kind": "archive_of" };
    assert_eq!(catalog(db).update_one(filter, set).await.unwrap().matched_count, 1);
}

#[tokio::test]
async fn documents_move_to_another_cluster_and_back() {
    testkit::run(async |db| {
        let archive = elsewhere(db).await;
        let documents: Vec<_> = (0..12).map(|id| sale(id, old(i64::from(id)))).collect();
        plant(db, documents.clone().into_iter().chain([sale(20, new(0))])).await;
        let planned = archive.run().plan().await.unwrap();
        assert_eq!(planned.migrated.documents, 12);
        assert_eq!(both(db).await[1], []);
        db.recorder().clear();
        let moved = archive.run().chunk(6).await.unwrap();
        assert_eq!((moved.documents, moved.conflicts, moved.busy), (12, 0, 0));
        let chunk = "update update find delete update insert commitTransaction commitTransaction";
        let expected = [
            "find listIndexes listIndexes find",
            "find findAndModify update", // creates the record
            chunk,
            "find findAndModify",
            chunk,
            "find findAndModify update",
        ];
        assert_eq!(db.recorder().names().join(" "), expected.join(" "));
        assert_eq!(all(&archived(db)).await, documents);
        assert_eq!(record(db).await.get_array("ids").unwrap(), &vec![]);

        let found = archive.get(3).await.unwrap().unwrap();
        assert!(found.is_archived && found.document == documents[3]);
        assert!(archive.get(21).await.unwrap().is_none());
        let page = archive.find(doc! {}).limit(3).await.unwrap();
        let ids = page.documents.iter().map(|one| one.document.get_i32("_id").unwrap());
        assert!(ids.eq([20, 11, 10]));
        assert_eq!(problems(&archive).await, []);

        db.recorder().clear();
        assert!(!archive.restore(3).await.unwrap().already_there);
        assert_eq!(db.recorder().round_trips(), 16, "{:?}", db.recorder().names());
        assert!(archive.restore(3).await.unwrap().already_there);
        assert_eq!(archive.restore(21).await.unwrap_err().kind(), ErrorKind::NotFound);
        let some = doc! { "_id": { "$in": [4, 5, 6] } };
        assert_eq!(archive.restore_many(some).chunk(2).await.unwrap().documents, 3);
        let [mut restored, archived_ids] = both(db).await;
        restored.sort_by_key(Bson::as_i32);
        assert_eq!(
            [restored, archived_ids],
            [numbers([3, 4, 5, 6, 20]), numbers((0..3).chain(7..12))]
        );
        assert_eq!(record(db).await.get_array("ids").unwrap(), &vec![]);
        assert_eq!(archive.delete_archived_before(old(2)).await.unwrap().documents, 2);
        assert_eq!(problems(&archive).await, []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: cargo xtask ci"]
async fn no_write_is_lost_beside_runs_and_restores() {
    testkit::run(async |db| concurrent::no_write_is_lost(db, &elsewhere(db).await).await).await;
}

/// A process that died: after the copy of documents, and after a restore took effect.
#[tokio::test]
async fn the_next_move_ends_the_last_one() {
    testkit::run(async |db| {
        let archive = elsewhere(db).await;
        plant(db, [sale(9, old(0))]).await;
        archive.run().await.unwrap();
        let last = last_move(db).await;
        // The copies of 1 and 2 of a move that did not take effect. The owner has deleted 1 since.
        current(db).insert_one(sale(2, new(0))).await.unwrap();
        let copies = [sale(1, old(0)), sale(2, old(0))];
        archived(db).insert_many(copies).await.unwrap();
        leave(db, ObjectId::new(), last, false, numbers([1, 2])).await;
        assert_eq!(problems(&archive).await, [(2.into(), Problem::Unfinished)]);
        assert_eq!(archive.run().await.unwrap().documents, 0);
        assert_eq!(both(db).await, [numbers([2]), numbers([9])]);
        assert_eq!(problems(&archive).await, []);

        // A restore that took effect: the archive still has the document.
        current(db).insert_one(sale(9, new(0))).await.unwrap();
        leave(db, last.unwrap(), None, true, numbers([9])).await;
        assert_eq!(problems(&archive).await, [(9.into(), Problem::Unfinished)]);
        assert!(archive.restore(9).await.unwrap().already_there);
        assert_eq!(both(db).await, [numbers([2, 9]), vec![]]);

        // A move that took effect, and a restore that did not.
        archived(db).insert_one(sale(7, old(0))).await.unwrap();
        leave(db, last_move(db).await.unwrap(), None, false, numbers([7])).await;
        assert_eq!(archive.run().await.unwrap().documents, 0);
        leave(db, ObjectId::new(), last_move(db).await, true, numbers([7])).await;
        assert_eq!(archive.run().await.unwrap().documents, 0);
        assert_eq!(both(db).await, [numbers([2, 9]), numbers([7])]);
    })
    .await;
}

/// A catalog that was deleted, or is that of a backup.
#[tokio::test]
async fn nothing_is_deleted_when_the_catalogs_do_not_belong_together() {
    testkit::run(async |db| {
        let archive = elsewhere(db).await;
        plant(db, [sale(9, old(0))]).await;
        archive.run().await.unwrap();
        leave(db, ObjectId::new(), Some(ObjectId::new()), false, numbers([9])).await;
        current(db).insert_one(sale(1, old(0))).await.unwrap();
        for error in [
            archive.run().await.unwrap_err(),
            archive.restore(9).await.unwrap_err(),
            archive.restore_many(doc! {}).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
        }
        assert_eq!(both(db).await, [numbers([1]), numbers([9])]);
        catalog(db).delete_one(doc! { "_id.kind": "archive" }).await.unwrap();
        let missing = archive.restore(9).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::SettingsMismatch);
        assert_eq!(both(db).await, [numbers([1]), numbers([9])]);
    })
    .await;
}

#[tokio::test]
async fn a_transaction_of_the_caller_cannot_restore() {
    testkit::run(async |db| {
        let archive = elsewhere(db).await;
        plant(db, [sale(1, old(0))]).await;
        archive.run().await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let refused = archive.restore(1).session(&mut session).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        session.abort_transaction().await.unwrap();
        assert_eq!(both(db).await, [vec![], numbers([1])]);
        // A session without a transaction is used for its causal consistency.
        assert!(archive.get(1).session(&mut session).await.unwrap().unwrap().is_archived);
        assert!(!archive.restore(1).session(&mut session).await.unwrap().already_there);
        assert_eq!(both(db).await, [numbers([1]), vec![]]);
    })
    .await;
}

/// The archive's cluster hangs while it inserts: the documents can be written before it answers.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn documents_can_be_written_while_the_other_cluster_hangs() {
    testkit::run(async |db| {
        let archive = elsewhere(db).await;
        plant(db, (0..4).map(|id| sale(id, old(0)))).await;
        let write = async {
            let command = doc! {
                "update": "sales", "maxTimeMS": 4000,
                "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "n": 1 } } }],
            };
            let database = db.plain_client().database(db.database().name());
            let updated = database.run_command(command).await.unwrap();
            assert_eq!(updated.get_i32("n").unwrap(), 1);
        };
        let hangs = ("insert", Duration::from_secs(6));
        let (moved, ()) = beside_blocked(db, hangs, archive.run(), write).await;
        assert_eq!(moved.unwrap().documents, 4);
        assert_eq!(both(db).await[0], []);
        assert_eq!(archived(db).count_documents(doc! { "n": 1 }).await.unwrap(), 1);
    })
    .await;
}

/// The archive's cluster takes longer for one document: it has more time in the next attempt, if the policy allows one.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn one_document_has_more_time_with_each_attempt() {
    testkit::run(async |db| {
        elsewhere(db).await;
        let with_attempts = |attempts| {
            let policy = RetryPolicy::default().with_max_attempts(attempts);
            builder(db).another_cluster().retry(policy).build().unwrap()
        };
        plant(db, [sale(1, old(0))]).await;
        let slow = FailPoint::on(&["insert"]).times(1).block(Duration::from_secs(3));
        let fault = slow.clone().enable(db).await;
        let error = with_attempts(1).run().await.unwrap_err();
        fault.disable().await;
        let is_slow = error.is_contention() && error.to_string().contains("in time");
        assert!(is_slow && error.is_transient(), "{error:?}");
        assert_eq!(both(db).await, [numbers([1]), vec![]]);
        dropped_commands(db).await;
        let fault = slow.enable(db).await;
        assert_eq!(with_attempts(5).run().await.unwrap().documents, 1);
        fault.disable().await;
        assert_eq!(both(db).await, [vec![], numbers([1])]);
    })
    .await;
}

/// Two servers. That of the archive is killed in the middle of a run.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn nothing_is_lost_when_the_other_cluster_is_killed() {
    const DOCUMENTS: i32 = 200;
    testkit::run(async |db| {
        let mut cold = Mongod::start(MongodOptions::new()).await.unwrap();
        let mut options = ClientOptions::parse(cold.uri()).await.unwrap();
        options.server_selection_timeout = Some(Duration::from_secs(1));
        let client = Client::with_options(options).unwrap();
        let archived: Collection<Document> = client.database("archive").collection("sales");
        let archive = Archive::<Document>::builder(db.collection::<Document>("sales"), archived.clone())
            .another_cluster()
            .age_field("date")
            .older_than(AGE)
            .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(2)))
            .build()
            .unwrap();
        archive.ensure_indexes().await.unwrap();
        let documents = (0..DOCUMENTS).map(|id| sale(id, old(i64::from(id))));
        current(db).insert_many(documents).await.unwrap();

        let (moving, mut moved) = tokio::sync::mpsc::unbounded_channel();
        let run = archive.run().chunk(20).on_progress(move |progress| {
            let _ = moving.send(progress.done);
        });
        let kill = async {
            while moved.recv().await.unwrap() < 60 {}
            cold.kill().await.unwrap();
        };
        let (first, ()) = tokio::join!(run.into_future(), kill);
        assert!(first.is_err(), "{first:?}");
        let n = doc! { "$inc": { "n": 1 } };
        let left = current(db).update_many(doc! {}, n).await.unwrap().matched_count;
        assert!(left > 0);
        let error = archive.get(0).await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");

        cold.restart().await.unwrap();
        archive.run().await.unwrap();
        assert_eq!(current(db).count_documents(doc! {}).await.unwrap(), 0);
        let stored = u64::try_from(DOCUMENTS).unwrap();
        assert_eq!(archived.count_documents(doc! {}).await.unwrap(), stored);
        assert_eq!(archived.count_documents(doc! { "n": 1 }).await.unwrap(), left);
        assert_eq!(problems(&archive).await, []);
        archive.restore_many(doc! {}).await.unwrap();
        assert_eq!(current(db).count_documents(doc! {}).await.unwrap(), stored);
        assert_eq!(archived.count_documents(doc! {}).await.unwrap(), 0);
    })
    .await;
}
