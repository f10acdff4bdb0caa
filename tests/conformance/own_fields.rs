//! Fields of the application with the name of a field of a pattern: the setup and the migrations refuse them, before the first
//! write.

use mongo_patterns::bucket::{BucketRepository, Window};
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::common::{Trade, at, contents};
use support::outlier;
use support::reference;
use support::subset;

/// Checks that a call refuses a document, with its field, and writes nothing.
#[track_caller]
fn assert_refused(error: &Error, id: impl Into<Bson>, field: &str, collection: &str) {
    assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
    assert_eq!(error.document_id(), Some(&id.into()), "{error:?}");
    assert_eq!(error.field(), Some(field), "{error:?}");
    assert_eq!(
        error.document_namespace().map(|of| of.coll.as_str()),
        Some(collection),
        "{error:?}"
    );
    assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
}

/// Stores a document, and returns the database before a call.
async fn planted(db: &TestDatabase, collection: &str, document: Document) -> Vec<(String, Vec<Document>)> {
    let database = db.plain_client().database(db.database().name());
    database.drop().await.unwrap();
    db.plain_collection::<Document>(collection)
        .insert_one(document)
        .await
        .unwrap();
    contents(db).await
}

#[tokio::test]
async fn the_version_and_the_total_of_a_subset_are_not_overwritten() {
    testkit::run(async |db| {
        let builder = || subset::builder::<Document, Document>(db.database()).total_field("review_count");
        for (field, value) in [
            ("reviews_version", Bson::from("second edition")),
            ("reviews_version", DateTime::now().into()),
            ("reviews_version", vec![1].into()),
            ("review_count", "many".into()),
            ("review_count", doc! { "shown": 3 }.into()),
        ] {
            let before = planted(db, "product", doc! { "_id": 1, field: value.clone() }).await;
            let products = builder().build().unwrap();
            for refused in [
                products.ensure_indexes().await.map(drop),
                products.migrate_existing().await.map(drop),
                products.migrate_existing().plan().await.map(drop),
                products.migrate_from_embedded().await.map(drop),
            ] {
                assert_refused(&refused.unwrap_err(), 1, field, "product");
            }
            assert_eq!(contents(db).await, before, "{field}: {value}");

            // Documents that came after the settings were stored.
            let product = db.plain_collection::<Document>("product");
            product.delete_one(doc! {}).await.unwrap();
            products.ensure_indexes().await.unwrap();
            let late = doc! { "_id": 2, field: value.clone() };
            product.insert_one(late).await.unwrap();
            let before = contents(db).await;
            let refused = products.migrate_existing().await.unwrap_err();
            assert_refused(&refused, 2, field, "product");
            assert_eq!(contents(db).await, before, "{field}: {value}");
        }
        for value in [Bson::Null, 7.into(), 7_i64.into()] {
            planted(
                db,
                "product",
                doc! { "_id": 1, "reviews_version": value.clone(), "review_count": 0.0 },
            )
            .await;
            builder().build().unwrap().migrate_existing().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn the_flag_of_an_outlier_is_not_overwritten() {
    testkit::run(async |db| {
        let many: Vec<String> = (0..60).map(|n| n.to_string()).collect();
        let book = |flag: Bson| doc! { "_id": 1, "title": "a", "customers_purchased": &many, "has_extras": flag };
        for value in [
            Bson::from("stickers"),
            1.into(),
            doc! { "dvd": true }.into(),
            vec!["dvd"].into(),
        ] {
            let before = planted(db, "sales", book(value.clone())).await;
            let books = outlier::builder::<Document, String>(db).build().unwrap();
            assert_refused(&books.ensure_indexes().await.unwrap_err(), 1, "has_extras", "sales");
            assert_refused(&books.migrate_existing().await.unwrap_err(), 1, "has_extras", "sales");
            let plan = books.migrate_existing().plan().await.unwrap_err();
            assert_refused(&plan, 1, "has_extras", "sales");
            assert_eq!(contents(db).await, before, "{value}");
        }
        for value in [Bson::Null, false.into(), "false".into()] {
            planted(db, "sales", book(value.clone())).await;
            let books = outlier::builder::<Document, String>(db).build().unwrap();
            let migrated = books.migrate_existing().await.unwrap();
            assert_eq!((migrated.documents, migrated.overflow_documents), (1, 1), "{value}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_count_the_figures_and_the_window_of_a_bucket_are_not_overwritten() {
    testkit::run(async |db| {
        let builder = || {
            BucketRepository::<String, Trade>::builder(db.collection::<Document>("trades"))
                .key_field("customerId")
                .items_field("history")
                .time_field("date")
        };
        let trade = doc! { "n": 1_i64, "date": at(0) };
        let bucket = |field: &str, value: Bson| {
            let mut bucket = doc! { "_id": "a_0000000000", "customerId": "a", "count": 1, "history": [&trade] };
            bucket.insert(field, value);
            bucket
        };
        for (field, value) in [
            ("count", Bson::from("one")),
            ("figures", "see page 5".into()),
            ("figures", vec![5].into()),
            ("window", "left".into()),
        ] {
            let before = planted(db, "trades", bucket(field, value.clone())).await;
            let trades = match field {
                "count" => builder(),
                "figures" => builder().sum("n"),
                _ => builder().window(Window::Hour),
            };
            let error = trades.build().unwrap().ensure_indexes().await.unwrap_err();
            assert_refused(&error, "a_0000000000", field, "trades");
            assert_eq!(contents(db).await, before, "{field}: {value}");
        }
        // Figures for a collection that has none.
        planted(db, "trades", bucket("figures", "see page 5".into())).await;
        builder().build().unwrap().ensure_indexes().await.unwrap();
        let before = contents(db).await;
        let error = builder().sum("n").build().unwrap().refresh_figures().await.unwrap_err();
        assert_refused(&error, "a_0000000000", "figures", "trades");
        assert_eq!(contents(db).await, before);
    })
    .await;
}

/// A version is a number too, so that only its copies and the catalog show whose it is.
#[tokio::test]
async fn the_version_of_a_source_is_not_overwritten() {
    testkit::run(async |db| {
        let customer = doc! { "_id": 1, "name": "Ann", "address": "D1", "v": 3 };
        let before = planted(db, "customers", customer.clone()).await;
        let orders = reference::builder(db.database()).build().unwrap();
        let refused = orders.ensure_indexes().await.unwrap_err();
        assert_refused(&refused, 1, "v", "customers");
        let refused = orders.migrate_from_references().await.unwrap_err();
        assert_refused(&refused, 1, "v", "customers");
        assert_eq!(contents(db).await, before);
        let named = reference::builder(db.database())
            .version_field("copied")
            .build()
            .unwrap();
        named.ensure_indexes().await.unwrap();

        // A repository was killed before it stored its settings, and another one updates sources. The index proves nothing:
        // the manual's recipe has it too.
        let entry = doc! { "_id.kind": "reference" };
        let versioned_by_orders = async || {
            planted(db, "customers", doc! { "_id": 1, "name": "Ann", "address": "D1" }).await;
            orders.ensure_indexes().await.unwrap();
            let rename = doc! { "$set": { "name": "Bob" } };
            orders.update_source(1, rename).await.unwrap();
        };
        versioned_by_orders().await;
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        assert_eq!(catalog.delete_one(entry).await.unwrap().deleted_count, 1);
        assert_refused(&orders.ensure_indexes().await.unwrap_err(), 1, "v", "customers");
        orders.ensure_indexes().replace_settings().await.unwrap();

        // A copy has it: the catalog was lost.
        planted(db, "customers", customer.clone()).await;
        let order = doc! { "_id": 1, "customer": { "_id": 1, "name": "Ann", "address": "D1", "v": 3 } };
        let stored = db.plain_collection::<Document>("orders");
        stored.insert_one(order).await.unwrap();
        orders.ensure_indexes().await.unwrap();

        // Another repository of the catalog writes it.
        versioned_by_orders().await;
        let invoices = mongo_patterns::reference::ReferenceRepository::<Document, Document>::builder(
            db.collection::<Document>("invoices"),
            db.collection::<Document>("customers"),
        );
        let invoices = invoices
            .reference_field("customer")
            .copied_fields(["name"])
            .build()
            .unwrap();
        invoices.ensure_indexes().await.unwrap();
    })
    .await;
}
