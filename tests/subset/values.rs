//! Values and ids of all kinds, other field names, and the caller's transactions.

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Subset;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use support::subset::*;

/// Values of all types, missing values and equal values have MongoDB's order, and then that of the ids.
#[tokio::test]
async fn missing_mixed_and_equal_values_are_ordered() {
    testkit::run(async |db| {
        for (direction, expected) in [(1, [1, 2, 3, 4, 5, 6]), (-1, [8, 7, 6, 5, 4, 3])] {
            let first = Subset::new("reviews").sort(doc! { "rank": direction }).size(6);
            let products = ready(db, builder_of::<Document, Document>(db.database(), first)).await;
            let child = |id: i32, rank: Option<Bson>| {
                let mut child = doc! { "product_id": 1, "review_id": id };
                child.extend(rank.map(|rank| ("rank".to_owned(), rank)));
                child
            };
            let mut children = [
                child(1, None),
                child(2, Some(Bson::Null)),
                child(3, Some(5.into())),
                child(4, Some(5.0.into())),
                child(5, Some("5".into())),
                child(6, Some(doc! { "a": 1 }.into())),
                child(7, Some(true.into())),
                child(8, Some(day(1).into())),
            ];
            children.reverse();
            for child in &children {
                products.insert(child).await.unwrap();
            }
            assert_eq!(embedded(db).await, expected, "{direction:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn embedded_fields_and_subset_size_are_settings() {
    testkit::run(async |db| {
        let best = Subset::new("best")
            .sort(doc! { "stars": -1, "votes": 1 })
            .size(1)
            .embedded_fields(["text"]);
        let one_to_one = builder_of::<Document, Document>(db.database(), best);
        let products = ready(db, one_to_one.version_field("writes").child_id_field("_id")).await;
        let best = async || {
            let found = products.get(1).await.unwrap().unwrap();
            found.get_array("best").unwrap().clone()
        };
        let only = |id: &str, text: &str| [Bson::from(doc! { "_id": id, "text": text })];
        for (id, stars, votes) in [("a", 3, 5), ("b", 4, 9), ("c", 4, 7), ("d", 4, 7)] {
            let new = doc! { "_id": id, "product_id": 1, "stars": stars, "votes": votes, "text": id, "long": "x" };
            products.insert(&new).await.unwrap();
        }
        assert_eq!(best().await, only("c", "c"));
        assert_eq!(stored_product(db).await.get_i64("writes").unwrap(), 5);
        products.delete(1, "c").await.unwrap();
        assert_eq!(best().await, only("d", "d"));
        add_product(db, 2).await;
        let taken = doc! { "_id": "a", "product_id": 2 };
        let error = products.insert(&taken).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let new = doc! { "_id": "a", "product_id": 1, "stars": 9, "text": "new" };
        products.replace(&new).await.unwrap();
        assert_eq!(best().await, only("a", "new"));
    })
    .await;
}

/// Field names that start with `$`, also at the start of a child: a replacement accepts the same ones as an insert.
#[tokio::test]
async fn a_replacement_accepts_the_names_that_an_insert_accepts() {
    testkit::run(async |db| {
        let builder = builder::<Document, Document>(db.database());
        let products: Any = ready(db, builder).await;
        let plain = doc! { "product_id": 1, "review_id": 1, "published_date": day(1) };
        let mut hostile = doc! { "$set": { "review_id": 9 }, "$": "$name", "x": { "$literal": "$y" } };
        hostile.extend(plain.clone());
        hostile.extend(doc! { "$unset": "product_id", "a.b": 1 });
        products.insert(&hostile).await.unwrap();
        let inserted = products.child(1, 1).await.unwrap().unwrap();
        assert!(products.replace(&plain).await.unwrap().modified);
        let replaced = products.replace(&hostile).await.unwrap();
        assert!(replaced.modified && replaced.in_subset, "{replaced:?}");
        assert_eq!(products.child(1, 1).await.unwrap().unwrap(), inserted);
        let mut other = hostile.clone();
        other.insert("_id", "another");
        let refused = products.replace(&other).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        other.insert("_id", inserted.get("_id").unwrap().clone());
        products.replace(&other).await.unwrap();
        assert_eq!(products.child(1, 1).await.unwrap().unwrap(), inserted);
        other.insert("review_id", 17);
        let refused = products.replace(&other).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ChildNotFound);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}
