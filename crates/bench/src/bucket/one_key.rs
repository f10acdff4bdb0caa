//! Many writers on one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use futures::{FutureExt, TryStreamExt};
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::options::{ReadConcern, TransactionOptions};

use super::by_hand;
use super::trade::Trade;
use crate::bench::Bench;
use crate::counts::{number, round_trips};
use crate::measure::{Entry, Variant, Work, compare, in_tasks};
use crate::report::{Comparison, Section};

const KEY: u32 = 123;
const WRITERS: [u64; 4] = [1, 4, 16, 64];

const TEXT: &str = "\
All writers append to one key: first items of a second each, then items of one second, whose buckets compete for the \
same `_id`. Rows are compared with one writer. The manual's form runs only in the counting pass, where it opens \
several buckets at once, and loses items whose bucket's `_id` is taken.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("one-key", "Many writers on one key", TEXT);
    for (title, items) in [
        ("One item per second", Trade::spread as fn(u64) -> Arc<[Trade]>),
        ("All items in one second", Trade::same_second),
    ] {
        let timed = items(bench.pick(2560, 128));
        let variants = WRITERS.map(|writers| variant(bench.collection("one_key"), writers, &timed));
        let entries = compare(bench, title, variants.into()).await?;
        let mut comparison = Comparison::new(title, "append", entries);
        let counted = items(bench.pick(2000, 160));
        for writers in WRITERS {
            count(bench, &mut comparison, writers, &counted).await?;
        }
        for writers in [1, 64] {
            count_naive(bench, &mut comparison, writers, &counted).await?;
        }
        section.add(&comparison);
    }
    Ok(section)
}

fn name(writers: u64) -> String {
    match writers {
        1 => "1 writer".to_owned(),
        _ => format!("{writers} writers"),
    }
}

fn variant<'a>(collection: Collection<Document>, writers: u64, items: &Arc<[Trade]>) -> Variant<'a> {
    let items = Arc::clone(items);
    Variant::new(name(writers), items.len() as u64, move || {
        appends(collection.clone(), writers, Arc::clone(&items))
    })
    .ours()
    .against(name(1))
}

/// Creates a collection, and returns the appends to it.
async fn appends(collection: Collection<Document>, writers: u64, items: Arc<[Trade]>) -> Result<Work> {
    let trades = super::collection::fresh(&collection).await?;
    let operations = items.len() as u64;
    let append = move |n: u64| {
        let (trades, items) = (trades.clone(), Arc::clone(&items));
        async move {
            trades.append(&KEY, &items[n as usize]).await?;
            Ok(())
        }
        .boxed()
    };
    Ok(in_tasks(writers, operations, Arc::new(append)))
}

async fn count(bench: &Bench<'_>, comparison: &mut Comparison, writers: u64, items: &Arc<[Trade]>) -> Result<()> {
    let operations = items.len() as u64;
    let work = appends(bench.recorded("counted"), writers, Arc::clone(items)).await?;
    let mut open = 0;
    let trips = round_trips(bench, operations, count_open(bench, work, &mut open)).await?;
    let stored = Stored::of(&bench.collection("counted")).await?;
    ensure!(
        stored.items == operations as f64,
        "{} of {operations} items are stored",
        stored.items
    );
    stored.add_to(comparison, &name(writers), trips, open, 0);
    Ok(())
}

async fn count_naive(bench: &Bench<'_>, comparison: &mut Comparison, writers: u64, items: &Arc<[Trade]>) -> Result<()> {
    let collection = bench.recorded("counted");
    super::collection::empty(&collection).await?;
    let operations = items.len() as u64;
    let lost = Arc::new(AtomicU64::new(0));
    let (losses, items) = (Arc::clone(&lost), Arc::clone(items));
    let append = move |n: u64| {
        let (collection, items, losses) = (collection.clone(), Arc::clone(&items), Arc::clone(&losses));
        async move {
            match by_hand::naive_append(&collection, KEY, &items[n as usize]).await {
                Err(error) if by_hand::is_duplicate(&error) => {
                    losses.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
                other => Ok(other?),
            }
        }
        .boxed()
    };
    let (work, mut open) = (in_tasks(writers, operations, Arc::new(append)), 0);
    let trips = round_trips(bench, operations, count_open(bench, work, &mut open)).await?;
    let stored = Stored::of(&bench.collection("counted")).await?;
    let name = format!("the manual's update_one, {}", name(writers));
    comparison.entries.push(Entry::untimed(&name));
    stored.add_to(comparison, &name, trips, open, lost.load(Ordering::Relaxed));
    Ok(())
}

/// Does the work, and concurrently counts the open buckets. Sets the largest number.
async fn count_open(bench: &Bench<'_>, work: Work, most: &mut u64) -> Result<()> {
    let collection = bench.collection("counted");
    let snapshot = TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .build();
    let mut session = collection.client().start_session().await?;
    let work = tokio::spawn(work);
    while !work.is_finished() {
        // Without a snapshot, a bucket that is read before it is full would be counted together with its successor.
        session.start_transaction().with_options(snapshot.clone()).await?;
        let open = collection.count_documents(doc! { "count": { "$lt": 10 } });
        *most = open.session(&mut session).await?.max(*most);
        session.commit_transaction().await?;
    }
    work.await?
}

/// The contents of a collection.
struct Stored {
    buckets: f64,
    items: f64,
}

impl Stored {
    async fn of(collection: &Collection<Document>) -> Result<Self> {
        let items = doc! { "$size": "$history" };
        let group = doc! {
            "_id": null,
            "buckets": { "$sum": 1 },
            "items": { "$sum": items },
        };
        let mut cursor = collection.aggregate([doc! { "$group": group }]).await?;
        let found = cursor.try_next().await?.unwrap_or_default();
        Ok(Self {
            buckets: number(&found, "buckets")?,
            items: number(&found, "items")?,
        })
    }

    fn add_to(&self, comparison: &mut Comparison, entry: &str, round_trips: f64, open: u64, lost: u64) {
        comparison.figure(entry, "round trips", round_trips);
        comparison.figure(entry, "buckets", self.buckets);
        comparison.figure(entry, "most open buckets", open as f64);
        comparison.figure(entry, "lost items", lost as f64);
    }
}
