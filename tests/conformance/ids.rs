//! Values that the server refuses as an `_id`, or replaces: a typed error, and no effect.

use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns::subset::SubsetRepository;
use mongo_patterns::{Error, ErrorKind, Result};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, Regex, Timestamp, cstr, doc};

use support::common::all;
use support::{embedded as embedded_support, outlier as outlier_support, subset as subset_support};

/// Returns values that are not valid as an `_id`.
fn no_ids() -> [Bson; 4] {
    let regex = Regex {
        pattern: cstr!("a").into(),
        options: cstr!("").into(),
    };
    [
        Bson::Array(vec![]),
        Bson::Array(vec![1.into()]),
        Bson::Undefined,
        Bson::RegularExpression(regex),
    ]
}

fn is_refused<T: std::fmt::Debug>(outcome: Result<T>, context: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{context}: {error:?}");
    assert!(
        error.is_invalid_input() && error.stored_count().is_none(),
        "{context}: {error:?}"
    );
}

#[tokio::test]
async fn invalid_ids_of_children_and_parents_are_refused() {
    testkit::run(async |db| {
        let builder = subset_support::builder::<Document, Document>(db.database());
        let reviews: SubsetRepository<Document, Document> = subset_support::ready(db, builder).await;
        let review = doc! { "review_id": 1, "product_id": 1, "stars": 5 };
        reviews.insert(&review).await.unwrap();
        let before = all(&subset_support::reviews(db)).await;
        db.recorder().clear();
        let with = |field: &str, value: &Bson| {
            let mut document = doc! { "review_id": 2, "product_id": 1 };
            document.insert(field, value.clone());
            document
        };
        for id in no_ids() {
            let context = format!("{id}");
            let bad = with("_id", &id);
            is_refused(reviews.insert(&bad).await, &context);
            let two = [doc! { "review_id": 3, "product_id": 1 }, bad.clone()];
            is_refused(reviews.insert_many(&two).await, &context);
            let mut other = review.clone();
            other.insert("_id", id.clone());
            is_refused(reviews.replace(&other).await, &context);
            for field in ["review_id", "product_id"] {
                is_refused(reviews.insert(&with(field, &id)).await, &context);
            }
            is_refused(reviews.refresh(id.clone()).await, &context);
            is_refused(reviews.child(1, id.clone()).await, &context);
        }
        // The server would store another value than this one, and the child would belong to no parent.
        let none = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
        for field in ["review_id", "product_id"] {
            is_refused(reviews.insert(&with(field, &none)).await, field);
        }
        assert_eq!(db.recorder().round_trips(), 0);
        assert_eq!(all(&subset_support::reviews(db)).await, before);
        reviews.insert(&with("_id", &none)).await.unwrap();
        reviews
            .insert(&doc! { "_id": null, "review_id": 4, "product_id": 1 })
            .await
            .unwrap();
        reviews.delete_parent(1).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn invalid_ids_of_lists_and_embedding_parents_are_refused() {
    testkit::run(async |db| {
        let books = outlier_support::builder::<Document, Document>(db);
        let books: OutlierRepository<Document, Document> = outlier_support::ready(db, books).await;
        let patrons: EmbeddedRepository<Document, Document> = embedded_support::patrons(db);
        db.recorder().clear();
        for id in no_ids() {
            let context = id.to_string();
            let mut bad = doc! { "name": "a" };
            bad.insert("_id", id.clone());
            is_refused(books.insert(&bad).await, &context);
            is_refused(books.push(id.clone(), &doc! {}).await, &context);
            is_refused(patrons.insert(&bad).await, &context);
            is_refused(patrons.get(id.clone()).await, &context);
            // The server's own error, for a call that does not check before it sends.
            let sent = embedded_support::stored(db).insert_one(doc! { "_id": id }).await;
            is_refused(sent.map_err(Error::from), &context);
        }
        assert_eq!(db.recorder().round_trips(), 0);
        assert!(all(&outlier_support::sales(db)).await.is_empty());
        assert!(all(&embedded_support::stored(db)).await.is_empty());
    })
    .await;
}

/// A value that can be the key of a bucket can be an id everywhere, and is stored in the same type.
#[tokio::test]
async fn unsigned_integers_are_valid_ids() {
    testkit::run(async |db| {
        let patrons = embedded_support::patrons(db);
        let plain = db.plain_collection::<Document>("patron");
        for id in [7_i64, 1 << 40] {
            plain.insert_one(doc! { "_id": id, "addresses": [] }).await.unwrap();
        }
        for id in [7_u64, 1 << 40] {
            patrons.add_child(id, &embedded_support::address(1)).await.unwrap();
            assert!(patrons.child(id, 1_u64).await.unwrap().is_some());
            assert!(patrons.get(id).await.unwrap().is_some());
        }
        db.recorder().clear();
        for result in [
            patrons.get(u64::MAX).await.map(drop),
            patrons.child(7, u64::MAX).await.map(drop),
            patrons.remove_child(u64::MAX, 1).await.map(drop),
        ] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}
