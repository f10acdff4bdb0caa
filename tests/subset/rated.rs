//! Products with figures of the ratings of their reviews, and products with three subsets: the newest reviews, the best, and those
//! with the fewest votes that are shown.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures::TryStreamExt;
use mongo_patterns::subset::{Finding, Problem, Subset, SubsetRepositoryBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

use support::common::all;
use support::subset::{Any, builder_of, day, newest, product, ready, reviews, stored_product};

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
pub async fn rated_products(db: &TestDatabase) -> Any {
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
    let fields = ["review_count", "rating_sum", "stars", "lowest", "highest"];
    let figures = fields.iter().map(|field| ((*field).to_owned(), found.remove(field)));
    figures.filter_map(|(field, value)| Some((field, value?))).collect()
}

/// The fields of the subsets.
pub const FIELDS: [&str; 3] = ["reviews", "top_rated", "unnoticed"];

/// Returns a review, published this number of days after the first.
pub fn reviewed(product: i32, id: i32, published: i64, stars: i32) -> Document {
    let date = day(published);
    doc! { "review_id": id, "product_id": product, "published_date": date, "stars": stars, "votes": 0, "hidden": false }
}

pub fn best() -> Subset {
    Subset::new("top_rated")
        .sort(doc! { "stars": -1 })
        .size(2)
        .filter(doc! { "stars": { "$gte": 4 } })
        .embedded_fields(["stars"])
}

pub fn unnoticed() -> Subset {
    Subset::new("unnoticed")
        .sort(doc! { "votes": 1, "published_date": -1 })
        .size(4)
        .filter(doc! { "hidden": { "$ne": true } })
}

pub fn several_builder(database: &Database) -> SubsetRepositoryBuilder<Document, Document> {
    builder_of(database, newest().size(3))
        .subset(best())
        .subset(unnoticed())
}

/// Returns a repository with its indexes, product 1 and a clear recorder.
pub async fn several_products(db: &TestDatabase) -> Any {
    ready(db, several_builder(db.database())).await
}

/// Computes the expected subsets of a product from all reviews.
pub fn expected(product: &Bson, reviews: &[Document]) -> [Vec<Bson>; 3] {
    let of_product: Vec<&Document> = reviews
        .iter()
        .filter(|review| review.get("product_id") == Some(product))
        .collect();
    let number = |review: &Document, field: &str| review.get_i32(field).unwrap();
    let published = |review: &Document| *review.get_datetime("published_date").unwrap();

    let mut newest = of_product.clone();
    newest.sort_by_key(|review| Reverse((published(review), number(review, "review_id"))));
    let mut best = of_product.clone();
    best.retain(|review| number(review, "stars") >= 4);
    best.sort_by_key(|review| Reverse((number(review, "stars"), number(review, "review_id"))));
    let mut unnoticed = of_product;
    unnoticed.retain(|review| review.get_bool("hidden").ok() != Some(true));
    unnoticed.sort_by_key(|review| {
        let newest = Reverse((published(review), number(review, "review_id")));
        (number(review, "votes"), newest)
    });

    let whole = |review: &Document| {
        let mut review = review.clone();
        review.remove("_id");
        review.remove("product_id");
        Bson::Document(review)
    };
    let stars = |review: &Document| {
        let (id, stars) = (number(review, "review_id"), number(review, "stars"));
        Bson::Document(doc! { "review_id": id, "stars": stars })
    };
    [
        newest.into_iter().take(3).map(whole).collect(),
        best.into_iter().take(2).map(stars).collect(),
        unnoticed.into_iter().take(4).map(whole).collect(),
    ]
}

/// Returns the subsets that are not those of the stored reviews: the `_id` of the product and the field.
pub async fn wrong_subsets(db: &TestDatabase) -> Vec<String> {
    let reviews = all(&reviews(db)).await;
    let mut wrong = Vec::new();
    for product in all(&product(db)).await {
        let id = product.get("_id").unwrap();
        for (field, expected) in FIELDS.iter().zip(expected(id, &reviews)) {
            let stored = product.get_array(field).cloned().unwrap_or_default();
            // As text: equal documents can differ in the order of their fields.
            if format!("{stored:?}") != format!("{expected:?}") {
                wrong.push(format!("{id} {field}: {stored:?} and not {expected:?}"));
            }
        }
    }
    wrong
}

/// The three subsets, with a total and figures of the stars.
pub fn full_builder(database: &Database) -> SubsetRepositoryBuilder<Document, Document> {
    with_figures(several_builder(database))
}

pub fn with_figures(
    builder: SubsetRepositoryBuilder<Document, Document>,
) -> SubsetRepositoryBuilder<Document, Document> {
    builder
        .total_field("review_count")
        .sum("stars", "stars_sum")
        .count_by("stars", "by_stars")
        .max("stars", "most_stars")
}

/// Returns the subsets, totals and figures that are not those of the stored reviews.
pub async fn wrong_fields(db: &TestDatabase) -> Vec<String> {
    let mut wrong = wrong_subsets(db).await;
    let reviews = all(&reviews(db)).await;
    for product in all(&product(db)).await {
        let of_product = reviews
            .iter()
            .filter(|review| review.get("product_id") == product.get("_id"));
        let mut stars: Vec<i32> = of_product.map(|review| review.get_i32("stars").unwrap()).collect();
        stars.sort_unstable();
        let by_stars = stars.chunk_by(|a, b| a == b);
        let by_stars = by_stars.map(|equal| doc! { "value": equal[0], "count": equal.len() as i64 });
        // Before its first write, a product has no figures: they are those of no reviews.
        let expected = match stars.is_empty() && !product.contains_key("review_count") {
            true => [None, None, None, None],
            false => [
                Some(Bson::Int64(stars.len() as i64)),
                Some(stars.iter().sum::<i32>().into()),
                Some(by_stars.collect::<Vec<_>>().into()),
                Some(stars.last().map_or(Bson::Null, |most| Bson::Int32(*most))),
            ],
        };
        let stored = ["review_count", "stars_sum", "by_stars", "most_stars"].map(|field| product.get(field));
        if stored != expected.each_ref().map(Option::as_ref) {
            wrong.push(format!("{product} and not {expected:?}"));
        }
    }
    wrong
}

/// Returns the products that are stale by `verify`.
pub async fn stale(products: &Any) -> Vec<Bson> {
    let findings: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
    assert!(findings.iter().all(|finding| finding.problem == Problem::Stale));
    findings.into_iter().map(|finding| finding.document_id).collect()
}
