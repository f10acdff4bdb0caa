//! Migrates `flat` to `trades`. It prints a line after each chunk, and then waits for a line. Its arguments are the connection
//! string, the database, and how many items a chunk has.

use std::io::{BufRead, stdin};

use anyhow::Result;
use mongo_patterns::bucket::BucketRepository;
use mongodb::Client;
use mongodb::bson::Document;

use super::arguments::argument;

#[tokio::main(flavor = "current_thread")]
pub(super) async fn main() -> Result<()> {
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
