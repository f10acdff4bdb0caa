//! Documents at the limit of 16 MiB.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::SubsetRepository;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::*;
use support::embedded::{address, patron, patrons, plant};
use support::subset::day;
use support::{outlier as outlier_support, subset as subset_support};

const MIB: usize = 1024 * 1024;

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn items_that_would_exceed_16_mib_are_refused_and_not_stored() {
    testkit::run(async |db| {
        let texts = BucketRepository::<u32, String>::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history")
            .build()
            .unwrap();
        texts.ensure_indexes().await.unwrap();
        for bytes in [16 * MIB - 8, 16 * MIB, 17 * MIB, 50 * MIB] {
            let error = texts.append(&1, &"x".repeat(bytes)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{bytes} bytes alone: {error:?}");
            assert!(error.is_invalid_input() && !error.is_outcome_unknown());
        }
        assert!(all(&plain(db)).await.is_empty());

        texts.append(&1, &"x".repeat(10 * MIB)).await.unwrap();
        let error = texts.append(&1, &"y".repeat(7 * MIB)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "with others: {error:?}");
        let counts = texts.counts(&1).await.unwrap();
        assert_eq!((counts.items, counts.pages), (1, 1));
        texts.append(&1, &"z".to_owned()).await.unwrap();
        assert!(violations(&plain(db), 10).await.is_empty());
        plain(db).delete_many(doc! {}).await.unwrap();
    })
    .await;
}

/// Returns a document with these fields and a text of that length.
fn with_text(bytes: usize, fields: Document) -> Document {
    let mut document = fields;
    document.insert("text", "x".repeat(bytes));
    document
}

/// Runs the inserts of every pattern, also in a transaction of the caller.
async fn insert_of_every_pattern(
    db: &TestDatabase,
    bytes: usize,
    in_transactions: &[bool],
) -> Vec<(&'static str, Error)> {
    let books: OutlierRepository<Document, Bson> = outlier_support::builder(db).threshold(2).build().unwrap();
    let patrons = patrons(db);
    let mut session = db.client().start_session().await.unwrap();
    let mut errors = Vec::new();
    for in_transaction in in_transactions.iter().copied() {
        macro_rules! refused {
            ($name:literal, $action:expr) => {
                let error = match in_transaction {
                    false => $action.await.unwrap_err(),
                    true => {
                        session.start_transaction().await.unwrap();
                        let error = $action.session(&mut session).await.unwrap_err();
                        session.abort_transaction().await.unwrap();
                        error
                    }
                };
                errors.push(($name, error));
                // Or it would keep gigabytes.
                db.recorder().clear();
            };
        }
        let book = with_text(bytes, doc! { "_id": 1, "customers_purchased": [1] });
        refused!("outlier insert", books.insert(&book));
        let long = with_text(bytes, doc! { "_id": 1, "customers_purchased": [1, 2, 3] });
        refused!("outlier insert of a list that is split", books.insert(&long));
        let patron = with_text(bytes, patron("joe", [address("home")]));
        refused!("embedded insert", patrons.insert(&patron));
        let child = with_text(bytes, address("work"));
        refused!("embedded add_child", patrons.add_child("jane", &child));
        refused!("embedded upsert_child", patrons.upsert_child("jane", &child));
        refused!(
            "embedded replace_child",
            patrons.replace_child("jane", &with_text(bytes, address("home")))
        );
        let review = |id: i32| with_text(bytes, doc! { "product_id": 1, "review_id": id });
        let small = doc! { "product_id": 1, "review_id": 2 };
        let products = subset_support::builder::<Document, Document>(db.database());
        let products = products.build().unwrap();
        refused!("subset insert", products.insert(&review(1)));
        let many = [small.clone(), review(1)];
        let stored_before = subset_support::reviews(db).count_documents(doc! {}).await.unwrap();
        refused!("subset insert_many", products.insert_many(&many));
        assert_eq!(
            stored_before,
            subset_support::reviews(db).count_documents(doc! {}).await.unwrap()
        );
        refused!("subset replace", products.replace(&review(9)));
    }
    errors
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_document_that_would_exceed_16_mib_is_refused_by_every_insert() {
    testkit::run(async |db| {
        patrons(db).ensure_indexes().await.unwrap();
        let books: OutlierRepository<Document, Bson> = outlier_support::builder(db).build().unwrap();
        books.ensure_indexes().await.unwrap();
        let products: subset_support::Products = subset_support::builder(db.database()).build().unwrap();
        products.ensure_indexes().await.unwrap();
        plant(db, &patron("jane", [address("home")])).await;
        let product = db.plain_collection::<Document>("product");
        product.insert_one(doc! { "_id": 1 }).await.unwrap();
        let review = doc! { "product_id": 1, "review_id": 9 };
        db.plain_collection("review").insert_one(review).await.unwrap();
        let other = db.plain_collection::<Document>("other");
        other.insert_one(doc! {}).await.unwrap();
        let both = &[false, true][..];
        for (bytes, in_transactions) in [(16 * MIB - 10, both), (17 * MIB, &[true]), (50 * MIB, &[false])] {
            for (call, error) in insert_of_every_pattern(db, bytes, in_transactions).await {
                assert_eq!(error.kind(), ErrorKind::TooLarge, "{call}, {bytes} bytes: {error:?}");
                assert!(
                    error.is_invalid_input() && !error.is_outcome_unknown(),
                    "{call}: {error:?}"
                );
                assert!(error.stored_count().unwrap_or(0) == 0, "{call}: {error:?}");
            }
        }
    })
    .await;
}

/// The parent of each write would exceed 16 MiB with its new subset, and nothing is stored.
#[tokio::test]
async fn an_error_tells_a_too_large_parent_from_a_too_large_child() {
    testkit::run(async |db| {
            let products = subset_support::builder::<Document, Document>(db.database());
            let products: SubsetRepository<Document, Document> = subset_support::ready(db, products).await;
            let child = |id: i32, bytes: usize| doc! { "product_id": 1, "review_id": id, "published_date": day(id.into()), "text": "x".repeat(bytes) };
            for id in [1, 2] {
                products.insert(&child(id, 0)).await.unwrap();
            }
            let pad = doc! { "$set": { "pad": "x".repeat(15 * MIB) } };
            subset_support::product(db).update_one(doc! {}, pad).await.unwrap();
            let check = |error: Error, call: &str| {
                let context = format!("{call}: {error:?}");
                assert_eq!((error.kind(), error.stored_count()), (ErrorKind::TooLarge, None), "{context}");
                assert!(error.is_invalid_input() && !error.is_transient() && !error.is_outcome_unknown(), "{context}");
                assert!(error.to_string().contains("with the new subset the parent would exceed"), "{context}");
            };
            let text = || doc! { "$set": { "text": "y".repeat(MIB) } };
            check(products.update(1, 1, text()).await.unwrap_err(), "update");
            check(products.replace(&child(2, MIB)).await.unwrap_err(), "replace");
            check(products.insert(&child(3, MIB)).await.unwrap_err(), "insert");
            check(products.insert_many(&[child(4, MIB)]).await.unwrap_err(), "insert_many");
            let stored = all(&subset_support::reviews(db)).await;
            let large = stored.iter().filter(|child| child.get_str("text").unwrap().len() == MIB);
            assert_eq!(large.count(), 0);
            // By another program, so that also the parent of a rebuild would be too large.
            subset_support::reviews(db).insert_one(child(5, MIB)).await.unwrap();
            check(products.refresh(1).await.unwrap_err(), "refresh");
            products.delete_parent(1).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_batch_with_a_too_large_child_is_refused_before_a_part_of_it_is_sent() {
    testkit::run(async |db| {
        let products = subset_support::builder::<Document, Document>(db.database());
        let products = subset_support::ready(db, products).await;
        let review = |id: i32, bytes| with_text(bytes, doc! { "product_id": 1, "review_id": id });
        // More than the 48 MB of one message precede it.
        let mut reviews: Vec<Document> = (0..4).map(|id| review(id, 15 * MIB)).collect();
        reviews.push(review(4, 17 * MIB));
        let error = products.insert_many(&reviews).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error:?}");
        assert!(all(&subset_support::reviews(db)).await.is_empty());
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}
