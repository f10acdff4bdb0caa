//! Votes for the reviews of a product: 64 tasks increment them concurrently, and the product shows the ten most helpful
//! reviews.
//!
//! `cargo run --example helpful_votes`

mod support;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use mongo_patterns::Repository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};
use support::shell;

const REVIEWS: i32 = 20;
const TASKS: i32 = 64;
/// The votes that each task casts.
const VOTES: i32 = 10;

#[derive(Debug, Deserialize)]
struct Product {
    name: String,
    reviews: Vec<Review>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Review {
    review_id: i32,
    #[serde(default)]
    product_id: i32,
    review_text: String,
    helpful_votes: i32,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("helpful_votes").await?;
    let products = SubsetRepository::<Product, Review>::builder(
        database.collection::<Document>("product"),
        database.collection::<Document>("review"),
    )
    .parent_field("product_id")
    .child_id_field("review_id")
    .subset(Subset::new("reviews").sort(doc! { "helpful_votes": -1 }).size(10))
    .build()?;
    products.ensure_indexes().await?;

    let widget = doc! { "_id": 1, "name": "Super Widget" };
    products
        .collection()
        .clone_with_type::<Document>()
        .insert_one(widget)
        .await?;
    let reviews: Vec<Review> = (1..=REVIEWS).map(review).collect();
    products.insert_many(&reviews).await?;

    println!("# A vote\n");
    let vote = || doc! { "$inc": { "helpful_votes": 1 } };
    recorder.clear();
    products.update(1, 7, vote()).await?;
    let commands = recorder.commands();
    let update = commands.iter().find(|command| command.name == "update");
    println!("{}\n", shell::call(update.context("the vote was not sent")?));

    println!("# {TASKS} tasks cast {VOTES} votes each\n");
    let mut cast = BTreeMap::from([(7, 1)]);
    for review in (0..TASKS).flat_map(votes) {
        *cast.entry(review).or_insert(0) += 1;
    }
    let tasks = (0..TASKS).map(|task| {
        let products = products.clone();
        tokio::spawn(async move {
            for review in votes(task) {
                products.update(1, review, vote()).await?;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }

    let stored = products.children(1).limit(50).page().await?.items;
    ensure!(stored.len() == reviews.len());
    for review in &stored {
        let votes = cast.get(&review.review_id).copied().unwrap_or(0);
        ensure!(review.helpful_votes == votes, "review {} lost votes", review.review_id);
    }
    let sum: i32 = stored.iter().map(|review| review.helpful_votes).sum();
    println!("{sum} votes are stored, as many as were cast for each review.\n");

    println!("# The product shows the ten most helpful reviews\n");
    let product = products.get(1).await?.context("the product does not exist")?;
    let ids = |reviews: &[Review]| reviews.iter().map(|review| review.review_id).collect::<Vec<_>>();
    ensure!(ids(&product.reviews) == ids(&stored[..10]));
    println!("{}", product.name);
    for review in &product.reviews {
        println!("{:>5} votes: {}", review.helpful_votes, review.review_text);
    }
    Ok(())
}

fn review(review_id: i32) -> Review {
    Review {
        review_id,
        product_id: 1,
        review_text: format!("Review {review_id}"),
        helpful_votes: 0,
    }
}

/// Returns the reviews that a task votes for, the same in every run. Some reviews get many more votes than others.
fn votes(task: i32) -> impl Iterator<Item = i32> {
    (0..VOTES).map(move |vote| {
        let (one, other) = ((task * 31 + vote * 17) % REVIEWS, (task * 13 + vote * 29) % REVIEWS);
        1 + one.min(other) * 7 % REVIEWS
    })
}
