//! Migrations of flat documents with UUID keys, for whose text a server before MongoDB 8.0 has no expression.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns_core::PlannedCommand;
use mongo_patterns_core::key::KeyTable;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, Uuid, doc};
use mongodb::{Collection, Database};

use crate::bucket::migration::{can_move, flat};
use crate::bucket::migration_plan::essence;
use crate::common::support::*;

type Histories = BucketRepository<Uuid, Document>;

fn histories(database: &Database) -> Histories {
    BucketRepository::builder(database.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(2)
        .build()
        .unwrap()
}

/// Stores three trades of each of some keys, and returns the keys.
async fn fill(flat: &Collection<Document>, keys: usize) -> Vec<Uuid> {
    let keys: Vec<Uuid> = (0..keys).map(|_| Uuid::new()).collect();
    let trades: Vec<Document> = (0..3)
        .flat_map(|n| {
            keys.iter()
                .map(move |key| doc! { "customerId": key, "n": n, "date": at(SECOND + n) })
        })
        .collect();
    flat.insert_many(trades).await.unwrap();
    keys
}

/// Checks that each key has its two buckets.
async fn check(stored: &Collection<Document>, keys: &[Uuid]) {
    let ids = stored
        .find(doc! {})
        .projection(doc! { "_id": 1, "customerId": 1 })
        .await
        .unwrap();
    let mut ids: Vec<Document> = ids.try_collect().await.unwrap();
    let expected = keys
        .iter()
        .flat_map(|key| [0, 2].map(|second| doc! { "_id": format!("{key}_{}", SECOND + second), "customerId": key }));
    let mut expected: Vec<Document> = expected.collect();
    for documents in [&mut ids, &mut expected] {
        documents.sort_by_key(|document| document.get_str("_id").unwrap().to_owned());
    }
    assert_eq!(ids.len(), expected.len());
    assert!(ids == expected);
}

#[tokio::test]
async fn no_javascript_runs_on_the_server() {
    let options = testkit::MongodOptions::new().argument("--noscripting");
    let mongod = testkit::Mongod::start(options).await.unwrap();
    let client = mongodb::Client::with_uri_str(mongod.uri()).await.unwrap();
    let database = client.database("test");
    let flat = database.collection::<Document>("flat");
    let keys = fill(&flat, 7).await;
    match histories(&database).migrate_from_flat(&flat).await {
        Ok(migrated) => assert_eq!((migrated.keys, migrated.items), (7, 21)),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "before MongoDB 5.0: {error:?}");
            return;
        }
    }
    check(&database.collection("trades"), &keys).await;
}

