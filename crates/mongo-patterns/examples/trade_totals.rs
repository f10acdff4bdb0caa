//! Keeps the sums of CDs and dollars in each bucket of a purchase log, and reads totals without reading the purchases.
//!
//! `cargo run --release --example trade_totals [FILE]`, with the CDNOW log (`cdnow_master.txt`) or, by default, the
//! sample of it in this repository.

mod support;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use mongo_patterns::Repository;
use mongo_patterns::bucket::{BucketRepository, Totals};
use mongodb::bson::{Bson, DateTime, Decimal128, Document, doc};
use serde::{Deserialize, Serialize};
use support::{cdnow, shell};

/// The number of customers whose totals are read concurrently.
const TASKS: usize = 64;

#[derive(Clone, Serialize, Deserialize)]
struct Purchase {
    date: DateTime,
    cds: i32,
    /// A decimal, because sums of decimals are exact.
    dollars: Decimal128,
}

type Purchases = BucketRepository<String, Purchase>;

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(cdnow::SAMPLE), PathBuf::from);
    let log = cdnow::read(&file)?;
    let database = support::open("trade_totals").await?;
    let purchases = Purchases::builder(database.collection::<Document>("purchases"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(10)
        .sum("cds")
        .max("cds")
        .sum("dollars")
        .first_and_last()
        .build()?;
    purchases.ensure_indexes().await?;

    let mut items = Vec::new();
    for (customer, history) in &log {
        for purchase in history {
            items.push((customer.clone(), with_decimal(purchase)?));
        }
    }
    let appended = purchases.append_stream(stream::iter(items)).await?;
    println!(
        "Stored: {} purchases of {} customers, in {} buckets.",
        appended.items,
        log.len(),
        appended.opened
    );

    let totals = stream::iter(log.keys())
        .map(|customer| purchases.totals(customer).into_future())
        .buffer_unordered(TASKS);
    let (mut stored, mut cds, mut cents) = (0, 0, 0);
    let mut totals = std::pin::pin!(totals);
    while let Some(of_customer) = totals.try_next().await? {
        stored += of_customer.items;
        cds += self::cds(&of_customer)?;
        cents += self::cents(&of_customer)?;
    }
    println!(
        "Totals: {stored} purchases, {cds} CDs, {}.{:02} dollars.",
        cents / 100,
        cents % 100
    );
    let in_log = || log.values().flatten();
    ensure!(
        stored == in_log().count() as u64,
        "the log has another number of purchases"
    );
    ensure!(
        cds == in_log().map(|purchase| i64::from(purchase.cds)).sum::<i64>(),
        "the log has another number of CDs"
    );
    ensure!(
        cents == in_log().map(cdnow::cents).sum::<i64>(),
        "the log has another sum of dollars"
    );

    let (top, _) = log
        .iter()
        .max_by_key(|(_, history)| history.len())
        .context("the log is empty")?;
    let of_top = doc! { "customerId": top };
    let buckets = purchases.collection();
    let first = buckets.find_one(of_top).sort(doc! { "_id": 1 });
    let first = first.projection(doc! { "history": 0 }).await?;
    let first = first.context("a bucket is missing")?;
    println!(
        "\nThe first bucket of customer {top}, without its purchases:\n  {}",
        shell::compact(&Bson::Document(first))
    );

    let [from, until] = ["1997-04-01T00:00:00Z", "1997-07-01T00:00:00Z"].map(DateTime::parse_rfc3339_str);
    let of_quarter = purchases.totals(top).from(from?).until(until?).await?;
    println!(
        "From April to June 1997: {} purchases, {} CDs, {} dollars, at most {} CDs at once.",
        of_quarter.items,
        text(of_quarter.sum("cds")),
        text(of_quarter.sum("dollars")),
        text(of_quarter.max("cds"))
    );
    Ok(())
}

fn with_decimal(purchase: &cdnow::Purchase) -> Result<Purchase> {
    let cents = cdnow::cents(purchase);
    Ok(Purchase {
        date: purchase.date,
        cds: purchase.cds,
        dollars: format!("{}.{:02}", cents / 100, cents % 100).parse()?,
    })
}

fn cds(totals: &Totals) -> Result<i64> {
    match totals.sum("cds") {
        Some(Bson::Int32(cds)) => Ok((*cds).into()),
        Some(Bson::Int64(cds)) => Ok(*cds),
        other => anyhow::bail!("{other:?} is no sum of integers"),
    }
}

/// Returns the sum of the dollars, in cents.
fn cents(totals: &Totals) -> Result<i64> {
    let text = text(totals.sum("dollars"));
    let (dollars, cents) = text.split_once('.').context("a sum has no cents")?;
    Ok(dollars.parse::<i64>()? * 100 + cents.parse::<i64>()?)
}

fn text(value: Option<&Bson>) -> String {
    value.map_or_else(
        || "none".to_owned(),
        |value| match value {
            Bson::Decimal128(value) => value.to_string(),
            other => other.to_string(),
        },
    )
}
