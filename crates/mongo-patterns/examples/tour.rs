//! The example of MongoDB's manual, "Group Data with the Bucket Pattern", with a repository on a real server: the
//! stored documents, the commands on the wire, and what concurrent writers leave of both. Then an order that belongs to several
//! patterns.
//!
//! `cargo run --example tour`

#[path = "support/race.rs"]
mod race;
#[path = "support/supplier_orders.rs"]
mod supplier_orders;
mod support;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::bucket::{Bucket, BucketRepository};
use mongo_patterns_testkit::CommandRecorder;
use mongodb::Collection;
use mongodb::bson::{self, DateTime, Document};
use serde::{Deserialize, Serialize};
use support::shell;

/// The manual writes `qty` in the trades of one customer and `quantity` in those of the other, so the type has both.
#[derive(Debug, Serialize, Deserialize)]
struct Trade {
    r#type: String,
    ticker: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    qty: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<i32>,
    date: DateTime,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("tour").await?;
    let collection: Collection<Document> = database.collection("trades");
    let trades = BucketRepository::<u32, Trade>::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(10)
        .build()?;

    println!("# One unique index, so that a customer has at most one open bucket\n");
    trades.ensure_indexes().await?;
    for plan in trades.indexes() {
        println!("{plan}\n");
    }

    recorder.clear();
    println!("# Three trades of two customers\n");
    trades
        .append(&123, &trade("buy", "MDB", Some(419), None, "2023-10-26T15:47:03.434Z")?)
        .await?;
    trades
        .append(&123, &trade("sell", "MDB", Some(29), None, "2023-10-30T09:32:57.765Z")?)
        .await?;
    trades
        .append(&456, &trade("buy", "GOOG", None, Some(50), "2023-10-31T11:16:02.120Z")?)
        .await?;
    print_wire(&recorder);
    print_stored(&collection).await?;

    recorder.clear();
    println!("# A new trade is appended to the customer's open bucket\n");
    let appended = trades
        .append(&123, &trade("buy", "MSFT", Some(42), None, "2023-11-02T11:43:10Z")?)
        .await?;
    print_wire(&recorder);
    println!("Opened a new bucket: {}\n", appended.opened.is_some());
    print_stored(&collection).await?;

    for number in [1, 10] {
        recorder.clear();
        println!("# Page {number} of customer 123\n");
        let page = trades.page(&123, number).await?;
        print_wire(&recorder);
        print_page(page.as_ref());
    }
    race::run(&database).await?;
    supplier_orders::run(&database).await
}

fn trade(r#type: &str, ticker: &str, qty: Option<i32>, quantity: Option<i32>, date: &str) -> Result<Trade> {
    Ok(Trade {
        r#type: r#type.to_owned(),
        ticker: ticker.to_owned(),
        qty,
        quantity,
        date: DateTime::parse_rfc3339_str(date)?,
    })
}

fn print_wire(recorder: &CommandRecorder) {
    println!("On the wire:");
    for command in recorder.commands() {
        println!("  {}", shell::call(&command));
    }
    println!();
}

async fn print_stored(collection: &Collection<Document>) -> Result<()> {
    let stored: Vec<Document> = collection.find(Document::new()).await?.try_collect().await?;
    println!("Stored:\n{}\n", shell::pretty_all(stored));
    Ok(())
}

fn print_page(page: Option<&Bucket<u32, Trade>>) {
    let Some(page) = page else {
        println!("No trades.\n");
        return;
    };
    println!("{} trades:", page.items.len());
    for trade in &page.items {
        let text =
            bson::serialize_to_bson(trade).map_or_else(|error| error.to_string(), |trade| shell::compact(&trade));
        println!("  {text}");
    }
    println!();
}
