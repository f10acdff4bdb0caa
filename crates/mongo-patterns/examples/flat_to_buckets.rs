//! Migrates a purchase log from a flat collection, with one document per purchase, to buckets of ten. The migration
//! runs on the server. Then the example compares the buckets with the log.
//!
//! `cargo run --release --example flat_to_buckets [FILE]`, with the CDNOW log (`cdnow_master.txt`) or, by default, the
//! sample of it in this repository.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use mongo_patterns::bucket::{BucketRepository, Finding};
use mongodb::bson::{Bson, Document, doc, serialize_to_document};
use mongodb::{Collection, Database, IndexModel};
use support::cdnow::{self, Purchase};
use support::shell;

/// The number of purchases per insert, and per chunk of the migration.
const INSERT_BATCH: usize = 10_000;
const CHUNK: u64 = 10_000;

type Purchases = BucketRepository<String, Purchase>;

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(cdnow::SAMPLE), PathBuf::from);
    let customers = cdnow::read(&file)?;
    let database = support::open("flat_to_buckets").await?;
    let flat = load(&database, &customers).await?;
    print_first("A purchase in purchases_flat", &flat).await?;

    let purchases = Purchases::builder(database.collection::<Document>("purchases"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(10)
        .build()?;
    let bar = progress(flat.count_documents(doc! {}).await?)?;
    let migrated = purchases
        .migrate_from_flat(&flat)
        .chunk(CHUNK)
        .on_progress(|at| bar.set_position(at.done))
        .await?;
    bar.finish_and_clear();
    println!(
        "Migrated: {} purchases of {} customers, to {} buckets.\n",
        migrated.items, migrated.keys, migrated.documents
    );
    print_first("A bucket in purchases", &database.collection("purchases")).await?;

    check(&purchases, &customers).await?;
    println!("Compared with the log: every purchase once and in order, all pages full except each customer's last.");
    let findings: Vec<Finding> = purchases.verify().stream().try_collect().await?;
    ensure!(findings.is_empty(), "verify found: {findings:?}");
    println!("Verified: no findings.");

    let again = purchases.migrate_from_flat(&flat).await?;
    ensure!(again.resumed && again.items == migrated.items && again.documents == migrated.documents);
    println!("Migrated again: the migration was already finished, and changed nothing.");
    Ok(())
}

/// Inserts the log as a flat collection: one document per purchase, with an index on the customer.
async fn load(database: &Database, customers: &BTreeMap<String, Vec<Purchase>>) -> Result<Collection<Document>> {
    let flat = database.collection::<Document>("purchases_flat");
    let by_customer = IndexModel::builder().keys(doc! { "customerId": 1, "date": 1 }).build();
    flat.create_index(by_customer).await?;
    let mut documents = Vec::new();
    for (customer, history) in customers {
        for purchase in history {
            let mut document = doc! { "_id": i64::try_from(documents.len())?, "customerId": customer };
            document.extend(serialize_to_document(purchase)?);
            documents.push(document);
        }
    }
    let bar = progress(documents.len() as u64)?;
    for some in documents.chunks(INSERT_BATCH) {
        flat.insert_many(some).await?;
        bar.inc(some.len() as u64);
    }
    bar.finish_and_clear();
    println!("Loaded: {} purchases, one document each.\n", documents.len());
    Ok(flat)
}

/// Reads the full history of each customer and compares it with the log.
async fn check(purchases: &Purchases, customers: &BTreeMap<String, Vec<Purchase>>) -> Result<()> {
    let bar = progress(customers.values().map(Vec::len).sum::<usize>() as u64)?;
    for (customer, history) in customers {
        // The migration orders by date. In the log, a customer's purchases are already in that order.
        ensure!(
            history.is_sorted_by_key(|purchase| purchase.date),
            "the purchases of customer {customer} in the log are not in the order of their dates"
        );
        let pages = purchases.buckets(customer).limit(10_000).page().await?.items;
        let stored: Vec<&[Purchase]> = pages.iter().map(|page| page.items.as_slice()).collect();
        let expected: Vec<&[Purchase]> = history.chunks(10).collect();
        ensure!(
            stored == expected,
            "the history of customer {customer} differs from the log"
        );
        bar.inc(history.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

async fn print_first(title: &str, collection: &Collection<Document>) -> Result<()> {
    let mut cursor = collection.find(doc! {}).sort(doc! { "_id": 1 }).limit(1).await?;
    let first = cursor.try_next().await?.context("a collection is empty")?;
    println!("{title}:\n{}\n", shell::pretty(&Bson::Document(first)));
    Ok(())
}

fn progress(purchases: u64) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} purchases, {per_sec}, {eta} left")?;
    Ok(ProgressBar::new(purchases).with_style(style))
}
