//! A plan lists the commands that a migration sends.

use mongo_patterns::bucket::Migrated;
use mongo_patterns_core::{Planned, Progress};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document};

use support::bucket::migration::*;
use support::common::*;

/// Returns the number of chunks that a plan migrates.
pub fn chunks_of(planned: &Planned<Migrated>) -> usize {
    let chunks = planned.commands.iter();
    chunks.filter(|planned| planned.purpose == "migrate a chunk").count()
}

#[tokio::test]
async fn a_plan_resumes_an_interrupted_migration() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
        fill(db, &documents(&keys, 25)).await;
        let trades = histories::<u32>(db).build().unwrap();
        let source = db.collection::<Document>("flat");
        {
            let migration = trades.migrate_from_flat(&source).chunk(30);
            let (sender, broken_off) = tokio::sync::oneshot::channel();
            let mut sender = Some(sender);
            let migration = migration.on_progress(move |_| {
                if let Some(sender) = sender.take() {
                    sender.send(()).unwrap();
                }
            });
            tokio::select! {
                biased;
                _ = broken_off => {}
                _ = migration.into_future() => panic!("the migration was not interrupted"),
            }
        }
        let planned = trades.migrate_from_flat(&source).chunk(30).plan().await.unwrap();
        assert!(planned.migrated.resumed && chunks_of(&planned) < 3, "{planned:?}");
        let mut before = None;
        let migrated = trades
            .migrate_from_flat(&source)
            .chunk(30)
            .on_progress(|at| before = Some(at.before))
            .await;
        assert!(migrated.unwrap().resumed);
        assert!(before.is_some_and(|before| before >= 30), "{before:?}");
    })
    .await;
}

#[tokio::test]
async fn verify_and_repair_report_their_progress() {
    testkit::run(async |db| {
        use futures::TryStreamExt;
        let trades = trades(db).await;
        plain(db)
            .insert_many((0..30).map(|n| full_bucket(SECOND + n)))
            .await
            .unwrap();
        let (mut verified, mut repaired) = (Progress::default(), Progress::default());
        let findings = trades.verify().on_progress(|seen| verified = seen).stream();
        assert_eq!(findings.try_collect::<Vec<_>>().await.unwrap(), []);
        let keys = trades.repair().dry_run().on_progress(|seen| repaired = seen).stream();
        assert_eq!(keys.try_collect::<Vec<_>>().await.unwrap(), []);
        for seen in [verified, repaired] {
            assert_eq!((seen.done, seen.total), (30, 30));
        }
    })
    .await;
}
