//! Appends with figures, and totals of a key.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::{FutureExt, TryStreamExt};
use mongo_patterns_bucket::BucketRepositoryBuilder;
use mongo_patterns_core::Repository;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::by_hand;
use super::collection::Trades;
use super::settings::appends;
use super::trade::{FlatTrade, Trade};
use crate::bench::Bench;
use crate::counts::examined;
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section};

const KEY: u32 = 123;

const PLAIN: &str = "append, without figures";
const SUMS: &str = "append, sum, min, max, first and last";
const COUNTS: &str = "append, counts of values";

const TOTALS: &str = "totals";
const UNWIND: &str = "$unwind of the buckets by hand";
const FLAT: &str = "$group, one document per item";
const TIME_SERIES: &str = "$group, time series";

const TEXT: &str = "\
Items go to 64 keys in turn from one writer, in pages of ten. Sum, least and greatest value are of one field, and the \
first and last time of another, all in the update of the append. The counts are of a field with 16 values. Then the \
sum of a field and the times are read for one key, in buckets of ten: from the figures, from the items by `$unwind`, \
from one document per item with an index by customer and date, and from a time series collection with the customer as \
its meta field.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("figures", "Figures of buckets", TEXT);
    let rows = [
        (PLAIN, "figures_none"),
        (SUMS, "figures_sums"),
        (COUNTS, "figures_counts"),
    ];
    section.add(&appends(bench, "Append with figures", rows, repository).await?);
    section.add(&totals(bench).await?);
    Ok(section)
}

fn builder(collection: &Collection<Document>) -> BucketRepositoryBuilder<u32, Trade> {
    Trades::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(super::collection::PAGE_SIZE)
}

fn repository(name: &'static str, collection: &Collection<Document>) -> Result<Trades> {
    let builder = builder(collection);
    let builder = match name {
        PLAIN => builder,
        COUNTS => builder.count_by("ticker"),
        _ => builder.sum("qty").min("qty").max("qty").first_and_last(),
    };
    Ok(builder.build()?)
}

async fn totals(bench: &Bench<'_>) -> Result<Comparison> {
    const ROWS: [(&str, &str); 4] = [
        (TOTALS, "figures_sums"),
        (UNWIND, "figures_sums"),
        (FLAT, "figures_flat"),
        (TIME_SERIES, "figures_series"),
    ];
    let items = Trade::spread(bench.pick(10_000, 500));
    let sum: i64 = items.iter().map(|item| i64::from(item.qty)).sum();
    fill(bench, &items).await?;
    let operations = bench.pick(200, 10);
    let variants = ROWS.map(|(name, collection)| {
        let collection = bench.collection(collection);
        let variant = Variant::new(name, operations, move || {
            let operation = read(name, collection.clone(), sum);
            async move { Ok(in_tasks(1, operations, operation?)) }
        });
        let variant = variant.against(UNWIND);
        if name == TOTALS { variant.ours() } else { variant }
    });
    let title = "Totals of a key";
    let mut comparison = Comparison::new(title, "read", compare(bench, title, variants.into()).await?);
    for (name, collection) in ROWS {
        let operation = read(name, bench.recorded(collection), sum)?;
        let found = examined(bench, operation(0)).await?;
        comparison.figure(name, "documents examined", found.documents);
    }
    Ok(comparison)
}

async fn fill(bench: &Bench<'_>, items: &[Trade]) -> Result<()> {
    let buckets = bench.collection("figures_sums");
    buckets.drop().await?;
    let trades = repository(SUMS, &buckets)?;
    trades.ensure_indexes().replace_settings().await?;
    trades.append_many(&KEY, items).await?;
    let (flat, series) = (bench.collection("figures_flat"), bench.collection("figures_series"));
    by_hand::flat(&flat).await?;
    by_hand::time_series(&series, None).await?;
    for collection in [flat, series] {
        let documents = items.iter().map(|item| FlatTrade::new(KEY, item));
        collection.clone_with_type::<FlatTrade>().insert_many(documents).await?;
    }
    Ok(())
}

/// Returns the operation that reads the totals, and checks the sum.
fn read(name: &'static str, collection: Collection<Document>, expected: i64) -> Result<Operation> {
    let trades = repository(SUMS, &collection)?;
    Ok(Arc::new(move |_| {
        let (trades, collection) = (trades.clone(), collection.clone());
        async move {
            let sum = match name {
                TOTALS => trades.totals(&KEY).await?.sum("qty").cloned(),
                _ => {
                    let found = collection.aggregate(pipeline(name)).await?.try_next().await?;
                    found.context("there are no totals")?.remove("sum")
                }
            };
            let sum = match sum {
                Some(Bson::Int32(sum)) => i64::from(sum),
                Some(Bson::Int64(sum)) => sum,
                _ => 0,
            };
            ensure!(sum == expected, "the sum is wrong");
            Ok(())
        }
        .boxed()
    }))
}

fn pipeline(name: &str) -> Vec<Document> {
    let item = if name == UNWIND { "$history." } else { "$" };
    let field = |field: &str| format!("{item}{field}");
    let unwind = (name == UNWIND).then(|| doc! { "$unwind": "$history" });
    let group = doc! { "$group": {
        "_id": null,
        "items": { "$sum": 1 },
        "sum": { "$sum": field("qty") },
        "min": { "$min": field("qty") },
        "max": { "$max": field("qty") },
        "first": { "$min": field("date") },
        "last": { "$max": field("date") },
    } };
    let of_key = doc! { "$match": { "customerId": KEY } };
    [of_key].into_iter().chain(unwind).chain([group]).collect()
}
