//! A process that follows the reviews of the database in its arguments, for the tests that kill one. It prints a line
//! after each batch.

use mongo_patterns::subset::{Direction, Subset, SubsetRepository};
use mongodb::Client;
use mongodb::bson::Document;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or("arguments: connection string, database, name");
    let (uri, database, name) = (argument()?, argument()?, argument()?);
    let database = Client::with_uri_str(uri).await?.database(&database);
    let (products, reviews) = (
        database.collection::<Document>("product"),
        database.collection::<Document>("review"),
    );
    let products = SubsetRepository::<Document, Document>::builder(products, reviews)
        .parent_field("product_id")
        .child_id_field("review_id")
        .subset(Subset::new("reviews").order_by("published_date", Direction::Descending))
        .build()?;
    let mut changes = 0;
    let follow = products.follow(name).on_progress(move |at| {
        if at.changes > changes {
            changes = at.changes;
            println!("{changes} changes");
        }
    });
    follow.await?;
    Ok(())
}
