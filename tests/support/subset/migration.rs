//! Products with all reviews embedded.

use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};

use crate::subset::*;

/// Returns a repository that has sent nothing, without indexes.
pub fn unmigrated(db: &TestDatabase) -> Products {
    builder(db.database()).build().unwrap()
}

/// Returns a review in its embedded form.
pub fn embedded_review(id: i32, published: i64) -> Document {
    doc! { "review_id": id, "review_author": format!("author {id}"), "published_date": day(published) }
}

/// Inserts products from 1 on. Every third has no reviews, the others have up to 40, in no order. Returns the reviews
/// as they must be stored, without their `_id`.
pub async fn fill(db: &TestDatabase, products: i32) -> Vec<Document> {
    let mut expected = Vec::new();
    let mut parents = Vec::new();
    let mut random = Random(7);
    for id in 1..=products {
        let count = if id % 3 == 0 { 0 } else { 1 + random.below(40) as i32 };
        let reviews: Vec<Document> = (0..count)
            .map(|n| embedded_review(n, random.below(20) as i64))
            .collect();
        expected.extend(reviews.iter().map(|review| of_product(id, review)));
        parents.push(match id % 6 {
            3 => doc! { "_id": id, "name": "Super Widget" },
            _ => doc! { "_id": id, "name": "Super Widget", "reviews": reviews },
        });
    }
    product(db).insert_many(parents).await.unwrap();
    expected
}

pub fn of_product(id: impl Into<Bson>, review: &Document) -> Document {
    let mut document = doc! { "product_id": id.into() };
    document.extend(review.clone());
    document
}

/// Parents that cannot be migrated, with their reasons.
pub fn invalid() -> Vec<(Document, &'static str)> {
    let review = |id: i32| embedded_review(id, 1);
    let with = |id: i32, reviews: Bson| doc! { "_id": id, "reviews": reviews };
    let mut of_other = review(1);
    of_other.insert("product_id", 1);
    let array = doc! { "review_id": 1, "published_date": [day(1), day(2)] };
    vec![
        (with(901, "none".into()), "no_array"),
        (with(902, vec![Bson::Int32(1)].into()), "no_document"),
        (with(903, vec![review(1), doc! { "n": 1 }].into()), "no_id"),
        (with(904, vec![review(1), review(1)].into()), "twice"),
        (with(905, vec![of_other].into()), "other_parent"),
        (with(906, vec![array].into()), "array_in_order"),
    ]
}
