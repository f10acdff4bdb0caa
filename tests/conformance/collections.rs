//! Collections that the patterns do not support: `ensure_indexes` refuses them, and creates nothing.

use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::conformance::settings::{PATTERNS, collections};
use support::common::{self, assert_refused, contents, spread};
use support::history::policy;
use support::outlier as outlier_support;
use support::repositories::Repositories;
use support::subset as subset_support;

async fn create(db: &TestDatabase, collection: &str, options: Document) {
    let mut create = doc! { "create": collection };
    create.extend(options);
    let plain = db.plain_client().database(db.database().name());
    plain.run_command(create).await.unwrap();
}

/// Each collection of each pattern is created with these options, alone.
#[tokio::test]
async fn a_collection_that_no_pattern_supports_is_refused_and_nothing_is_created() {
    let clustered = doc! { "clusteredIndex": { "key": { "_id": 1 }, "unique": true } };
    let collation = doc! { "collation": { "locale": "en", "strength": 2 } };
    let refused = [
        (doc! { "capped": true, "size": 4096 }, ErrorKind::Configuration),
        (doc! { "viewOn": "others", "pipeline": [] }, ErrorKind::Configuration),
        (doc! { "timeseries": { "timeField": "at" } }, ErrorKind::Configuration),
        (clustered, ErrorKind::Configuration),
        (collation, ErrorKind::UnsupportedCollation),
    ];
    testkit::run(async |db| {
        let plain = db.plain_client().database(db.database().name());
        for pattern in PATTERNS {
            let repository = || (pattern.over)(&collections(db, pattern.collections));
            for namespace in repository().namespaces() {
                let collection = &namespace.coll;
                for (options, kind) in &refused {
                    create(db, collection, options.clone()).await;
                    let error = repository().ensure_indexes().await.unwrap_err();
                    let context = format!("{} {collection} {options}: {error:?}", pattern.name);
                    assert_eq!(error.kind(), *kind, "{context}");
                    assert!(error.to_string().contains(&format!("`{namespace}`")), "{context}");
                    let names = plain.list_collection_names().await.unwrap();
                    let created = names.iter().filter(|name| !name.starts_with("system."));
                    assert_eq!(created.collect::<Vec<_>>(), [collection], "{context}");
                    plain.collection::<Document>(collection).drop().await.unwrap();
                }
                repository().ensure_indexes().await.unwrap();
                plain.drop().await.unwrap();
            }
        }
    })
    .await;
}

