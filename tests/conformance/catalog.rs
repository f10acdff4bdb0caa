//! The catalog: what `ensure_indexes` stores, and which settings are refused by it or by the stored documents.

use std::fmt::Debug;

use futures::{Stream, TryStreamExt};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::*;
use support::{archive, embedded, history, outlier, reference, schema, subset};

pub async fn entries(db: &TestDatabase) -> Vec<Document> {
    all(&db.plain_collection("mongo_patterns")).await
}

pub async fn refused<T: Debug>(result: impl IntoFuture<Output = Result<T, Error>>, setting: &str) {
    let error = result.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
    assert!(error.is_setup_error() && error.to_string().contains(setting), "{error}");
}

pub async fn collected<T>(stream: impl Stream<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    stream.try_collect().await
}

#[tokio::test]
async fn ensure_indexes_stores_the_settings_once() {
    testkit::run(async |db| {
        // Before the lists of its documents, with which it would need their overflow documents.
        archive::sales::archive(db).await;
        trades(db).await;
        outlier::books(db).await;
        subset::products(db).await;
        embedded::patrons(db).ensure_indexes().await.unwrap();
        history::policies(db).await;
        support::intervals::prices(db).await;
        reference::orders(db).await;
        schema::contacts::typed(db).ensure_indexes().await.unwrap();
        archive::users::trash(db).await;
        let entries = entries(db).await;
        let stored: Vec<(Document, Document)> = entries
            .iter()
            .map(|entry| {
                assert_eq!(entry.get("created"), entry.get("changed"));
                entry.get_datetime("created").unwrap();
                assert_eq!(entry.get("format"), Some(&Bson::Int32(1)));
                assert_eq!(entry.get_str("library").unwrap(), env!("CARGO_PKG_VERSION"));
                let part = |name: &str| entry.get_document(name).unwrap().clone();
                (part("_id"), part("settings"))
            })
            .collect();
        let name = db.database().name();
        let of = |kind: &str, collection: &str| doc! { "kind": kind, "collection": collection };
        let deleted = doc! { "trash_database": name, "trash_collection": "deleted_users" };
        let golden = [
            (
                doc! { "kind": "bucket", "collection": "trades" },
                doc! {
                    "key": "customerId", "key_type": "int", "items": "history", "count": "count", "time": "date", "item_id": null,
                    "page_size": 10,
                },
            ),
            (
                doc! { "kind": "subset", "collection": "product", "field": "reviews" },
                doc! {
                    "subset": "reviews", "version": "reviews_version", "total": null, "children_collection": "review",
                    "parent": "product_id", "child_id": "review_id", "order": ["-published_date", "-review_id"],
                    "size": 10_i64, "embedded_fields": null,
                },
            ),
            (
                doc! { "kind": "outlier", "collection": "sales", "field": "customers_purchased" },
                doc! {
                    "array": "customers_purchased", "flag": "has_extras", "extras_collection": "extra_sales",
                    "parent": "book_id", "extras": "customers_purchased_extra", "seq": "seq", "count": "count",
                    "threshold": 50, "max_extras_elements": 500, "unique": false,
                },
            ),
            (
                doc! { "kind": "embedded", "collection": "patron", "field": "addresses" },
                doc! { "children": "addresses", "child_id": "id", "max_children": 5 },
            ),
            (
                doc! { "kind": "history", "collection": "currentPolicies" },
                doc! {
                    "id": "policyId", "revision": "revision", "time": "dateSet", "deleted": "deleted",
                    "revisions_collection": "policyRevisions",
                },
            ),
            (
                doc! { "kind": "reference", "collection": "orders", "field": "customer" },
                doc! {
                    "source_collection": "customers", "version": "v",
                    "references": [{
                        "collection": "orders", "field": "customer", "array": false, "snapshot": false,
                        "copied": [
                            { "field": "address", "from": "address" },
                            { "field": "name", "from": "name" },
                        ],
                    }],
                },
            ),
            (of("schema", "contacts"), doc! { "version": "schemaVersion" }),
            (
                of("archive", "sales"),
                doc! {
                    "age": "date", "archive_database": name, "archive_collection": "archived_sales",
                    "keep": [["retentionPolicy", "permanent"]],
                },
            ),
            (of("trash", "users"), deleted),
            (
                of("intervals", "prices"),
                doc! { "id": "item", "valid_from": "validFrom", "valid_to": "validTo", "valid": "isValid" },
            ),
        ];
        assert_eq!(stored.len(), golden.len());
        for entry in golden {
            assert!(stored.contains(&entry), "{stored:#?}");
        }

        db.recorder().clear();
        trades(db).await;
        let before = self::entries(db).await;
        builder(db).build().unwrap().ensure_indexes().await.unwrap();
        assert_eq!(db.recorder().names(), ["find", "listCollections", "listIndexes"]);
        assert_eq!(self::entries(db).await, before);
    })
    .await;
}

