//! The collection of the benchmarks, and its repository.

use anyhow::Result;
use mongo_patterns_bucket::BucketRepository;
use mongo_patterns_core::Repository;
use mongodb::Collection;
use mongodb::bson::Document;

use super::trade::Trade;

pub(super) const PAGE_SIZE: u32 = 10;

pub(super) type Trades = BucketRepository<u32, Trade>;

pub(super) fn repository(collection: &Collection<Document>, page_size: u32) -> Result<Trades> {
    let builder = Trades::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(page_size);
    Ok(builder.build()?)
}

/// Returns a repository over a new collection, with its index.
pub(super) async fn fresh(collection: &Collection<Document>) -> Result<Trades> {
    collection.drop().await?;
    let trades = repository(collection, PAGE_SIZE)?;
    trades.ensure_indexes().replace_settings().await?;
    Ok(trades)
}

/// Creates an empty collection without indexes of its own.
pub(super) async fn empty(collection: &Collection<Document>) -> Result<()> {
    let database = collection.client().database(&collection.namespace().db);
    collection.drop().await?;
    Ok(database.create_collection(collection.name()).await?)
}
