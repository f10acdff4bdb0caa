//! The latency of an append.

use std::sync::Arc;

use anyhow::Result;
use futures::FutureExt;
use mongodb::Collection;
use mongodb::bson::Document;

use super::by_hand;
use super::trade::Trade;
use crate::bench::Bench;
use crate::latency::{Form, compare_latencies};
use crate::measure::{Operation, operation};
use crate::report::Section;

const TEXT: &str = "\
Tasks append items, one after another each: first to 10,000 keys at random, then all to one key, in a new collection. \
The rows by hand have the same filter, hint and update, and repeat a command that met another writer. The client has a \
connection for each task. The percentiles are of all rounds.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("latency", "Latency of an append", TEXT);
    for (title, keys) in [("10,000 keys", 10_000), ("One key", 1)] {
        let forms = [("append", true), ("by hand", false)].map(|(name, ours)| {
            let collection = bench.wide(if ours { "latency" } else { "latency_by_hand" });
            Form {
                name,
                ours,
                prepare: Box::new(move |operations| prepare(collection.clone(), ours, keys, operations).boxed()),
            }
        });
        section.add(&compare_latencies(bench, title, "append", &forms).await?);
    }
    Ok(section)
}

/// Creates a collection, and returns the operation that appends an item to it.
pub(super) async fn prepare(
    collection: Collection<Document>,
    ours: bool,
    keys: u64,
    operations: u64,
) -> Result<Operation> {
    let trades = super::collection::fresh(&collection).await?;
    let items = Trade::spread(operations);
    Ok(operation(move |n| {
        let (trades, collection, items) = (trades.clone(), collection.clone(), Arc::clone(&items));
        async move {
            let (key, item) = ((super::scatter(n) % keys) as u32, &items[n as usize]);
            if ours {
                trades.append(&key, item).await?;
                return Ok(());
            }
            loop {
                match by_hand::append(&collection, key, item).await {
                    Err(error) if by_hand::is_duplicate(&error) => {}
                    appended => return appended,
                }
            }
        }
    }))
}
