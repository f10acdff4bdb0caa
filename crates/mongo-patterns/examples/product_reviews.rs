//! The example of MongoDB's manual for the subset pattern: a product with its ten newest reviews, and all reviews in a
//! second collection. The product also has the number of its reviews, the sum of their ratings, and how many gave each
//! number of stars. Then two other orders: the biggest roles of a film, and the best-rated comments of a blog.
//!
//! `cargo run --example product_reviews`

mod support;

use anyhow::{Context, Result};
use mongo_patterns::Repository;
use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns_testkit::CommandRecorder;
use mongodb::Database;
use mongodb::bson::{Bson, DateTime, Document, doc};
use serde::{Deserialize, Serialize};
use support::shell;

#[derive(Debug, Serialize, Deserialize)]
struct Review {
    review_id: i32,
    product_id: i32,
    review_author: String,
    review_text: String,
    rating: i32,
    published_date: DateTime,
}

type Products = SubsetRepository<Document, Review>;

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("product_reviews").await?;
    product_reviews(&database, &recorder).await?;
    film_cast(&database).await?;
    blog_comments(&database).await
}

async fn product_reviews(database: &Database, recorder: &CommandRecorder) -> Result<()> {
    let (product, review) = (
        database.collection::<Document>("product"),
        database.collection::<Document>("review"),
    );
    let products = Products::builder(product.clone(), review)
        .parent_field("product_id")
        .child_id_field("review_id")
        .subset(
            Subset::new("reviews")
                .sort(doc! { "published_date": -1 })
                .size(10)
                .embedded_fields(["review_author", "review_text", "published_date"]),
        )
        .total_field("review_count")
        .sum("rating", "rating_sum")
        .count_by("rating", "stars")
        .build()?;

    println!("# Three indexes: the order of the reviews, their ids, and their ratings\n");
    products.ensure_indexes().await?;
    for plan in products.indexes() {
        println!("{plan}\n");
    }

    product
        .insert_one(doc! {
            "_id": 1,
            "name": "Super Widget",
            "description": "This is the most useful item in your toolbox.",
            "price": { "value": Bson::Decimal128("119.99".parse()?), "currency": "USD" },
        })
        .await?;
    let mut reviews = reviews()?;
    let newest = reviews.remove(0);
    // Inserted out of order: one from the middle first, and the oldest last.
    for at in [5, 2, 9, 0, 7, 4, 1, 8, 6, 3, 10] {
        products.insert(&reviews[at]).await?;
    }
    recorder.clear();
    println!("# Insert the newest review, after eleven that were inserted out of order\n");
    let inserted = products.insert(&newest).await?;
    print_wire(recorder);
    println!("In the subset: {}\n", inserted.in_subset);
    print_product(&products).await?;

    recorder.clear();
    println!("# Update a review, and its rating\n");
    let text = doc! { "$set": { "review_text": "Nice product. Slow shipping, but they apologized.", "rating": 5 } };
    products.update(1, 785, text).await?;
    print_wire(recorder);

    recorder.clear();
    println!("# Delete the newest review: the eleventh enters the subset\n");
    products.delete(1, 786).await?;
    print_wire(recorder);
    print_product(&products).await?;
    print_average(&products).await?;

    println!("# Read all reviews by token\n");
    let first = products.children(1).limit(10).page().await?;
    recorder.clear();
    let next = first.next.context("there are more than ten")?;
    let second = products.children(1).limit(10).after(next).page().await?;
    print_wire(recorder);
    for review in &second.items {
        println!("{} {}: {}", review.review_id, review.review_author, review.review_text);
    }
    println!();
    Ok(())
}

/// Returns the manual's four reviews, and more in between, newest first.
fn reviews() -> Result<Vec<Review>> {
    let mut reviews = vec![
        review(786, "Kristina", "This is indeed an amazing widget.", 5, "2019-02-18")?,
        review(785, "Trina", "Nice product. Slow shipping.", 4, "2019-02-17")?,
    ];
    for (review_id, author) in (777..=784)
        .rev()
        .zip(["Ana", "Ben", "Cho", "Dina", "Eli", "Fay", "Gus", "Ida"])
    {
        reviews.push(review(review_id, author, "Does what it says.", 4, "2019-02-16")?);
    }
    reviews.push(review(776, "Pablo", "Amazing!", 5, "2019-02-16")?);
    reviews.push(review(1, "Hans", "Meh, it's okay.", 2, "2017-12-06")?);
    Ok(reviews)
}

