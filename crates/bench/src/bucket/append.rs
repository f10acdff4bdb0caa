//! An append: ours, by hand, and without the pattern.

use std::sync::Arc;

use anyhow::Result;
use futures::FutureExt;
use mongodb::Collection;
use mongodb::bson::Document;

use super::by_hand;
use super::trade::{FlatTrade, Trade};
use crate::bench::Bench;
use crate::counts::{examined, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section};

const KEYS: u64 = 64;

pub(super) const REPOSITORY: &str = "append";
pub(super) const BY_HAND: &str = "the same update_one by hand";
pub(super) const VERBATIM: &str = "by hand, with items of any content";
const NAIVE: &str = "the manual's update_one";
const FLAT: &str = "insert_one, one document per item";
const TIME_SERIES: &str = "insert_one, time series";

const TEXT: &str = "\
Items go to 64 keys in turn, first from one writer, then from 64 tasks with one key each. The collection is new in \
every round. All rows are compared with the same command written by hand with the driver: the same filter, hint and \
update, and the same struct as the item. The manual's form has no equality on the key and no index, so it walks the \
buckets of its key (here they are few; see *long-history* for many). One document per item has an index by customer and \
date. The time series collection has the customer as its meta field.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("append", "Append", TEXT);
    for (title, tasks, operations) in [
        ("One writer", 1, bench.pick(4000, 64)),
        ("64 tasks, one key each", 64, bench.pick(12_800, 256)),
    ] {
        let entries = compare(bench, title, variants(bench, tasks, operations)).await?;
        let mut comparison = Comparison::new(title, "append", entries);
        count(bench, &mut comparison, tasks).await?;
        section.add(&comparison);
    }
    Ok(section)
}

fn variants<'a>(bench: &Bench<'_>, tasks: u64, operations: u64) -> Vec<Variant<'a>> {
    let items = Trade::spread(operations);
    let variant = |name: &'static str, collection: Collection<Document>| {
        let items = Arc::clone(&items);
        Variant::new(name, operations, move || {
            let (collection, items) = (collection.clone(), Arc::clone(&items));
            async move { Ok(in_tasks(tasks, operations, prepare(name, collection, items).await?)) }
        })
        .against(BY_HAND)
    };
    vec![
        variant(REPOSITORY, bench.collection("ours")).ours(),
        variant(BY_HAND, bench.collection("by_hand")),
        variant(NAIVE, bench.collection("naive")),
        variant(FLAT, bench.collection("flat")),
        variant(TIME_SERIES, bench.collection("time_series")),
    ]
}

/// Creates a collection, and returns the operation that stores one item in it.
pub(super) async fn prepare(
    name: &'static str,
    collection: Collection<Document>,
    items: Arc<[Trade]>,
) -> Result<Operation> {
    let key = |n: u64| (n % KEYS) as u32;
    Ok(match name {
        REPOSITORY => {
            let trades = super::collection::fresh(&collection).await?;
            Arc::new(move |n| {
                let (trades, items) = (trades.clone(), Arc::clone(&items));
                async move {
                    trades.append(&key(n), &items[n as usize]).await?;
                    Ok(())
                }
                .boxed()
            })
        }
        BY_HAND => {
            super::collection::fresh(&collection).await?;
            Arc::new(move |n| {
                let (collection, items) = (collection.clone(), Arc::clone(&items));
                async move { by_hand::append(&collection, key(n), &items[n as usize]).await }.boxed()
            })
        }
        VERBATIM => {
            super::collection::fresh(&collection).await?;
            Arc::new(move |n| {
                let (collection, items) = (collection.clone(), Arc::clone(&items));
                async move { by_hand::append_verbatim(&collection, key(n), &items[n as usize]).await }.boxed()
            })
        }
        NAIVE => {
            super::collection::empty(&collection).await?;
            Arc::new(move |n| {
                let (collection, items) = (collection.clone(), Arc::clone(&items));
                async move { by_hand::naive_append(&collection, key(n), &items[n as usize]).await }.boxed()
            })
        }
        _ => {
            if name == FLAT {
                by_hand::flat(&collection).await?;
            } else {
                by_hand::time_series(&collection, None).await?;
            }
            let collection: Collection<FlatTrade> = collection.clone_with_type();
            Arc::new(move |n| {
                let (collection, items) = (collection.clone(), Arc::clone(&items));
                async move {
                    collection
                        .insert_one(FlatTrade::new(key(n), &items[n as usize]))
                        .await?;
                    Ok(())
                }
                .boxed()
            })
        }
    })
}

/// Counts the round trips, and what one more append to a collection of the last round examines.
async fn count(bench: &Bench<'_>, comparison: &mut Comparison, tasks: u64) -> Result<()> {
    let operations = bench.pick(640, 128);
    let items = Trade::spread(operations);
    for (name, collection) in [
        (REPOSITORY, "ours"),
        (BY_HAND, "by_hand"),
        (NAIVE, "naive"),
        (FLAT, "flat"),
        (TIME_SERIES, "time_series"),
    ] {
        let operation = prepare(name, bench.recorded(collection), Arc::clone(&items)).await?;
        let trips = round_trips(bench, operations, in_tasks(tasks, operations, operation)).await?;
        comparison.figure(name, "round trips", trips);
    }
    let item = Trade::at(operations, items[items.len() - 1].date.timestamp_millis());
    let ours = super::collection::repository(&bench.recorded("ours"), super::collection::PAGE_SIZE)?;
    let ours = examined(bench, ours.append(&0, &item)).await?;
    comparison.figure(REPOSITORY, "documents examined", ours.documents);
    for (name, collection) in [(BY_HAND, "by_hand"), (NAIVE, "naive")] {
        let collection = bench.recorded(collection);
        let append = async {
            match name {
                BY_HAND => by_hand::append(&collection, 0, &item).await,
                _ => by_hand::naive_append(&collection, 0, &item).await,
            }
        };
        let found = examined(bench, append).await?;
        comparison.figure(name, "documents examined", found.documents);
    }
    Ok(())
}