/// More keys than a table has, in one chunk without an index, and in chunks of one.
#[tokio::test]
async fn a_chunk_has_a_command_for_each_table() {
    testkit::run(async |db| {
        if !can_move(db).await {
            return;
        }
        let most = KeyTable::MOST_KEYS as usize;
        let keys = fill(&flat(db), most + 5).await;
        let source = db.collection::<Document>("flat");
        let migrated = histories(db.database()).migrate_from_flat(&source).await.unwrap();
        assert_eq!(migrated.keys as usize, keys.len());
        check(&plain(db), &keys).await;
        if at_least(db, 8) {
            return;
        }
        let merges = db.recorder().commands();
        let merges = merges.iter().filter(|sent| {
            let stages = sent.command.get_array("pipeline").into_iter().flatten();
            stages
                .filter_map(Bson::as_document)
                .any(|stage| stage.contains_key("$merge"))
        });
        assert_eq!(merges.count(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_plan_has_the_tables() {
    testkit::run(async |db| {
        if !can_move(db).await {
            return;
        }
        let index = mongodb::IndexModel::builder().keys(doc! { "customerId": 1 }).build();
        flat(db).create_index(index).await.unwrap();
        let keys = fill(&flat(db), 9).await;
        let source = db.collection::<Document>("flat");
        let trades = histories(db.database());
        let planned = trades.migrate_from_flat(&source).chunk_items(9).plan().await.unwrap();
        assert!(all(&plain(db)).await.is_empty());
        db.recorder().clear();
        trades.migrate_from_flat(&source).chunk_items(9).await.unwrap();
        check(&plain(db), &keys).await;
        let sent: Vec<Document> = db
            .recorder()
            .commands()
            .iter()
            .map(|sent| essence(&sent.essence()))
            .collect();
        let listed = |planned: &PlannedCommand| essence(&planned.command);
        let planned: Vec<Document> = planned.commands.iter().map(listed).collect();
        assert_eq!(sent, planned);
    })
    .await;
}

/// The check of the ids, which a server before MongoDB 8.0 cannot make alone.
#[tokio::test]
async fn a_bucket_of_another_key_is_not_migrated_to_flat_documents() {
    testkit::run(async |db| {
        if !can_move(db).await {
            return;
        }
        let keys = fill(&flat(db), 4).await;
        let trades = histories(db.database());
        trades.migrate_from_flat(&flat(db)).await.unwrap();
        let back = db.collection::<Document>("back");
        let planned = trades.migrate_to_flat(&back).plan().await.unwrap();
        db.recorder().clear();
        let migrated = trades.migrate_to_flat(&back).await.unwrap();
        assert_eq!((migrated.keys, migrated.items), (4, 12));
        let sent = db.recorder().commands();
        let sent: Vec<Document> = sent.iter().map(|sent| essence(&sent.essence())).collect();
        let listed = |planned: &PlannedCommand| essence(&planned.command);
        assert_eq!(sent, planned.commands.iter().map(listed).collect::<Vec<_>>());

        for (number, id) in [
            format!("{}_{SECOND}", Uuid::new()),
            format!("{}x", keys[0]),
            "größe".to_owned(),
        ]
        .into_iter()
        .enumerate()
        {
            let items = vec![doc! { "n": 1, "date": at(SECOND) }; 2];
            let other = doc! { "_id": &id, "customerId": keys[0], "count": 2, "history": items };
            plain(db).insert_one(other).await.unwrap();
            let again = db.collection::<Document>(&format!("again_{number}"));
            let refused = trades.migrate_to_flat(&again).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
            assert!(refused.to_string().contains("1 buckets violate"), "{refused}");
            assert_eq!(refused.document_id(), Some(&Bson::from(id.as_str())));
            plain(db).delete_one(doc! { "_id": id }).await.unwrap();
        }
    })
    .await;
}

/// A key that is inserted after the table was read is an error, not a wrong `_id`.
#[tokio::test]
async fn a_key_that_is_not_in_the_table_is_an_error() {
    testkit::run(async |db| {
        let keys = fill(&flat(db), 3).await;
        let keys: Vec<Bson> = keys.into_iter().map(Bson::from).collect();
        for missing in 0..3 {
            let others = keys.iter().enumerate().filter(|(number, _)| *number != missing);
            let table = KeyTable::new(others.map(|(_, key)| key));
            let project = doc! { "$project": { "t": table.text("$customerId") } };
            let found = flat(db).aggregate([project.clone()]).await;
            let error = match found {
                Err(error) => error,
                Ok(cursor) => cursor.try_collect::<Vec<_>>().await.unwrap_err(),
            };
            assert_eq!(
                mongo_patterns_core::error::code(&error),
                Some(KeyTable::NO_TEXT),
                "{error}"
            );
            let filter = doc! { "$match": { "customerId": { "$ne": &keys[missing] } } };
            let found: Vec<Document> = flat(db)
                .aggregate([filter, project])
                .await
                .unwrap()
                .try_collect()
                .await
                .unwrap();
            assert_eq!(found.len(), 6);
        }
    })
    .await;
}

/// The table has the keys of the selected documents only.
#[tokio::test]
async fn invalid_documents_are_skipped_and_others_filtered() {
    testkit::run(async |db| {
        if !can_move(db).await {
            return;
        }
        let source = flat(db);
        let keys = fill(&source, 5).await;
        let invalid = [doc! { "customerId": 5, "n": 0, "date": at(SECOND) }, doc! { "n": 0 }];
        source.insert_many(invalid).await.unwrap();
        let other = doc! { "customerId": Uuid::new(), "n": 9, "date": at(SECOND) };
        source.insert_one(other).await.unwrap();
        let skipped = db.plain_collection::<Document>("skipped");
        let repository = histories(db.database());
        let migration = || {
            let migration = repository.migrate_from_flat(&source).filter(doc! { "n": { "$lt": 9 } });
            migration.skip_invalid(&skipped).into_future()
        };
        let migrated = migration().await.unwrap();
        assert_eq!((migrated.keys, migrated.items), (5, 15));
        check(&plain(db), &keys).await;
        assert_eq!(skipped.count_documents(doc! {}).await.unwrap(), 2);
        assert_eq!(migration().await.unwrap().items, 15);
    })
    .await;
}
