//! Benchmarks of the bucket pattern.

mod append;
mod batches;
mod by_hand;
mod figures;
mod history;
mod increment;
mod latency;
mod one_key;
mod overhead;
mod pages;
mod pool;
mod scale;
mod settings;
mod storage;
mod trade;
mod windows;

use anyhow::{Result, bail};
use mongo_patterns_bucket::BucketRepository;
use mongo_patterns_core::Repository;
use mongodb::Collection;
use mongodb::bson::Document;

use crate::Bench;
use crate::report::Section;
use trade::Trade;
pub(crate) use trade::scatter;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 13] = [
    "append",
    "overhead",
    "one-key",
    "latency",
    "pool",
    "long-history",
    "pages",
    "batches",
    "figures",
    "windows",
    "increment",
    "storage",
    "scale",
];

const PAGE_SIZE: u32 = 10;

type Trades = BucketRepository<u32, Trade>;

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "append" => append::run(bench).await,
        "overhead" => overhead::run(bench).await,
        "one-key" => one_key::run(bench).await,
        "latency" => latency::run(bench).await,
        "pool" => pool::run(bench).await,
        "long-history" => history::run(bench).await,
        "pages" => pages::run(bench).await,
        "batches" => batches::run(bench).await,
        "figures" => figures::run(bench).await,
        "windows" => windows::run(bench).await,
        "increment" => increment::run(bench).await,
        "storage" => storage::run(bench).await,
        "scale" => scale::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}

fn repository(collection: &Collection<Document>, page_size: u32) -> Result<Trades> {
    let builder = Trades::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(page_size);
    Ok(builder.build()?)
}

/// Returns a repository over a new collection, with its index.
async fn fresh(collection: &Collection<Document>) -> Result<Trades> {
    collection.drop().await?;
    let trades = repository(collection, PAGE_SIZE)?;
    trades.ensure_indexes().replace_settings().await?;
    Ok(trades)
}

/// Creates an empty collection without indexes of its own.
async fn empty(collection: &Collection<Document>) -> Result<()> {
    let database = collection.client().database(&collection.namespace().db);
    collection.drop().await?;
    Ok(database.create_collection(collection.name()).await?)
}
