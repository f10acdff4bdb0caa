//! The records of migrations, while the server executes a chunk.

use std::time::Duration;

use mongo_patterns::{ErrorKind, forget_migration, migrations};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, Document};

use support::bucket::migration::*;
use support::common::{all, pause};

#[tokio::test]
async fn a_chunk_that_the_server_executes_shows_a_running_migration() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
        fill(db, &documents(&keys, 25)).await;
        let trades = histories::<u32>(db).build().unwrap();
        let source = db.collection::<Document>("flat");
        let plan = trades.migrate_from_flat(&source).plan().await.unwrap();
        let chunk = plan
            .commands
            .iter()
            .position(|planned| planned.purpose == "migrate a chunk");
        let database = db.plain_client().database(db.database().name());
        assert_eq!(migrations(&database).await.unwrap(), []);

        db.recorder().clear();
        let block = FailPoint::on(&[]).times(1).block(Duration::from_secs(3));
        let block = block.plan(db, chunk.unwrap());
        let migrate = async { trades.migrate_from_flat(&source).await.unwrap() };
        let observe = async {
            loop {
                match migrations(&database).await.unwrap().pop() {
                    Some(record) if record.is_running => break,
                    Some(record) => assert!(record.finished.is_none(), "{record:?}"),
                    None => pause().await,
                }
            }
            let refused = forget_migration(&database, "trades").await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Contention, "{refused}");
            // As after a process was killed: its chunk would be written beside those of other settings.
            let others = histories::<u32>(db).page_size(20).build().unwrap();
            let refused = others.migrate_from_flat(&source).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Contention, "{refused}");
        };
        let (migrated, ()) = futures::join!(migrate, observe);
        block.end();
        assert_eq!(migrated.items, 100);
        let records = migrations(&database).await.unwrap();
        let [record] = &records[..] else { panic!("{records:?}") };
        assert!(!record.is_running && record.finished.is_some() && record.begun.is_some());
        assert_eq!((record.collection.as_str(), record.migrated), ("trades", 100));
        assert_eq!(record.settings.get_str("source").unwrap(), "flat");
        assert!(forget_migration(&database, "trades").await.unwrap());
        assert!(!forget_migration(&database, "trades").await.unwrap());
        let entries = all(&db.plain_collection("mongo_patterns")).await;
        assert!(
            entries
                .iter()
                .all(|entry| entry.get_document("_id").unwrap().get_str("kind").unwrap() == "bucket")
        );
    })
    .await;
}
