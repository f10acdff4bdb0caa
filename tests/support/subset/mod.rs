//! The manual's products and reviews.

pub mod follower;
pub mod migration;
pub mod tampered_tokens;

pub use mongo_patterns::Repository;
use std::cmp::Reverse;

use mongo_patterns::subset::{Subset, SubsetRepository, SubsetRepositoryBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc, serialize_to_document};
use mongodb::{Collection, Database};
use serde::{Deserialize, Serialize};

use crate::common::{all, on_shards};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product {
    pub _id: i32,
    pub name: String,
    #[serde(default)]
    pub reviews: Vec<Embedded>,
}

/// A review in its embedded form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Embedded {
    pub review_id: i32,
    pub review_author: String,
    pub published_date: DateTime,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Review {
    pub review_id: i32,
    pub product_id: i32,
    pub review_author: String,
    pub published_date: DateTime,
}

pub type Products = SubsetRepository<Product, Review>;
/// A repository of any documents.
pub type Any = SubsetRepository<Document, Document>;

/// Returns the date this number of days after 2019-02-01.
pub fn day(day: i64) -> DateTime {
    DateTime::from_millis(1_548_979_200_000 + day * 86_400_000)
}

/// Returns review `id` of product 1, published this number of days after the first.
pub fn review(id: i32) -> Review {
    review_of(1, id, id.into())
}

pub fn review_of(product_id: i32, review_id: i32, published: i64) -> Review {
    Review {
        review_id,
        product_id,
        review_author: "Kristina".to_owned(),
        published_date: day(published),
    }
}

/// Returns the subset of the ten newest reviews.
pub fn newest() -> Subset {
    Subset::new("reviews").sort(doc! { "published_date": -1 })
}

pub fn builder<P, C>(database: &Database) -> SubsetRepositoryBuilder<P, C> {
    builder_of(database, newest())
}

pub fn builder_of<P, C>(database: &Database, subset: Subset) -> SubsetRepositoryBuilder<P, C> {
    let (products, reviews) = (
        database.collection::<Document>("product"),
        database.collection::<Document>("review"),
    );
    SubsetRepository::<P, C>::builder(products, reviews)
        .parent_field("product_id")
        .child_id_field("review_id")
        .subset(subset)
}

/// Returns a repository of the ten newest reviews with its indexes, product 1 and a clear recorder.
pub async fn products(db: &TestDatabase) -> Products {
    ready(db, builder(db.database())).await
}

pub async fn ready<P, C>(db: &TestDatabase, builder: SubsetRepositoryBuilder<P, C>) -> SubsetRepository<P, C> {
    let products = builder.build().unwrap();
    on_shards(db, products.ensure_sharded()).await;
    products.ensure_indexes().replace_settings().await.unwrap();
    product(db).delete_many(doc! {}).await.unwrap();
    reviews(db).delete_many(doc! {}).await.unwrap();
    add_product(db, 1).await;
    // Checks that the first write would run once.
    products.refresh(1).await.unwrap();
    db.recorder().clear();
    products
}

pub async fn add_product(db: &TestDatabase, id: impl Into<Bson>) {
    let new = doc! { "_id": id.into(), "name": "Super Widget" };
    product(db).insert_one(new).await.unwrap();
}

/// Returns the products, by a client that is not recorded.
pub fn product(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("product")
}

/// Returns the reviews, by a client that is not recorded.
pub fn reviews(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("review")
}

/// Returns product 1 as it is stored.
pub async fn stored_product(db: &TestDatabase) -> Document {
    product(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap()
}

/// Changes product 1 as another program does.
pub async fn change_product(db: &TestDatabase, update: Document) {
    product(db).update_one(doc! { "_id": 1 }, update).await.unwrap();
}

/// Returns a review as another program inserts it.
pub fn to_document(review: &Review) -> Document {
    serialize_to_document(review).unwrap()
}

/// Computes the expected subset of a product from all reviews.
pub fn truth(product: &Bson, reviews: &[Document], size: usize) -> Vec<Bson> {
    let mut of_product: Vec<&Document> = reviews
        .iter()
        .filter(|review| review.get("product_id") == Some(product))
        .collect();
    let position = |review: &&Document| {
        let date = review.get_datetime("published_date").unwrap();
        Reverse((*date, review.get_i32("review_id").unwrap()))
    };
    of_product.sort_by_key(position);
    let embedded = of_product.into_iter().take(size).map(|review| {
        let mut review = review.clone();
        review.remove("_id");
        review.remove("product_id");
        Bson::Document(review)
    });
    embedded.collect()
}

/// Returns the products whose stored subset is not the first of their reviews, field by field.
pub async fn wrong(products: &Collection<Document>, reviews: &Collection<Document>, size: usize) -> Vec<Bson> {
    let reviews = all(reviews).await;
    let mut wrong = Vec::new();
    for product in all(products).await {
        let id = product.get("_id").unwrap();
        let stored = product.get_array("reviews").cloned().unwrap_or_default();
        if stored != truth(id, &reviews, size) {
            wrong.push(id.clone());
        }
    }
    wrong
}

/// Returns the ids of the reviews in the subset of product 1.
pub async fn embedded(db: &TestDatabase) -> Vec<i32> {
    let found = stored_product(db).await;
    let reviews = found.get_array("reviews").unwrap().iter();
    reviews
        .map(|review| review.as_document().unwrap().get_i32("review_id").unwrap())
        .collect()
}

/// A generator of pseudo-random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
