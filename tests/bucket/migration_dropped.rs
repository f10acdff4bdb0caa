//! A migration whose target is dropped.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::Document;

use crate::bucket::migration_again::{begin, check, migrate, trades, undo};
use support::bucket::migration::flat;

/// The comparison at the end finds that the chunks before the drop are missing.
#[tokio::test]
async fn a_target_that_is_dropped_during_a_migration_is_found_at_its_end() {
    testkit::run(async |db| {
        begin(db).await;
        undo(db).await;
        let (uri, database) = (db.server().uri().to_owned(), db.database().name().to_owned());
        let mut chunks = 0;
        let (trades, flat) = (trades(db), flat(db));
        let migration = trades.migrate_from_flat(&flat).chunk(20).on_progress(|_| {
            chunks += 1;
            if chunks != 2 {
                return;
            }
            let (uri, database) = (uri.clone(), database.clone());
            let drop = move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(async {
                    let client = mongodb::Client::with_uri_str(uri).await.unwrap();
                    let trades = client.database(&database).collection::<Document>("trades");
                    trades.drop().await.unwrap();
                });
            };
            std::thread::spawn(drop).join().unwrap();
        });
        let error = migration.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CountMismatch, "{error}");
        assert!(chunks > 2, "{chunks}");
        check(db, migrate(db).await.unwrap()).await;
    })
    .await;
}
