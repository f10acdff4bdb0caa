//! Values of all types.

use mongo_patterns::archive::Archive;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Decimal128, Document, RawDocumentBuf, Timestamp, doc};

use support::archive::sales::*;
use support::common::assert_names;

/// Values that are equal to the server, or that have a meaning in a query or an update.
pub(crate) fn values() -> Vec<Bson> {
    vec![
        1.into(),
        1_i64.into(),
        1.0.into(),
        Bson::Decimal128("1.00".parse::<Decimal128>().unwrap()),
        (-0.0).into(),
        f64::NAN.into(),
        "$date".into(),
        doc! { "$set": { "a": 1 }, "$gt": "", "a.b": 1 }.into(),
        Bson::Array(vec![doc! { "$numberLong": "1" }.into(), Bson::Null]),
        Bson::Timestamp(Timestamp { time: 5, increment: 6 }),
        Bson::MinKey,
        Bson::Undefined,
        Bson::Null,
        "é".repeat(1000).into(),
    ]
}

/// Ids of every type that an `_id` can have.
pub(crate) fn ids() -> Vec<Bson> {
    vec![
        Bson::Double(f64::NAN),
        "$where".into(),
        doc! { "a.b": 1 }.into(),
        doc! {}.into(),
        Bson::ObjectId(ObjectId::new()),
        true.into(),
        Bson::DateTime(DateTime::MIN),
        7.into(),
        Bson::Timestamp(Timestamp { time: 1, increment: 2 }),
        Bson::Decimal128("1.5".parse().unwrap()),
        Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: vec![0, 255],
        }),
    ]
}

#[tokio::test]
async fn documents_keep_their_bytes_there_and_back() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let documents = (0..)
            .zip(values())
            .map(|(id, value)| doc! { "z": 1, "_id": id, "date": old(0), "value": value, "a": 1 });
        plant(db, documents).await;
        let raw = |collection: &str| db.plain_collection::<RawDocumentBuf>(collection);
        let read = async |collection: &str| -> Vec<Vec<u8>> {
            let found = raw(collection).find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
            let found: Vec<RawDocumentBuf> = futures::TryStreamExt::try_collect(found).await.unwrap();
            found.into_iter().map(RawDocumentBuf::into_bytes).collect()
        };
        let before = read("sales").await;
        archive.run().await.unwrap();
        assert_eq!(read("archived_sales").await, before);
        archive.restore_many(doc! {}).await.unwrap();
        assert_eq!(read("sales").await, before);
        assert_eq!(read("archived_sales").await, Vec::<Vec<u8>>::new());
    })
    .await;
}

#[tokio::test]
async fn ids_of_all_types_move_and_are_found() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let ids = ids();
        plant(db, ids.iter().map(|id| sale(id.clone(), old(0)))).await;
        assert_eq!(archive.run().chunk(3).await.unwrap().documents, ids.len() as u64);
        for id in &ids {
            assert!(archive.get(id.clone()).await.unwrap().unwrap().is_archived, "{id}");
            assert!(!archive.restore(id.clone()).await.unwrap().already_there, "{id}");
        }
        let found = archive.list(doc! {}).limit(4).page().await.unwrap();
        let rest = archive.list(doc! {}).after(found.next).page().await.unwrap();
        assert_eq!(rest.items.len(), ids.len() - 4);
    })
    .await;
}

/// The validator of the archive refuses a document: it stays, with those of its chunk.
#[tokio::test]
async fn a_validator_refuses_and_names_the_document() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let validator = doc! { "total_amount": { "$gt": 1 } };
        let database = db.plain_client().database(db.database().name());
        let validate = doc! { "collMod": "archived_sales", "validator": validator };
        database.run_command(validate).await.unwrap();
        let mut wrong = sale(1, old(1));
        wrong.insert("total_amount", 0.5);
        plant(db, [sale(0, old(0)), wrong, sale(2, old(2))]).await;
        assert_names(&archive.run().await.unwrap_err(), ErrorKind::ValidationFailed, 1);
        // The others move.
        assert_eq!(both(db).await, [numbers([1]), numbers([0, 2])]);
    })
    .await;
}

/// An archive in another database, and an age field with a name of operators.
#[tokio::test]
async fn the_archive_can_be_in_another_database() {
    testkit::run(async |db| {
        let other = db.client().database(&format!("{}_cold", db.database().name()));
        let archived = other.collection::<Document>("sales");
        let archive = Archive::<Document>::builder(db.collection::<Document>("sales"), archived.clone());
        let archive = archive.age_field("ä $date").older_than(AGE).build().unwrap();
        archive.ensure_indexes().await.unwrap();
        let stored = doc! { "_id": 1, "ä $date": old(0) };
        current(db).insert_one(stored).await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 1);
        assert!(archive.get(1).await.unwrap().unwrap().is_archived);
        assert_eq!(archive.list(doc! {}).page().await.unwrap().items.len(), 1);
        archive.restore(1).await.unwrap();
        assert_eq!(archived.count_documents(doc! {}).await.unwrap(), 0);
        other.drop().await.unwrap();
    })
    .await;
}
