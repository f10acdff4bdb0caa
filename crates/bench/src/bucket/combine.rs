//! The batching writer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::FutureExt;
use mongo_patterns_bucket::BatchingWriter;
use mongodb::Collection;
use mongodb::bson::Document;

use super::Trades;
use super::trade::Trade;
use crate::Bench;
use crate::counts::round_trips;
use crate::measure::{Operation, Variant, compare, in_tasks, median};
use crate::report::{Comparison, Section};

const KEY: u32 = 123;
const TASKS: u64 = 64;
const SINGLE: &str = "append";
const BATCHED: &str = "BatchingWriter::append";

const TEXT: &str = "\
64 tasks append to one key, each one item after another. Then one task appends, so that nothing can be batched, and \
the latency of an append counts. The batching writer is compared with plain appends.";

type Latencies = Arc<Mutex<Vec<Duration>>>;

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("combine", "The batching writer", TEXT);
    let (single, batched) = bench.pick((1920, 9600), (192, 640));
    section.add(&together(bench, single, batched).await?);
    section.add(&alone(bench, bench.pick(2000, 100)).await?);
    Ok(section)
}

async fn together(bench: &Bench<'_>, single: u64, batched: u64) -> Result<Comparison> {
    let title = "64 tasks on one key";
    let variants = [
        variant(bench, SINGLE, TASKS, single, None),
        variant(bench, BATCHED, TASKS, batched, None),
    ];
    let mut comparison = Comparison::new(title, "append", compare(bench, title, variants.into()).await?);
    for (name, operations) in [(SINGLE, single), (BATCHED, batched)] {
        let append = prepare(name, bench.recorded("combine"), Trade::spread(operations), None).await?;
        let trips = round_trips(bench, operations, in_tasks(TASKS, operations, append)).await?;
        comparison.figure(name, "round trips", trips);
    }
    Ok(comparison)
}

async fn alone(bench: &Bench<'_>, operations: u64) -> Result<Comparison> {
    let title = "A single append";
    let names = [SINGLE, BATCHED];
    let latencies: [Latencies; 2] = Default::default();
    let variants = [0, 1].map(|index| {
        let latencies = Some(Arc::clone(&latencies[index]));
        variant(bench, names[index], 1, operations, latencies)
    });
    let mut comparison = Comparison::new(title, "append", compare(bench, title, variants.into()).await?);
    for (name, latencies) in names.into_iter().zip(latencies) {
        let latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
        // The first round is the warm-up.
        let rounds = latencies.chunks(operations as usize).skip(1);
        let (mut medians, mut slow) = (Vec::new(), Vec::new());
        for round in rounds {
            let mut micros: Vec<f64> = round.iter().map(|latency| latency.as_secs_f64() * 1e6).collect();
            micros.sort_by(f64::total_cmp);
            medians.extend(median(micros.clone()));
            slow.push(micros[micros.len() * 99 / 100]);
        }
        comparison.figure(name, "median us", median(medians).unwrap_or(0.0));
        comparison.figure(name, "99th percentile us", median(slow).unwrap_or(0.0));
    }
    Ok(comparison)
}

fn variant<'a>(
    bench: &Bench<'_>,
    name: &'static str,
    tasks: u64,
    operations: u64,
    latencies: Option<Latencies>,
) -> Variant<'a> {
    let collection = bench.collection("combine");
    let items = Trade::spread(operations);
    let variant = Variant::new(name, operations, move || {
        let append = prepare(name, collection.clone(), Arc::clone(&items), latencies.clone());
        async move { Ok(in_tasks(tasks, operations, append.await?)) }
    });
    variant.ours().against(SINGLE)
}

/// Creates a collection, and returns the append, which records its latency if `latencies` is given.
async fn prepare(
    name: &'static str,
    collection: Collection<Document>,
    items: Arc<[Trade]>,
    latencies: Option<Latencies>,
) -> Result<Operation> {
    let trades = super::fresh(&collection).await?;
    let writer = trades.batching_writer();
    Ok(Arc::new(move |n| {
        let (trades, writer) = (trades.clone(), writer.clone());
        let (items, latencies) = (Arc::clone(&items), latencies.clone());
        async move {
            let started = latencies.as_ref().map(|_| Instant::now());
            append(name, &trades, &writer, &items[n as usize]).await?;
            if let (Some(latencies), Some(started)) = (latencies, started) {
                let mut latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
                latencies.push(started.elapsed());
            }
            Ok(())
        }
        .boxed()
    }))
}

async fn append(name: &str, trades: &Trades, writer: &BatchingWriter<u32, Trade>, item: &Trade) -> Result<()> {
    if name == BATCHED {
        writer.append(&KEY, item).await?;
    } else {
        trades.append(&KEY, item).await?;
    }
    Ok(())
}