#[tokio::test]
async fn settings_that_contradict_the_catalog_are_refused_with_no_effect() {
    testkit::run(async |db| {
        trades(db).await.append(&1, &spread(1)).await.unwrap();
        outlier::books(db).await.insert(&outlier::book(1, 60)).await.unwrap();
        let products = subset::products(db).await;
        products.insert(&subset::review(1)).await.unwrap();
        embedded::patrons(db).ensure_indexes().await.unwrap();
        let policies = history::policies(db).await;
        policies.insert(&history::policy(1)).await.unwrap();
        let orders = reference::orders(db).await;
        reference::add_customers(db, 1..=1).await;
        orders.insert(&reference::order(1, 1)).await.unwrap();
        let before = contents(db).await;

        let flat = db.collection::<Document>("flat");
        let typo = builder(db).key_field("customerID").build().unwrap();
        refused(typo.ensure_indexes(), "`key`").await;
        refused(collected(typo.verify().stream()), "`key`").await;
        refused(collected(typo.repair().stream()), "`key`").await;
        refused(collected(typo.repair().dry_run().stream()), "`key`").await;
        refused(typo.migrate_from_flat(&flat), "`key`").await;
        refused(typo.migrate_from_flat(&flat).plan(), "`key`").await;
        refused(typo.migrate_to_flat(&flat), "`key`").await;
        let larger = builder(db).page_size(100).build().unwrap();
        refused(larger.ensure_indexes(), "`page_size` of ").await;
        refused(collected(larger.repair().stream()), "`page_size`").await;
        refused(larger.migrate_page_size_from(50), "`page_size`").await;

        let other = outlier::builder::<outlier::Book, String>(db);
        let books = other.parent_field("parent_id").build().unwrap();
        refused(books.ensure_indexes(), "`parent`").await;
        refused(collected(books.verify().stream()), "`parent`").await;
        refused(collected(books.repair().delete_orphans().stream()), "`parent`").await;
        refused(books.migrate_existing(), "`parent`").await;
        refused(books.migrate_existing().plan(), "`parent`").await;
        let books = outlier::again(db, 10, 500);
        refused(books.ensure_indexes(), "`threshold`").await;
        refused(collected(books.repair().stream()), "`threshold`").await;

        let newest = subset::newest().size(3);
        let products = subset::builder_of::<Document, subset::Review>(db.database(), newest);
        let products = products.build().unwrap();
        refused(products.ensure_indexes(), "`size`").await;
        refused(collected(products.verify().stream()), "`size`").await;
        refused(collected(products.repair().stream()), "`size`").await;
        refused(products.refresh_all(), "`size`").await;
        refused(products.migrate_existing(), "`size`").await;
        refused(products.migrate_from_embedded(), "`size`").await;
        refused(products.follow("f").run_until_current(), "`size`").await;

        let patrons = embedded::builder(db).max_children(7).build().unwrap();
        refused(patrons.ensure_indexes(), "`max_children`").await;
        refused(collected(patrons.verify().stream()), "`max_children`").await;
        refused(patrons.migrate_from_references(&flat, "patron_id"), "`max_children`").await;
        let policies = history::builder(db.database()).time_field("time").build().unwrap();
        refused(policies.ensure_indexes(), "`time`").await;
        refused(collected(policies.verify().stream()), "`time`").await;
        refused(collected(policies.repair().stream()), "`time`").await;
        let orders = reference::builder(db.database()).version_field("version");
        let orders = orders.build().unwrap();
        refused(orders.ensure_indexes(), "`version`").await;
        refused(collected(orders.verify().stream()), "`version`").await;
        refused(collected(orders.repair().stream()), "`version`").await;
        assert_eq!(contents(db).await, before);

        patrons.ensure_indexes().replace_settings().await.unwrap();
        patrons.ensure_indexes().await.unwrap();
        refused(embedded::patrons(db).ensure_indexes(), "`max_children`").await;
    })
    .await;
}

