//! A process that migrates `flat` to `trades` in the database in its arguments, for the tests that kill one. It prints
//! a line after each chunk, and then waits for a line.

use std::io::{BufRead, stdin};

use mongo_patterns::bucket::BucketRepository;
use mongodb::Client;
use mongodb::bson::Document;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || {
        arguments
            .next()
            .ok_or("arguments: connection string, database, items a chunk")
    };
    let (uri, database, chunk_items) = (argument()?, argument()?, argument()?.parse()?);
    let database = Client::with_uri_str(uri).await?.database(&database);
    let trades = BucketRepository::<u32, Document>::builder(database.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .build()?;
    let flat = database.collection::<Document>("flat");
    let moving = trades.migrate_from_flat(&flat).chunk(chunk_items);
    moving
        .on_progress(|at| {
            println!("{} of {}", at.done, at.total);
            let _ = stdin().lock().read_line(&mut String::new());
        })
        .await?;
    Ok(())
}
