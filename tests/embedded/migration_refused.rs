//! Migrations that are refused, with nothing written.

use mongo_patterns::ErrorKind;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{Collation, IndexOptions};

use crate::common::support::all;
use crate::embedded::migration::*;
use crate::embedded::support::{Patrons, stored};

fn of_two(db: &TestDatabase, child_id: &str) -> Patrons {
    EmbeddedRepository::builder(db.collection::<Document>("patron"))
        .children_field("addresses")
        .child_id_field(child_id)
        .max_children(2)
        .build()
        .unwrap()
}

async fn reset(db: &TestDatabase) {
    for name in ["patron", "address", "back"] {
        db.plain_collection::<Document>(name).drop().await.unwrap();
    }
}

#[tokio::test]
async fn invalid_children_are_not_embedded() {
    testkit::run(async |db| {
        let joe = || doc! { "_id": "joe" };
        let with = |addresses: Bson| doc! { "_id": "joe", "addresses": addresses };
        let other_type = |id: Bson| doc! { "_id": id, "patron_id": "joe" };
        let decimal = Bson::Decimal128("1".parse().unwrap());
        let large = |id: i32| doc! { "_id": id, "patron_id": "joe", "text": "x".repeat(9_000_000) };
        let cases = [
            (
                "_id",
                joe(),
                (0..3).map(|id| referring(id, "joe")).collect(),
                ErrorKind::LimitReached,
            ),
            ("_id", joe(), vec![large(1), large(2)], ErrorKind::TooLarge),
            ("_id", joe(), vec![other_type(Bson::Null)], ErrorKind::InvalidItemId),
            ("_id", joe(), vec![other_type(decimal)], ErrorKind::InvalidItemId),
            ("id", joe(), vec![referring(1, "joe")], ErrorKind::InvalidItemId),
            (
                "id",
                joe(),
                vec![
                    doc! { "id": 1, "patron_id": "joe" },
                    doc! { "id": 1.0, "patron_id": "joe" },
                ],
                ErrorKind::InvalidItemId,
            ),
            (
                "_id",
                with("none".into()),
                vec![referring(1, "joe")],
                ErrorKind::Corrupt,
            ),
            ("_id", with(Bson::Null), vec![], ErrorKind::Corrupt),
            (
                "_id",
                with(vec![doc! { "_id": 1 }].into()),
                vec![],
                ErrorKind::TargetNotEmpty,
            ),
            (
                "_id",
                with(vec![doc! { "_id": 1 }].into()),
                vec![referring(1, "joe")],
                ErrorKind::TargetNotEmpty,
            ),
            (
                "_id",
                with(Bson::Array(vec![Bson::Array(vec![])])),
                vec![],
                ErrorKind::TargetNotEmpty,
            ),
        ];
        for (number, (child_id, bad, documents, kind)) in cases.into_iter().enumerate() {
            reset(db).await;
            stored(db).insert_many([doc! { "_id": 0 }, bad]).await.unwrap();
            let before = all(&stored(db)).await;
            addresses(db)
                .insert_one(doc! { "_id": "good", "id": 1, "patron_id": 0 })
                .await
                .unwrap();
            if !documents.is_empty() {
                addresses(db).insert_many(documents).await.unwrap();
            }
            index_reference(db).await;
            let error = of_two(db, child_id)
                .migrate_from_references(&addresses(db), "patron_id")
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{number}: {error}");
            let is_null = addresses(db).find_one(doc! { "_id": null }).await.unwrap().is_some();
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
        let orphan = || doc! { "id": 1, "patron_id": "nobody" };
        let without_id = doc! { "patron_id": "nobody" };
        addresses(db)
            .insert_many([
                doc! { "_id": 1, "id": 1, "patron_id": 0 },
                orphan(),
                orphan(),
                orphan(),
                without_id,
            ])
            .await
            .unwrap();
        index_reference(db).await;
        let migrated = of_two(db, "id")
            .migrate_from_references(&addresses(db), "patron_id")
            .await
            .unwrap();
        assert_eq!((migrated.parents, migrated.children, migrated.orphans), (1, 1, 4));
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
        let plain = IndexOptions::default;
        let german = Collation::builder().locale("de").build();
        for index in [
            None,
            Some(by(doc! { "n": 1, "patron_id": 1 }, plain())),
            Some(by(
                doc! { "patron_id": 1 },
                IndexOptions::builder().sparse(true).build(),
            )),
            Some(by(
                doc! { "patron_id": 1 },
                IndexOptions::builder().collation(german).build(),
            )),
            Some(by(
                doc! { "patron_id": 1 },
                IndexOptions::builder()
                    .partial_filter_expression(doc! { "n": 1 })
                    .build(),
            )),
        ] {
            addresses(db).drop_indexes().await.unwrap();
            if let Some(index) = index {
                addresses(db).create_index(index).await.unwrap();
            }
            let error = patrons(db)
                .migrate_from_references(&addresses(db), "patron_id")
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error}");
            assert_eq!(all(&stored(db)).await, [doc! { "_id": 0 }]);
        }
        addresses(db).drop_indexes().await.unwrap();
        let longer = by(doc! { "patron_id": -1, "n": 1 }, plain());
        addresses(db).create_index(longer).await.unwrap();
        assert_eq!(
            patrons(db)
                .migrate_from_references(&addresses(db), "patron_id")
                .await
                .unwrap()
                .children,
            1
        );
        // A source that does not exist has no children.
        let none = db.collection::<Document>("none");
        let error = patrons(db)
            .migrate_from_references(&none, "patron_id")
            .await
            .unwrap_err();
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
            let error = patrons
                .migrate_from_references(collection, reference)
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            let error = patrons.migrate_to_references(collection, reference).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
        let error = of_two(db, "id").migrate_to_references(&source, "id").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = patrons
            .migrate_from_references(&source, "patron_id")
            .sort_by("a.b")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn invalid_children_are_not_migrated_to_references() {
    testkit::run(async |db| {
        let patron = |id: &str, addresses: Bson| doc! { "_id": id, "addresses": addresses };
        let joe = |child: Bson| patron("joe", vec![child].into());
        let good = patron("jim", vec![doc! { "_id": 1, "id": 1 }].into());
        let stranger = doc! { "_id": 9, "n": 9 };
        let changed = doc! { "_id": 1, "patron_id": "jim", "id": 2 };
        let cases = [
            ("_id", patron("joe", "none".into()), None, ErrorKind::Corrupt),
            ("_id", joe(5.into()), None, ErrorKind::Corrupt),
            ("_id", joe(doc! { "id": 1 }.into()), None, ErrorKind::Corrupt),
            (
                "_id",
                joe(doc! { "_id": 2, "patron_id": "jim" }.into()),
                None,
                ErrorKind::InvalidArgument,
            ),
            ("_id", joe(doc! { "_id": 1.0 }.into()), None, ErrorKind::InvalidItemId),
            (
                "id",
                patron("joe", vec![doc! { "id": 1 }, doc! { "id": 1 }].into()),
                None,
                ErrorKind::InvalidItemId,
            ),
            (
                "_id",
                patron("joe", Bson::Array(vec![])),
                Some(stranger),
                ErrorKind::TargetNotEmpty,
            ),
            (
                "_id",
                patron("joe", Bson::Array(vec![])),
                Some(changed),
                ErrorKind::TargetNotEmpty,
            ),
        ];
        for (number, (child_id, bad, there, kind)) in cases.into_iter().enumerate() {
            reset(db).await;
            stored(db).insert_many([&good, &bad]).await.unwrap();
            let back = db.plain_collection::<Document>("back");
            if let Some(there) = &there {
                back.insert_one(there).await.unwrap();
            }
            let target = db.collection::<Document>("back");
            let error = of_two(db, child_id)
                .migrate_to_references(&target, "patron_id")
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{number}: {error}");
            assert_eq!(all(&back).await, there.into_iter().collect::<Vec<_>>());
        }
    })
    .await;
}
