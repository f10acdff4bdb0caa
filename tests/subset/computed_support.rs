//! Products with figures of the ratings of their reviews.

use std::collections::BTreeMap;

use mongo_patterns::subset::{SubsetRepository, SubsetRepositoryBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::subset::{builder_of, day, newest, product, ready, reviews, stored_product};

pub type Rated = SubsetRepository<Document, Document>;

pub const FIELDS: [&str; 5] = ["review_count", "rating_sum", "stars", "lowest", "highest"];

/// Returns a review with a rating, published this number of days after the first.
pub fn rated(product: i32, id: i32, rating: impl Into<Bson>) -> Document {
    let (rating, date) = (rating.into(), day(id.into()));
    doc! { "review_id": id, "product_id": product, "rating": rating, "published_date": date }
}

pub fn rated_builder(database: &Database) -> SubsetRepositoryBuilder<Document, Document> {
    builder_of(database, newest().size(3))
        .total_field("review_count")
        .sum("rating", "rating_sum")
        .count_by("rating", "stars")
        .min("rating", "lowest")
        .max("rating", "highest")
}

/// Returns a repository of rated reviews with its indexes, product 1 and a clear recorder.
pub async fn rated_products(db: &TestDatabase) -> Rated {
    ready(db, rated_builder(db.database())).await
}

/// Returns the change of a rating.
pub fn rate(rating: impl Into<Bson>) -> Document {
    doc! { "$set": { "rating": rating.into() } }
}

fn integer(value: Option<&Bson>) -> Option<i64> {
    match value? {
        Bson::Int32(value) => Some((*value).into()),
        Bson::Int64(value) => Some(*value),
        _ => None,
    }
}

/// Returns the products whose figures are not those of their reviews, all of which have an integer rating or none.
pub async fn miscounted(db: &TestDatabase) -> Vec<Bson> {
    let children = all(&reviews(db)).await;
    let mut found = Vec::new();
    for parent in all(&product(db)).await {
        let id = parent.get("_id").unwrap();
        let of_parent = children.iter().filter(|child| child.get("product_id") == Some(id));
        let ratings: Vec<i64> = of_parent
            .clone()
            .filter_map(|child| integer(child.get("rating")))
            .collect();
        let mut stars: BTreeMap<i64, i64> = BTreeMap::new();
        for rating in &ratings {
            *stars.entry(*rating).or_default() += 1;
        }
        let stored = parent.get_array("stars").into_iter().flatten();
        let stored = stored.map(|one| {
            let one = one.as_document().unwrap();
            assert_eq!(one.keys().collect::<Vec<_>>(), ["value", "count"]);
            (integer(one.get("value")).unwrap(), one.get_i64("count").unwrap())
        });
        let is_right = stored.eq(stars)
            && parent.get_i64("review_count").unwrap_or(0) == of_parent.count() as i64
            && integer(parent.get("rating_sum")).unwrap_or(0) == ratings.iter().sum::<i64>()
            && integer(parent.get("lowest")) == ratings.iter().min().copied()
            && integer(parent.get("highest")) == ratings.iter().max().copied();
        if !is_right {
            found.push(id.clone());
        }
    }
    found
}

/// Returns the figures of product 1.
pub async fn figures(db: &TestDatabase) -> Document {
    let mut found = stored_product(db).await;
    let figures = FIELDS.iter().map(|field| ((*field).to_owned(), found.remove(field)));
    figures.filter_map(|(field, value)| Some((field, value?))).collect()
}
