//! Figures: their stored form, and values of all types.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Bson, DateTime, Document, Regex, cstr, doc, spec::BinarySubtype};

use crate::subset::rated::*;
use support::common::all;
use support::subset::*;

#[tokio::test]
async fn the_stored_form_of_computed_fields() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        for (id, rating) in [(1, 5), (2, 4), (3, 5), (4, 1)] {
            products.insert(&rated(1, id, rating)).await.unwrap();
        }
        products.delete(1, 4).await.unwrap();
        let found = stored_product(db).await;
        let review =
            |id: i32, rating: i32| doc! { "review_id": id, "rating": rating, "published_date": day(id.into()) };
        let mut expected = doc! {
            "_id": 1,
            "name": "Super Widget",
            "reviews": [review(3, 5), review(2, 4), review(1, 5)],
            "review_count": 3_i64,
            "rating_sum": 14,
            "stars": [{ "value": 4, "count": 1_i64 }, { "value": 5, "count": 2_i64 }],
            "lowest": 4,
            "highest": 5,
        };
        expected.insert("reviews_version", found.get("reviews_version").unwrap());
        let sorted = |document: &Document| {
            let mut fields: Vec<_> = document.clone().into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            fields
        };
        assert_eq!(sorted(&found), sorted(&expected));
    })
    .await;
}

/// Values that would be a path, an operator, a variable or an expression, and equal ones of different types.
fn hostile() -> Vec<Bson> {
    let mut values = vec![
        "a.b".into(),
        "$x".into(),
        "$$ROOT".into(),
        "".into(),
        "0".into(),
        "5".into(),
        5.into(),
        5_i64.into(),
        Bson::Double(5.0),
        Bson::Double(-0.0),
        Bson::Double(f64::NAN),
        Bson::Double(f64::INFINITY),
        Bson::Double(f64::NEG_INFINITY),
        i64::MAX.into(),
        i64::MIN.into(),
        Bson::Decimal128("5.50".parse().unwrap()),
        Bson::Decimal128("NaN".parse().unwrap()),
        Bson::Decimal128("1E+6000".parse().unwrap()),
        true.into(),
        Bson::Null,
        DateTime::from_millis(-1).into(),
        ObjectId::from_bytes([7; 12]).into(),
        Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: vec![1, 2],
        }),
        Bson::RegularExpression(Regex {
            pattern: cstr!("^a").into(),
            options: cstr!("i").into(),
        }),
        Bson::Document(doc! { "a": "$x", "b.c": [1, { "value": "$$this" }] }),
    ];
    values.push(Bson::Document(doc! { "$gt": 1 }));
    values.push(Bson::Document(doc! { "$literal": "$x" }));
    values
}

#[tokio::test]
async fn values_of_all_types_are_counted_as_they_are() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        let values = hostile();
        for (id, rating) in (0..).zip(&values) {
            products.insert(&rated(1, id, rating.clone())).await.unwrap();
            assert_eq!(stale(&products).await, [], "{rating}");
        }
        let children: Vec<Document> = (100..)
            .zip(&values)
            .map(|(id, value)| rated(1, id, value.clone()))
            .collect();
        products.insert_many(&children).await.unwrap();
        assert_eq!(stale(&products).await, []);
        // Each review gets the value of the next one.
        for (id, rating) in (0..).zip(values.iter().cycle().skip(1).take(values.len())) {
            products.update(1, id, rate(rating.clone())).await.unwrap();
            products.replace(&rated(1, id + 100, rating.clone())).await.unwrap();
            assert_eq!(stale(&products).await, [], "{rating}");
        }
        let stored = figures(db).await;
        let unset = doc! { "rating_sum": 1, "stars": 1, "lowest": 1, "highest": 1 };
        change_product(db, doc! { "$unset": unset }).await;
        products.refresh_all().await.unwrap();
        assert_eq!(stale(&products).await, []);
        assert_eq!(
            stored.get_array("stars").unwrap().len(),
            figures(db).await.get_array("stars").unwrap().len()
        );
        for id in 0..values.len() as i32 {
            products.delete(1, id).await.unwrap();
            products.delete(1, id + 100).await.unwrap();
            assert_eq!(stale(&products).await, [], "{id}");
        }
        let stars = figures(db).await;
        assert_eq!(stars.get_array("stars").unwrap().len(), 0);
        assert_eq!(stars.get("highest"), Some(&Bson::Null));
    })
    .await;
}

