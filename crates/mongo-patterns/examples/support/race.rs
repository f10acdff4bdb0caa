//! One load on the manual's commands and on a repository: concurrent writers, of which some repeat a call because they
//! did not see its reply.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::bucket::BucketRepository;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, Database};
use tokio::time::timeout;

const WRITERS: i32 = 16;
const TRADES: i32 = 800;
const CUSTOMERS: i32 = 4;
const PAGE_SIZE: u32 = 10;
/// A caller does not wait for the reply of every tenth call, and repeats it.
const DROPPED: i32 = 10;
const PATIENCE: Duration = Duration::from_micros(500);

/// Runs the load on both, and prints what the collections have.
pub(crate) async fn run(database: &Database) -> Result<()> {
    println!("# {WRITERS} writers append {TRADES} trades of {CUSTOMERS} customers, and repeat a tenth of the calls\n");
    println!("                                trades  missing  stored twice  partial pages");

    let by_hand: Collection<Document> = database.collection("trades_by_hand");
    let collection = by_hand.clone();
    load(move |customer, trade| {
        let collection = collection.clone();
        async move { manual(&collection, customer, trade).await.is_ok() }
    })
    .await?;
    report("the manual's commands", &by_hand).await?;

    let ours: Collection<Document> = database.collection("trades_by_library");
    let trades = BucketRepository::<i32, Document>::builder(ours.clone())
        .key_field("customerId")
        .items_field("history")
        .item_id_field("trade_id") // makes the repeated call idempotent
        .page_size(PAGE_SIZE)
        .build()?;
    trades.ensure_indexes().await?;
    load(move |customer, trade| {
        let trades = trades.clone();
        async move { trades.append(&customer, &trade).await.is_ok() }
    })
    .await?;
    report("mongo-patterns", &ours).await
}

/// The upsert of the manual, "Group Data with the Bucket Pattern".
async fn manual(trades: &Collection<Document>, customer: i32, trade: Document) -> mongodb::error::Result<()> {
    let second = DateTime::now().timestamp_millis() / 1000;
    let open = doc! { "_id": { "$regex": format!("^{customer}_") }, "count": { "$lt": PAGE_SIZE } };
    let update = doc! {
        "$push": { "history": trade },
        "$inc": { "count": 1 },
        "$setOnInsert": { "_id": format!("{customer}_{second}"), "customerId": customer },
    };
    trades.update_one(open, update).upsert(true).await?;
    Ok(())
}

/// Appends the trades with concurrent writers. An error is final, as in a program that does not know what to do about it.
async fn load<F>(append: impl Fn(i32, Document) -> F + Clone + Send + 'static) -> Result<()>
where
    F: Future<Output = bool> + Send,
{
    let writers = (0..WRITERS).map(|writer| {
        let append = append.clone();
        tokio::spawn(async move {
            for number in (writer..TRADES).step_by(WRITERS as usize) {
                let trade = doc! { "trade_id": number, "ticker": "MDB", "qty": 42, "date": DateTime::now() };
                let customer = number % CUSTOMERS;
                if number % DROPPED == 0 {
                    let _ = timeout(PATIENCE, append(customer, trade.clone())).await;
                }
                append(customer, trade).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await?;
    }
    mongo_patterns::drain().await;
    Ok(())
}

async fn report(name: &str, collection: &Collection<Document>) -> Result<()> {
    let buckets: Vec<Document> = collection.find(doc! {}).await?.try_collect().await?;
    let (mut times, mut partial) = (HashMap::new(), HashMap::new());
    for bucket in &buckets {
        let history = bucket.get_array("history")?;
        for trade in history.iter().filter_map(|trade| trade.as_document()) {
            *times.entry(trade.get_i32("trade_id")?).or_insert(0) += 1;
        }
        if history.len() < PAGE_SIZE as usize {
            *partial.entry(bucket.get_str("_id")?.split('_').next()).or_insert(0) += 1;
        }
    }
    let missing = TRADES as usize - times.len();
    let twice = times.values().filter(|times| **times > 1).count();
    // The last page of a customer is partial unless it is full by chance.
    let partial: i32 = partial.values().map(|pages| pages - 1).sum();
    println!("{name:<32}{TRADES:>6}  {missing:>7}  {twice:>12}  {partial:>13}");
    Ok(())
}
