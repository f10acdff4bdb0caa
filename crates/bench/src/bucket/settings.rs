//! Appends by repositories with different settings.

use std::sync::Arc;

use anyhow::Result;
use futures::FutureExt;
use mongo_patterns_core::Repository as _;
use mongodb::Collection;
use mongodb::bson::Document;

use super::collection::Trades;
use super::trade::Trade;
use crate::bench::Bench;
use crate::counts::{examined, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::Comparison;

const KEYS: u64 = 64;

/// Returns the repository of a row.
pub(super) type Repository = fn(&'static str, &Collection<Document>) -> Result<Trades>;

/// Compares appends to 64 keys. Each row has a name and a collection, and is compared with the first one.
pub(super) async fn appends<const ROWS: usize>(
    bench: &Bench<'_>,
    title: &str,
    rows: [(&'static str, &str); ROWS],
    repository: Repository,
) -> Result<Comparison> {
    let operations = bench.pick(4000, 64);
    let items = Trade::spread(operations);
    let variants = rows.map(|(name, collection)| {
        let (collection, items) = (bench.collection(collection), Arc::clone(&items));
        let variant = Variant::new(name, operations, move || {
            let (collection, items) = (collection.clone(), Arc::clone(&items));
            async move {
                let append = prepare(fresh(name, &collection, repository).await?, items);
                Ok(in_tasks(1, operations, append))
            }
        });
        variant.against(rows[0].0).ours()
    });
    let mut comparison = Comparison::new(title, "append", compare(bench, title, variants.into()).await?);
    let counted = bench.pick(640, 128);
    let items = Trade::spread(counted);
    for (name, collection) in rows {
        let trades = fresh(name, &bench.recorded(collection), repository).await?;
        let append = prepare(trades.clone(), Arc::clone(&items));
        let trips = round_trips(bench, counted, in_tasks(1, counted, append)).await?;
        comparison.figure(name, "round trips", trips);
        let item = Trade::at(counted, items[items.len() - 1].date.timestamp_millis());
        let found = examined(bench, trades.append(&0, &item)).await?;
        comparison.figure(name, "documents examined", found.documents);
    }
    Ok(comparison)
}

/// Returns the repository of a row, over a new collection.
pub(super) async fn fresh(
    name: &'static str,
    collection: &Collection<Document>,
    repository: Repository,
) -> Result<Trades> {
    collection.drop().await?;
    let trades = repository(name, collection)?;
    trades.ensure_indexes().replace_settings().await?;
    Ok(trades)
}

fn prepare(trades: Trades, items: Arc<[Trade]>) -> Operation {
    Arc::new(move |n| {
        let (trades, items) = (trades.clone(), Arc::clone(&items));
        async move {
            trades.append(&((n % KEYS) as u32), &items[n as usize]).await?;
            Ok(())
        }
        .boxed()
    })
}
