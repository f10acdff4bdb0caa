//! Appends with windows of time, and reads of a range of time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{FutureExt, TryStreamExt};
use mongo_patterns_bucket::Window;
use mongodb::Collection;
use mongodb::bson::{DateTime, Document};

use super::collection::Trades;
use super::settings::{appends, fresh};
use super::trade::{SECOND, Trade};
use crate::bench::Bench;
use crate::counts::examined;
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section};

const KEY: u32 = 123;

const PLAIN: &str = "without windows";
const HOURS: &str = "windows of an hour";
const MINUTES: &str = "windows of a minute";

const ROWS: [(&str, &str); 3] = [
    (PLAIN, "windows_none"),
    (HOURS, "windows_hours"),
    (MINUTES, "windows_minutes"),
];

const TEXT: &str = "\
Items go to 64 keys in turn from one writer, one per second, in pages of ten. Then the items of a minute are read from \
one key with an item per second, in the middle of its history. Without windows the repository searches the start of \
the range and allows for items that are late by an hour; with windows of a minute it reads the buckets of the minute.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("windows", "Windows of time", TEXT);
    section.add(&appends(bench, "Append with windows", ROWS, repository).await?);
    section.add(&range(bench).await?);
    Ok(section)
}

fn repository(name: &'static str, collection: &Collection<Document>) -> Result<Trades> {
    let builder = Trades::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(super::collection::PAGE_SIZE);
    let builder = match name {
        PLAIN => builder,
        HOURS => builder.window(Window::Hour),
        _ => builder.window(Window::every(Duration::from_secs(60))),
    };
    Ok(builder.build()?)
}

async fn range(bench: &Bench<'_>) -> Result<Comparison> {
    let seconds = bench.pick(20_000, 2000);
    let items = Trade::spread(seconds);
    for (name, collection) in ROWS {
        let trades = fresh(name, &bench.collection(collection), repository).await?;
        trades.append_many(&KEY, &items).await?;
    }
    let minute = (SECOND + seconds as i64 / 2) / 60 * 60;
    let operations = bench.pick(200, 10);
    let variants = ROWS.map(|(name, collection)| {
        let collection = bench.collection(collection);
        let variant = Variant::new(name, operations, move || {
            let operation = read(name, &collection, minute);
            async move { Ok(in_tasks(1, operations, operation?)) }
        });
        variant.against(PLAIN).ours()
    });
    let title = "Items of a minute";
    let mut comparison = Comparison::new(title, "read", compare(bench, title, variants.into()).await?);
    for (name, collection) in ROWS {
        let operation = read(name, &bench.recorded(collection), minute)?;
        let found = examined(bench, operation(0)).await?;
        comparison.figure(name, "documents examined", found.documents);
    }
    Ok(comparison)
}

/// Returns the operation that reads the items of a minute, and checks their number.
fn read(name: &'static str, collection: &Collection<Document>, minute: i64) -> Result<Operation> {
    let trades = repository(name, collection)?;
    let [from, until] = [minute, minute + 60].map(|second| DateTime::from_millis(second * 1000));
    Ok(Arc::new(move |_| {
        let trades = trades.clone();
        async move {
            let found: Vec<Trade> = trades
                .items(&KEY)
                .from(from)
                .until(until)
                .stream()
                .try_collect()
                .await?;
            ensure!(found.len() == 60, "{} items of a minute", found.len());
            Ok(())
        }
        .boxed()
    }))
}