/// Of a figure, and of the orders of further subsets: it has no one position.
#[tokio::test]
async fn an_array_is_refused() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        products.insert(&rated(1, 1, 4)).await.unwrap();
        let several = several_builder(db.database()).build().unwrap();
        db.recorder().clear();
        let array = rated(1, 2, vec![Bson::Int32(5)]);
        let mut votes = reviewed(1, 2, 1, 1);
        votes.insert("votes", vec![1]);
        for refused in [
            products.insert(&array).await.map(drop),
            products.insert_many(std::slice::from_ref(&array)).await.map(drop),
            products.replace(&rated(1, 1, vec![Bson::Int32(5)])).await.map(drop),
            products.update(1, 1, rate(vec![Bson::Int32(5)])).await.map(drop),
            several.insert(&votes).await.map(drop),
            several.update(1, 1, doc! { "$set": { "stars": [1] } }).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(db.recorder().names(), [""; 0]);
        assert_eq!(miscounted(db).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_sum_of_doubles_is_right_within_a_tolerance() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        let mut random = Random(7);
        let mut rating = || Bson::Double(random.below(1_000_000) as f64 / 1000.0 - 300.0);
        let children: Vec<Document> = (0..30).map(|id| rated(1, id, rating())).collect();
        products.insert_many(&children).await.unwrap();
        for id in 0..30 {
            match id % 3 {
                0 => drop(products.delete(1, id).await.unwrap()),
                1 => drop(products.update(1, id, rate(rating())).await.unwrap()),
                _ => drop(products.insert(&rated(1, id + 100, rating())).await.unwrap()),
            }
        }
        assert_eq!(stale(&products).await, []);
        // The tolerance is far below a single value.
        let off = doc! { "$inc": { "rating_sum": 0.001 } };
        change_product(db, off).await;
        assert_eq!(stale(&products).await, [Bson::Int32(1)]);
        products.refresh(1).await.unwrap();

        // A sum that was NaN is one again.
        for value in [Bson::Double(f64::NAN), Bson::Double(f64::INFINITY)] {
            products.insert(&rated(1, 500, value)).await.unwrap();
            assert_eq!(stale(&products).await, []);
            products.insert(&rated(1, 501, 1)).await.unwrap();
            products.delete(1, 500).await.unwrap();
            products.delete(1, 501).await.unwrap();
            assert_eq!(stale(&products).await, []);
        }
        // Large integers have no tolerance.
        let large: Vec<Document> = (600..610).map(|id| rated(1, id, 1_i64 << 50)).collect();
        products.insert_many(&large).await.unwrap();
        for review in all(&reviews(db)).await {
            let id = review.get_i32("review_id").unwrap();
            if id < 600 {
                products.delete(1, id).await.unwrap();
            }
        }
        products.refresh_all().await.unwrap();
        products.refresh(1).await.unwrap();
        assert_eq!(figures(db).await.get_i64("rating_sum").unwrap(), 10 << 50);
        let off = doc! { "$inc": { "rating_sum": 1 } };
        change_product(db, off).await;
        assert_eq!(stale(&products).await, [Bson::Int32(1)]);
    })
    .await;
}

#[tokio::test]
async fn an_embedded_array_cannot_be_counted() {
    testkit::run(async |db| {
        let review = doc! { "review_id": 1, "rating": [5], "published_date": day(1) };
        let parent = doc! { "_id": 1, "reviews": [review] };
        product(db).insert_one(parent.clone()).await.unwrap();
        let products = rated_builder(db.database()).build().unwrap();
        let error = products.migrate_from_embedded().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(all(&product(db)).await, [parent]);
        assert_eq!(all(&reviews(db)).await, [] as [Document; 0]);
    })
    .await;
}