/// A collection can be replaced by a view at any time, and reads of the server's statistics need no set-up.
#[tokio::test]
async fn a_command_that_a_view_does_not_have_is_refused_with_what_to_do() {
    testkit::run(async |db| {
        create(db, "patron", doc! { "viewOn": "others", "pipeline": [] }).await;
        let view = db.plain_collection::<Document>("patron");
        let index = mongodb::IndexModel::builder().keys(doc! { "a": 1 }).build();
        let refused = [
            view.insert_one(doc! {}).await.unwrap_err(),
            view.update_one(doc! {}, doc! { "$set": { "a": 1 } }).await.unwrap_err(),
            view.delete_many(doc! {}).await.unwrap_err(),
            view.create_index(index).await.unwrap_err(),
            view.aggregate([doc! { "$collStats": { "storageStats": {} } }])
                .await
                .map(drop)
                .unwrap_err(),
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            let error = Error::from(refused);
            assert_eq!(error.kind(), ErrorKind::Configuration, "{number}: {error:?}");
            assert!(
                error.to_string().contains("use the collection that the view reads"),
                "{error}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_clustered_collection_is_refused_even_if_its_indexes_exist() {
    testkit::run(async |db| {
        let options = doc! { "clusteredIndex": { "key": { "_id": 1 }, "unique": true } };
        create(db, "extra_sales", options).await;
        let books: outlier_support::Books = outlier_support::builder(db).threshold(2).build().unwrap();
        for index in books.indexes()[0].indexes() {
            books
                .overflow_collection()
                .create_index(index.to_model())
                .await
                .unwrap();
        }
        let error = books.insert(&outlier_support::book(1, 5)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        assert!(common::all(&outlier_support::sales(db)).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn collections_of_two_databases_are_both_checked() {
    testkit::run(async |db| {
        let plain = db.plain_client().database(db.database().name());
        let other_name = format!("{}_b", db.database().name());
        let (here, there) = (db.database().clone(), db.client().database(&other_name));
        let clear = async || {
            plain.drop().await.unwrap();
            db.plain_client().database(&other_name).drop().await.unwrap();
        };
        let capped = doc! { "capped": true, "size": 4096 };
        for in_other in [false, true] {
            let database = if in_other {
                db.plain_client().database(&other_name)
            } else {
                plain.clone()
            };
            let name = if in_other { "sales" } else { "extra_sales" };
            let mut create = doc! { "create": name };
            create.extend(capped.clone());
            database.run_command(create).await.unwrap();
            let sales = there.collection::<Document>("sales");
            let extras = here.collection::<Document>("extra_sales");
            let books = OutlierRepository::<Document, String>::builder(sales, extras)
                .array_field("customers")
                .parent_field("book_id")
                .build()
                .unwrap();
            let error = books.ensure_indexes().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
            clear().await;
            books.ensure_indexes().await.unwrap();
            clear().await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_round_trip_checks_both_collections() {
    testkit::run(async |db| {
        let books: outlier_support::Books = outlier_support::builder(db).build().unwrap();
        books.ensure_indexes().await.unwrap();
        let products: subset_support::Products = subset_support::builder(db.database()).build().unwrap();
        products.ensure_indexes().await.unwrap();
        // The settings, the fields of a sample, and values of the application in fields of the pattern; for the outlier
        // pattern also the flag.
        let sales = ["hello", "find", "aggregate", "find", "find"];
        let product = ["hello", "find", "aggregate", "find"];
        // The entry is stored, other owners are looked for again, and it is confirmed.
        let each = [
            "listCollections",
            "listIndexes",
            "createIndexes",
            "update",
            "find",
            "update",
        ];
        assert_eq!(db.recorder().names(), [&sales[..], &each, &product, &each].concat());
    })
    .await;
}

#[tokio::test]
async fn a_migration_refuses_unsupported_parents_before_it_writes() {
    testkit::run(async |db| {
        create(db, "product", doc! { "collation": { "locale": "en", "strength": 2 } }).await;
        let products: subset_support::Products = subset_support::builder(db.database()).build().unwrap();
        let error = products.migrate_existing().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedCollation, "{error:?}");
        let error = products.migrate_existing().plan().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedCollation, "{error:?}");
        let plain = db.plain_client().database(db.database().name());
        assert_eq!(plain.list_collection_names().await.unwrap(), ["product"]);
    })
    .await;
}

/// Where `ensure_indexes` has refused the collection, so that its indexes are missing. The calls of embedded children, which need
/// no index, compare ids exactly: `embedded::values`.
#[tokio::test]
async fn writes_to_a_collection_with_a_collation_are_refused() {
    testkit::run(async |db| {
        let repositories = Repositories::new(db.database());
        for repository in repositories.all() {
            for namespace in repository.namespaces() {
                create(
                    db,
                    &namespace.coll,
                    doc! { "collation": { "locale": "en", "strength": 2 } },
                )
                .await;
            }
            let refused = repository.ensure_indexes().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::UnsupportedCollation, "{refused:?}");
        }
        let Repositories {
            trades,
            products,
            policies,
            orders,
            ..
        } = &repositories;
        let review = subset_support::review(1);
        for refused in [
            trades.append(&1, &spread(1)).await.map(drop),
            products.insert(&review).await.map(drop),
            policies.insert(&policy(1)).await.map(drop),
            orders
                .update_source(1, doc! { "$set": { "name": "Ann" } })
                .await
                .map(drop),
        ] {
            assert_refused(refused, ErrorKind::IndexMissing);
        }
        for (name, documents) in contents(db).await {
            assert!(documents.is_empty(), "{name}: {documents:?}");
        }
    })
    .await;
}