#[tokio::test]
async fn migrations_change_the_settings() {
    testkit::run(async |db| {
        let old = trades(db).await;
        for n in 0..25 {
            old.append(&1, &spread(n)).await.unwrap();
        }
        for size in [20, 5] {
            let new = builder(db).page_size(size).build().unwrap();
            new.migrate_page_size_from(if size == 20 { 10 } else { 20 })
                .await
                .unwrap();
            new.ensure_indexes().await.unwrap();
            refused(collected(old.verify().stream()), "`page_size`").await;
        }

        outlier::books(db).await.insert(&outlier::book(1, 60)).await.unwrap();
        let books = outlier::again(db, 20, 30);
        books.migrate_existing().plan().await.unwrap();
        refused(books.ensure_indexes(), "`threshold`").await;
        assert_eq!(books.migrate_existing().await.unwrap().documents, 1);
        books.ensure_indexes().await.unwrap();
        assert!(
            books
                .verify()
                .stream()
                .try_collect::<Vec<_>>()
                .await
                .unwrap()
                .is_empty()
        );

        let old = subset::products(db).await;
        let by_author = subset::newest().sort(doc! { "published_date": -1, "review_author": 1 });
        let new = subset::builder_of::<Document, subset::Review>(db.database(), by_author.size(3));
        let new = new.build().unwrap();
        new.migrate_layout_from(&old).plan().await.unwrap();
        old.ensure_indexes().await.unwrap();
        new.migrate_layout_from(&old).await.unwrap();
        new.migrate_layout_from(&old).await.unwrap();
        new.ensure_indexes().await.unwrap();
        refused(old.ensure_indexes(), "`").await;
    })
    .await;
}

#[tokio::test]
async fn of_concurrent_callers_with_different_settings_one_succeeds() {
    testkit::run(async |db| {
        for round in 0..10 {
            let collection = format!("patron{round}");
            let attempt = |max| {
                let patrons = embedded::Patrons::builder(db.collection::<Document>(&collection));
                let patrons = patrons.children_field("addresses").max_children(max).build().unwrap();
                async move { patrons.ensure_indexes().await }
            };
            let results = futures::future::join_all([1, 2, 3, 4].map(attempt)).await;
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
            for error in results.into_iter().filter_map(Result::err) {
                assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error}");
            }
        }
    })
    .await;
}

/// Without an entry: a database that shell commands or an older version wrote.
async fn without_entries(db: &TestDatabase) {
    let entries = db.plain_collection::<Document>("mongo_patterns");
    entries.delete_many(doc! {}).await.unwrap();
}

