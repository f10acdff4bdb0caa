//! Appends a purchase log to buckets of ten with many concurrent tasks, and reads it again.
//!
//! `cargo run --release --example load_purchases [FILE]`, with the CDNOW log (`cdnow_master.txt`) or, by default, the
//! sample of it in this repository.

mod support;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use mongo_patterns::Repository;
use mongo_patterns::bucket::{Bucket, BucketRepository};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use support::cdnow::{self, Purchase};
use support::shell;

/// The number of customers that are loaded concurrently. The purchases of one customer are appended in the order of the
/// log.
const TASKS: usize = 64;

type Purchases = BucketRepository<String, Purchase>;

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(cdnow::SAMPLE), PathBuf::from);
    let customers = cdnow::read(&file)?;
    let database = support::open("load_purchases").await?;
    let purchases = Purchases::builder(database.collection::<Document>("purchases"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(10)
        .build()?;
    purchases.ensure_indexes().await?;

    let total: usize = customers.values().map(Vec::len).sum();
    println!(
        "Loading {total} purchases of {} customers with {TASKS} tasks.",
        customers.len()
    );
    let bar = progress(total)?;
    let started = Instant::now();
    stream::iter(&customers)
        .map(Ok)
        .try_for_each_concurrent(TASKS, |(customer, history)| {
            append_all(&purchases, customer, history, &bar)
        })
        .await?;
    let elapsed = started.elapsed();
    bar.finish_and_clear();

    let totals = totals(&purchases.collection()).await?;
    let cents: i64 = customers.values().flatten().map(cdnow::cents).sum();
    ensure!(
        totals.items == i64::try_from(total)?,
        "the log has {total} purchases, but {} are stored",
        totals.items
    );
    ensure!(
        totals.cents == cents,
        "the log has a total of {cents} cents, but {} are stored",
        totals.cents
    );
    println!(
        "Stored: {} purchases, {} CDs, {}.{:02} dollars, in {} buckets.",
        totals.items,
        totals.cds,
        totals.cents / 100,
        totals.cents % 100,
        totals.buckets
    );
    println!("Rate: {:.0} appends per second.", total as f64 / elapsed.as_secs_f64());

    let bar = progress(total)?;
    stream::iter(&customers)
        .map(Ok)
        .try_for_each_concurrent(TASKS, |(customer, history)| check(&purchases, customer, history, &bar))
        .await?;
    bar.finish_and_clear();
    println!("Read: every purchase once and in the order of the log, all pages full except each customer's last.\n");
    print_top_customer(&purchases).await
}

async fn append_all(purchases: &Purchases, customer: &str, history: &[Purchase], bar: &ProgressBar) -> Result<()> {
    for purchase in history {
        purchases.append(customer, purchase).await?;
        bar.inc(1);
    }
    Ok(())
}

/// Reads the full history of a customer and compares it with the log.
async fn check(purchases: &Purchases, customer: &str, history: &[Purchase], bar: &ProgressBar) -> Result<()> {
    let pages = purchases.buckets(customer).limit(10_000).page().await?.items;
    let stored: Vec<&[Purchase]> = pages.iter().map(|page| page.items.as_slice()).collect();
    let expected: Vec<&[Purchase]> = history.chunks(10).collect();
    ensure!(
        stored == expected,
        "the history of customer {customer} differs from the log"
    );
    bar.inc(history.len() as u64);
    Ok(())
}

fn progress(purchases: usize) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} purchases, {per_sec}, {eta} left")?;
    Ok(ProgressBar::new(purchases as u64).with_style(style))
}

struct Totals {
    buckets: i64,
    items: i64,
    cds: i64,
    cents: i64,
}

/// Returns the totals of the stored purchases, which the server sums.
async fn totals(collection: &Collection<Document>) -> Result<Totals> {
    let each_cents = doc! { "$round": { "$multiply": ["$$this.dollars", 100] } };
    let sum_cents =
        doc! { "$reduce": { "input": "$history", "initialValue": 0, "in": { "$add": ["$$value", each_cents] } } };
    let group = doc! {
        "_id": null,
        "buckets": { "$sum": 1 },
        "items": { "$sum": { "$size": "$history" } },
        "cds": { "$sum": { "$sum": "$history.cds" } },
        "cents": { "$sum": sum_cents },
    };
    let mut cursor = collection.aggregate([doc! { "$group": group }]).await?;
    let found = cursor.try_next().await?.unwrap_or_default();
    let number = |field: &str| match found.get(field) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        #[allow(clippy::cast_possible_truncation)] // rounded to an integer by the server
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    };
    Ok(Totals {
        buckets: number("buckets"),
        items: number("items"),
        cds: number("cds"),
        cents: number("cents"),
    })
}

async fn print_top_customer(purchases: &Purchases) -> Result<()> {
    let most_purchases = [
        doc! { "$group": { "_id": "$customerId", "items": { "$sum": "$count" } } },
        doc! { "$sort": { "items": -1, "_id": 1 } },
        doc! { "$limit": 1 },
    ];
    let found = purchases
        .collection()
        .aggregate(most_purchases)
        .await?
        .try_next()
        .await?;
    let found = found.context("the log is empty")?;
    let customer = found.get_str("_id")?;
    let counts = purchases.counts(customer).await?;
    println!(
        "Customer {customer} has the most purchases: {}, on {} pages.",
        counts.items, counts.pages
    );
    let first = purchases.page(customer, 1).await?;
    let newest = purchases.buckets(customer).newest_first().limit(1);
    let last = newest.page().await?.items.pop();
    print_page("First page", first)?;
    print_page("Last page", last)
}

fn print_page(title: &str, page: Option<Bucket<String, Purchase>>) -> Result<()> {
    let page = page.context("a page is missing")?;
    println!("\n{title}, `_id` {}:", page.id);
    for purchase in &page.items {
        println!("  {}", shell::compact(&mongodb::bson::serialize_to_bson(purchase)?));
    }
    Ok(())
}
