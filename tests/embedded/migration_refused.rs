//! Migrations that are refused, with nothing written.

use mongo_patterns::ErrorKind;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{Collation, IndexOptions};

use crate::embedded::migration::*;
use support::common::{all, assert_refused};
use support::embedded::migration::*;
use support::embedded::{Patrons, stored};

fn of_two(db: &TestDatabase, child_id: &str) -> Patrons {
    EmbeddedRepository::builder(db.collection::<Document>("patron"))
        .children_field("addresses")
        .child_id_field(child_id)
        .max_children(2)
        .build()
        .unwrap()
}

async fn reset(db: &TestDatabase) {
    for name in ["patron", "address"] {
        db.plain_collection::<Document>(name).drop().await.unwrap();
    }
}

#[tokio::test]
async fn invalid_children_are_not_embedded() {
    testkit::run(async |db| {
        use ErrorKind::{Corrupt, InvalidItemId, LimitReached, TargetNotEmpty, TooLarge};
        let joe = || doc! { "_id": "joe" };
        let with = |addresses: Bson| doc! { "_id": "joe", "addresses": addresses };
        let with_child = || with(vec![doc! { "_id": 1 }].into());
        let in_array = with(Bson::Array(vec![Bson::Array(vec![])]));
        let other_type = |id: Bson| vec![doc! { "_id": id, "patron_id": "joe" }];
        let decimal = Bson::Decimal128("1".parse().unwrap());
        let large = |id: i32| doc! { "_id": id, "patron_id": "joe", "text": "x".repeat(9_000_000) };
        let equal = [1.into(), Bson::Double(1.0)].map(|id| doc! { "id": id, "patron_id": "joe" });
        let three = (0..3).map(|id| referring(id, "joe")).collect();
        let one = || vec![referring(1, "joe")];
        let cases = [
            ("_id", joe(), three, LimitReached),
            ("_id", joe(), vec![large(1), large(2)], TooLarge),
            ("_id", joe(), other_type(Bson::Null), InvalidItemId),
            ("_id", joe(), other_type(decimal), InvalidItemId),
            ("id", joe(), one(), InvalidItemId),
            ("id", joe(), equal.to_vec(), InvalidItemId),
            ("_id", with("none".into()), one(), Corrupt),
            ("_id", with(Bson::Null), vec![], Corrupt),
            ("_id", with_child(), vec![], TargetNotEmpty),
            ("_id", with_child(), one(), TargetNotEmpty),
            ("_id", in_array, vec![], TargetNotEmpty),
        ];
        for (number, (child_id, bad, documents, kind)) in cases.into_iter().enumerate() {
            reset(db).await;
            stored(db).insert_many([doc! { "_id": 0 }, bad]).await.unwrap();
            let before = all(&stored(db)).await;
            let good = doc! { "_id": "good", "id": 1, "patron_id": 0 };
            let documents: Vec<Document> = [vec![good], documents].concat();
            addresses(db).insert_many(documents).await.unwrap();
            index_reference(db).await;
            let (patrons, source) = (of_two(db, child_id), addresses(db));
            let error = patrons.migrate_from_references(&source, "patron_id").await.unwrap_err();
            assert_eq!(error.kind(), kind, "{number}: {error}");
            let is_null = source.find_one(doc! { "_id": null }).await.unwrap().is_some();
            assert!(
                is_null || error.document_id().is_some(),
                "{number}: the error names a document, except for `null`"
            );
            assert_eq!(all(&stored(db)).await, before, "{number}");
        }
    })
    .await;
}

/// Documents without a parent are not checked.
#[tokio::test]
async fn orphans_do_not_prevent_a_migration() {
    testkit::run(async |db| {
        stored(db).insert_one(doc! { "_id": 0, "addresses": [] }).await.unwrap();
        let orphan = || doc! { "id": 1, "patron_id": "unknown" };
        let mut documents = vec![
            doc! { "_id": 1, "id": 1, "patron_id": 0 },
            doc! { "patron_id": "unknown" },
        ];
        documents.extend([orphan(), orphan(), orphan()]);
        addresses(db).insert_many(documents).await.unwrap();
        index_reference(db).await;
        let (patrons, source) = (of_two(db, "id"), addresses(db));
        let migrated = patrons.migrate_from_references(&source, "patron_id").await.unwrap();
        assert_eq!((migrated.documents, migrated.children, migrated.orphans), (1, 1, 4));
        assert_eq!(
            all(&stored(db)).await,
            [doc! { "_id": 0, "addresses": [{ "_id": 1, "id": 1 }] }]
        );
    })
    .await;
}

#[tokio::test]
async fn a_source_without_a_suitable_index_is_refused() {
    testkit::run(async |db| {
        stored(db).insert_one(doc! { "_id": 0 }).await.unwrap();
        addresses(db).insert_one(referring(1, 0)).await.unwrap();
        let by = |keys: Document, options: IndexOptions| IndexModel::builder().keys(keys).options(options).build();
        let of_reference = |options: IndexOptions| Some(by(doc! { "patron_id": 1 }, options));
        let german = Collation::builder().locale("de").build();
        let (patrons, source) = (patrons(db), addresses(db));
        for index in [
            None,
            Some(by(doc! { "n": 1, "patron_id": 1 }, IndexOptions::default())),
            of_reference(IndexOptions::builder().sparse(true).build()),
            of_reference(IndexOptions::builder().collation(german).build()),
            of_reference(
                IndexOptions::builder()
                    .partial_filter_expression(doc! { "n": 1 })
                    .build(),
            ),
        ] {
            source.drop_indexes().await.unwrap();
            if let Some(index) = index {
                source.create_index(index).await.unwrap();
            }
            let error = patrons.migrate_from_references(&source, "patron_id").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error}");
            assert_eq!(all(&stored(db)).await, [doc! { "_id": 0 }]);
        }
        source.drop_indexes().await.unwrap();
        let longer = by(doc! { "patron_id": -1, "n": 1 }, IndexOptions::default());
        source.create_index(longer).await.unwrap();
        let migrated = patrons.migrate_from_references(&source, "patron_id").await.unwrap();
        assert_eq!(migrated.children, 1);
        // A source that does not exist has no children.
        let none = db.collection::<Document>("none");
        let error = patrons.migrate_from_references(&none, "patron_id").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TargetNotEmpty);
    })
    .await;
}

#[tokio::test]
async fn invalid_collections_and_names_are_refused() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let elsewhere = db.client().database("elsewhere").collection::<Document>("address");
        let own = db.collection::<Document>("patron");
        let source = db.collection::<Document>("address");
        for (collection, reference, kind) in [
            (&elsewhere, "patron_id", ErrorKind::InvalidArgument),
            (&own, "patron_id", ErrorKind::InvalidArgument),
            (&source, "a.b", ErrorKind::Configuration),
            (&source, "_id", ErrorKind::Configuration),
        ] {
            assert_refused(patrons.migrate_from_references(collection, reference).await, kind);
        }
        assert_refused(
            patrons
                .migrate_from_references(&source, "patron_id")
                .sort_by("a.b")
                .await,
            ErrorKind::Configuration,
        );
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}