fn review(review_id: i32, author: &str, text: &str, rating: i32, date: &str) -> Result<Review> {
    Ok(Review {
        review_id,
        product_id: 1,
        review_author: author.to_owned(),
        review_text: text.to_owned(),
        rating,
        published_date: DateTime::parse_rfc3339_str(format!("{date}T00:00:00Z"))?,
    })
}

async fn film_cast(database: &Database) -> Result<()> {
    println!("# A film with its three biggest roles\n");
    let films = SubsetRepository::<Document, Document>::builder(
        database.collection::<Document>("film"),
        database.collection::<Document>("role"),
    )
    .parent_field("film_id")
    .child_id_field("_id")
    .subset(
        Subset::new("cast")
            .sort(doc! { "minutes": -1 })
            .size(3)
            .embedded_fields(["actor", "character"]),
    )
    .build()?;
    films.ensure_indexes().await?;
    let film = doc! { "_id": "casablanca", "title": "Casablanca" };
    films.collection().insert_one(film).await?;
    let roles = [
        ("sam", "Dooley Wilson", "Sam", 12),
        ("rick", "Humphrey Bogart", "Rick Blaine", 62),
        ("ilsa", "Ingrid Bergman", "Ilsa Lund", 40),
        ("renault", "Claude Rains", "Captain Renault", 30),
    ];
    let roles = roles.map(|(id, actor, character, minutes)| {
        doc! { "_id": id, "film_id": "casablanca", "actor": actor, "character": character, "minutes": minutes }
    });
    films.insert_many(&roles).await?;
    print_found(films.get("casablanca").await?)
}

async fn blog_comments(database: &Database) -> Result<()> {
    println!("# A post with its two best-rated comments, the newer first for equal ratings\n");
    let posts = SubsetRepository::<Document, Document>::builder(
        database.collection::<Document>("post"),
        database.collection::<Document>("comment"),
    )
    .parent_field("post_id")
    .child_id_field("comment_id")
    .subset(Subset::new("comments").sort(doc! { "rating": -1, "day": -1 }).size(2))
    .build()?;
    posts.ensure_indexes().await?;
    let post = doc! { "_id": 7, "title": "Widgets, compared" };
    posts.collection().insert_one(post).await?;
    for (id, rating, day) in [(1, 3, 1), (2, 9, 2), (3, 5, 3), (4, 9, 4)] {
        let comment = doc! { "comment_id": id, "post_id": 7, "rating": rating, "day": day };
        posts.insert(&comment).await?;
    }
    posts.update(7, 3, doc! { "$set": { "rating": 10 } }).await?;
    print_found(posts.get(7).await?)
}

fn print_wire(recorder: &CommandRecorder) {
    println!("On the wire:");
    for mut command in recorder.commands() {
        // The driver generates random ids.
        if let Ok(documents) = command.command.get_array_mut("documents") {
            for document in documents.iter_mut().filter_map(Bson::as_document_mut) {
                document.remove("_id");
            }
        }
        println!("  {}", shell::call(&command));
    }
    println!();
}

async fn print_product(products: &Products) -> Result<()> {
    print_found(products.get(1).await?)
}

/// Prints the average rating, which is never stored: a sum and a number are always correct, and can be changed.
async fn print_average(products: &Products) -> Result<()> {
    let product = products.get(1).await?.context("the product does not exist")?;
    let (sum, count) = (product.get_i32("rating_sum")?, product.get_i64("review_count")?);
    println!(
        "{count} reviews, {:.2} stars on average\n",
        f64::from(sum) / count as f64
    );
    Ok(())
}

fn print_found(found: Option<Document>) -> Result<()> {
    let found = found.context("the document does not exist")?;
    println!("{}\n", shell::pretty(&Bson::Document(found)));
    Ok(())
}