#[tokio::test]
async fn what_rewrites_documents_needs_an_entry_that_fits_them() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for customer in 0..12 {
            let items: Vec<Trade> = (0..25).map(spread).collect();
            trades.append_many(&customer, &items).await.unwrap();
        }
        let books = outlier::books(db).await;
        for id in 0..40 {
            let purchases = if id % 8 == 0 { 60 } else { 15 };
            books.insert(&outlier::book(id, purchases)).await.unwrap();
        }
        let products = subset::products(db).await;
        for id in 2..30 {
            subset::add_product(db, id).await;
            let reviews: Vec<_> = (0..4).map(|review| subset::review_of(id, review, 0)).collect();
            products.insert_many(&reviews).await.unwrap();
        }
        without_entries(db).await;
        let before = contents(db).await;

        const NO_ENTRY: &str = "has no entry in the catalog";
        let typo = builder(db).key_field("customerID").build().unwrap();
        refused(collected(typo.repair().stream()), NO_ENTRY).await;
        refused(typo.ensure_indexes(), "`customerID`").await;
        let larger = builder(db).page_size(100).build().unwrap();
        refused(collected(larger.repair().stream()), NO_ENTRY).await;
        refused(larger.migrate_page_size_from(10), NO_ENTRY).await;
        refused(larger.ensure_indexes(), "customerId_1_count_lt_10").await;
        plain(db).drop_indexes().await.unwrap();
        let error = larger.ensure_indexes().await.unwrap_err();
        assert!(
            error.is_corrupt(),
            "its buckets would be two open ones for a key: {error}"
        );
        refused(collected(larger.repair().stream()), NO_ENTRY).await;
        collected(larger.repair().dry_run().stream()).await.unwrap();

        let (sales, extras) = (db.collection::<Document>("sales"), db.collection::<Document>("nosuch"));
        let none = outlier::Books::builder(sales.clone(), extras).array_field("customers_purchased");
        let none = none.parent_field("book_id").build().unwrap();
        refused(collected(none.repair().stream()), NO_ENTRY).await;
        refused(none.ensure_indexes(), "nosuch").await;
        let other = outlier::builder::<outlier::Book, String>(db);
        let other = other.parent_field("parent_id").build().unwrap();
        refused(collected(other.repair().delete_orphans().stream()), NO_ENTRY).await;
        refused(other.ensure_indexes(), "`parent_id`").await;
        let flag = outlier::builder::<outlier::Book, String>(db)
            .flag_field("more")
            .build()
            .unwrap();
        refused(collected(flag.repair().stream()), NO_ENTRY).await;
        refused(flag.migrate_existing(), "`more`").await;
        refused(flag.ensure_indexes(), "`more`").await;
        let low = outlier::again(db, 10, 500);
        refused(collected(low.repair().stream()), NO_ENTRY).await;

        let newest = subset::newest().size(2);
        let small = subset::builder_of::<Document, subset::Review>(db.database(), newest);
        let small = small.build().unwrap();
        refused(collected(small.repair().stream()), NO_ENTRY).await;
        refused(small.refresh_all(), NO_ENTRY).await;
        let child = subset::builder::<Document, subset::Review>(db.database());
        let child = child.child_id_field("id").build().unwrap();
        refused(child.ensure_indexes(), "`id`").await;
        refused(child.migrate_existing(), "`id`").await;
        assert_eq!(contents(db).await, before);

        low.ensure_indexes().await.unwrap();
        assert_eq!(collected(low.repair().stream()).await.unwrap().len(), 40);
        small.ensure_indexes().await.unwrap();
        assert_eq!(collected(small.repair().stream()).await.unwrap().len(), 28);
        confirm_settings(larger.ensure_indexes()).await;
        assert_eq!(collected(larger.repair().stream()).await.unwrap().len(), 12);
    })
    .await;
}

#[tokio::test]
async fn an_entry_of_a_later_version_is_refused() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let entries = db.plain_collection::<Document>("mongo_patterns");
        let updated = entries.update_one(doc! {}, doc! { "$set": { "format": 2 } });
        updated.await.unwrap();
        let error = collected(trades.repair().stream()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        entries
            .update_one(
                doc! {},
                doc! { "$set": { "format": 1, "settings.figures": { "qty": "sum" } } },
            )
            .await
            .unwrap();
        refused(collected(trades.repair().stream()), "`figures`").await;
    })
    .await;
}
