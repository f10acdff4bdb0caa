//! Two subsets of one product: its five newest reviews, and the three best ones of those with four stars or more. Each write
//! updates both by one command.
//!
//! `cargo run --example newest_and_best`

mod support;

use anyhow::{Context, Result, ensure};
use mongo_patterns::Repository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongodb::bson::{DateTime, Document, doc};
use serde::{Deserialize, Serialize};
use support::shell;

#[derive(Debug, Deserialize)]
struct Product {
    name: String,
    reviews: Vec<Document>,
    top_rated: Vec<Best>,
}

/// A review in the second subset.
#[derive(Debug, Deserialize)]
struct Best {
    review_id: i32,
    stars: i32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Review {
    review_id: i32,
    product_id: i32,
    review_text: String,
    stars: i32,
    published_date: DateTime,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("newest_and_best").await?;
    let best = Subset::new("top_rated")
        .sort(doc! { "stars": -1 })
        .size(3)
        .filter(doc! { "stars": { "$gte": 4 } })
        .embedded_fields(["stars"]);
    let products = SubsetRepository::<Product, Review>::builder(
        database.collection::<Document>("product"),
        database.collection::<Document>("review"),
    )
    .parent_field("product_id")
    .child_id_field("review_id")
    .subset(
        Subset::new("reviews")
            .sort(doc! { "published_date": -1 })
            .size(5)
            .embedded_fields(["review_text", "stars"]),
    )
    .subset(best)
    .build()?;
    println!("# An index for each order, and one for the ids\n");
    products.ensure_indexes().await?;
    for plan in products.indexes() {
        println!("{plan}\n");
    }

    let widget = doc! { "_id": 1, "name": "Super Widget" };
    products
        .collection()
        .clone_with_type::<Document>()
        .insert_one(widget)
        .await?;
    let reviews: Vec<Review> = (1..=20).map(review).collect();
    products.insert_many(&reviews).await?;
    print(&products).await?;

    println!("# The second page of the best ones, by the index of their order\n");
    recorder.clear();
    let first = products.children_of_subset(1, "top_rated").limit(3).page().await?;
    let second = products
        .children_of_subset(1, "top_rated")
        .limit(3)
        .after(first.next)
        .page()
        .await?;
    for command in recorder.commands() {
        println!("  {}", shell::call(&command));
    }
    let second: Vec<i32> = second.items.iter().map(|review| review.review_id).collect();
    ensure!(second == [4], "{second:?}");
    println!("  review {second:?}\n");

    println!("# A review loses its stars: the next one with four enters the best three\n");
    recorder.clear();
    products.update(1, 19, doc! { "$set": { "stars": 1 } }).await?;
    for command in recorder.commands() {
        println!("  {}", shell::call(&command));
    }
    println!();
    print(&products).await?;

    let product = products.get(1).await?.context("the product does not exist")?;
    let best: Vec<i32> = product.top_rated.iter().map(|review| review.review_id).collect();
    ensure!(best == [14, 9, 4], "{best:?}");
    Ok(())
}

/// Returns a review: the later, the newer. Every fifth has five stars, and each other one three.
fn review(review_id: i32) -> Review {
    Review {
        review_id,
        product_id: 1,
        review_text: format!("Review {review_id}."),
        stars: if review_id % 5 == 4 { 5 } else { 3 },
        published_date: DateTime::from_millis(1_548_979_200_000 + i64::from(review_id) * 86_400_000),
    }
}

async fn print(products: &SubsetRepository<Product, Review>) -> Result<()> {
    let product = products.get(1).await?.context("the product does not exist")?;
    println!("{}, with its newest reviews:", product.name);
    for review in &product.reviews {
        println!("  {}", review.get_str("review_text")?);
    }
    println!("and its best ones:");
    for review in &product.top_rated {
        println!("  review {} with {} stars", review.review_id, review.stars);
    }
    println!();
    Ok(())
}
