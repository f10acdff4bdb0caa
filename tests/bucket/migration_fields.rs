//! Migrations of documents whose fields look like extended JSON, and of views; a plan that resumes.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::Migrated;
use mongo_patterns_core::Planned;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::bucket::migration::*;
use support::bucket::migration::*;
use support::common::*;

/// The driver's `Document` takes such a field for extended JSON, and cannot be read if it is none.
#[tokio::test]
async fn fields_that_look_like_extended_json_are_migrated() {
    testkit::run(async |db| {
        for field in ["$date", "$oid", "$numberLong", "$uuid"] {
            flat(db).drop().await.unwrap();
            plain(db).drop().await.unwrap();
            let item = doc! { "date": at(SECOND), field: "what" };
            let bucket = doc! {
                "_id": format!("7_{SECOND}"), "customerId": 7, "count": 2, "history": [&item, &item],
            };
            plain(db).insert_one(&bucket).await.unwrap();
            let trades = histories::<u32>(db).build().unwrap();
            trades.migrate_to_flat(&flat(db)).plan().await.unwrap();
            let migrated = trades.migrate_to_flat(&flat(db)).await.unwrap();
            assert_eq!((migrated.keys, migrated.items), (1, 2), "{field}");
            let mut first = doc! { "_id": format!("7_{SECOND}_0"), "customerId": 7 };
            first.extend(item.clone());
            let flat_raw = db.plain_collection::<RawDocumentBuf>("flat");
            let found = flat_raw.find_one(doc! { "_id": first.get("_id") });
            assert_eq!(found.await.unwrap(), Some(raw(&first)));

            plain(db).drop().await.unwrap();
            flat(db).drop().await.unwrap();
            let document = doc! { "_id": 1, "customerId": 7, "date": at(SECOND), field: 5 };
            flat(db).insert_one(&document).await.unwrap();
            assert_eq!(trades.migrate_from_flat(&flat(db)).await.unwrap().items, 1);
        }
    })
    .await;
}

/// The recipe of the book for keys that are nested or have parts. A view has no indexes, so it is migrated in one chunk. No
/// document can be written to a view.
#[tokio::test]
async fn a_view_makes_a_key_of_nested_fields_and_is_refused_as_a_target() {
    testkit::run(async |db| {
        let documents: Vec<Document> = (0..30)
            .map(|n| {
                let meta = doc! { "site": if n % 2 == 0 { "a" } else { "b" }, "sensor": n % 3 };
                doc! { "_id": n, "meta": meta, "date": at(SECOND + i64::from(n)) }
            })
            .collect();
        flat(db).insert_many(&documents).await.unwrap();
        let database = db.plain_client().database(db.database().name());
        let key = doc! { "$concat": [{ "$toString": "$meta.site" }, "/", { "$toString": "$meta.sensor" }] };
        let view = database.create_collection("view").view_on("flat");
        let view = view.pipeline(vec![doc! { "$set": { "customerId": key } }]);
        view.await.unwrap();
        let trades = histories::<String>(db).build().unwrap();
        let view = db.plain_collection::<RawDocumentBuf>("view");
        let plan = trades.migrate_from_flat(&view).chunk(5).plan().await.unwrap();
        assert_eq!((plan.migrated.items, chunks_of(&plan)), (30, 1));
        let migrated = trades.migrate_from_flat(&view).chunk(5).await.unwrap();
        assert_eq!((migrated.keys, migrated.items), (6, 30));
        trades.append("a/2", &doc! { "date": at(SECOND + 100) }).await.unwrap();
        let of_key = trades.newest("a/2", 10).await.unwrap();
        assert_eq!(of_key.len(), 6);
        let expected = doc! { "meta": { "site": "a", "sensor": 2 }, "date": at(SECOND + 26) };
        assert_eq!(of_key[1], expected);

        let empty = database.create_collection("empty_view").view_on("nothing");
        empty.await.unwrap();
        let before = all(&db.plain_collection("mongo_patterns")).await;
        let target = db.plain_collection::<RawDocumentBuf>("empty_view");
        let error = trades.migrate_to_flat(&target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.to_string().contains("view"), "{error}");
        assert_eq!(all(&db.plain_collection("mongo_patterns")).await, before);
    })
    .await;
}

/// Returns the number of chunks that a plan migrates.
fn chunks_of(planned: &Planned<Migrated>) -> usize {
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
