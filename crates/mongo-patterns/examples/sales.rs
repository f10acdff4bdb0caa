//! The example of MongoDB's manual, "Archive Data": sales that are older than five years, in a second collection.
//!
//! `cargo run --example sales`

mod support;

use std::time::Duration;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns::prelude::*;
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};
use serde::{Deserialize, Serialize};
use support::shell;

#[derive(Debug, Serialize, Deserialize)]
struct Sale {
    #[serde(rename = "_id")]
    id: i32,
    customer_name: String,
    total_amount: f64,
    date: DateTime,
}

fn sale(id: i32, customer: &str, date: DateTime) -> Sale {
    Sale {
        id,
        customer_name: customer.to_owned(),
        total_amount: 41.5,
        date,
    }
}

fn date(text: &str) -> Result<DateTime> {
    Ok(DateTime::parse_rfc3339_str(format!("{text}T00:00:00Z"))?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("sales").await?;
    let sales: Collection<Document> = database.collection("sales");
    let archived: Collection<Document> = database.collection("archived_sales");
    let archive = Archive::<Sale>::builder(sales.clone(), archived.clone())
        .age_field("date")
        .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
        .keep(doc! { "retentionPolicy": "permanent" })
        .build()?;
    archive.ensure_indexes().await?;

    println!("# Four sales, of which one is kept for ever\n");
    let stored = [
        sale(1, "Claire", date("2016-03-01")?),
        sale(2, "Joy", date("2017-06-11")?),
        sale(3, "Claire", DateTime::now()),
        sale(4, "Ann", date("2015-01-30")?),
    ];
    archive.collection().insert_many(stored).await?;
    let permanent = doc! { "$set": { "retentionPolicy": "permanent" } };
    sales.update_one(doc! { "_id": 4 }, permanent).await?;
    let due = archive.due().await?;
    println!("{} are due\n", due.documents);

    recorder.clear();
    println!("# A run moves those that are due\n");
    let moved = archive.run().await?;
    println!("{} archived, {} conflicts", moved.documents, moved.conflicts);
    println!("On the wire: {}\n", recorder.names().join(", "));
    let found = archived.find(doc! {}).sort(doc! { "_id": 1 });
    let found: Vec<Document> = found.await?.try_collect().await?;
    println!("db.archived_sales.find()\n{}\n", shell::pretty_all(found));

    println!("# Reads find a document wherever it is\n");
    if let Some(found) = archive.get(1).await? {
        println!(
            "{} {}, archived: {}",
            found.document.id, found.document.customer_name, found.is_archived
        );
    }
    let page = archive
        .list(doc! { "customer_name": "Claire" })
        .newest_first()
        .page()
        .await?;
    for found in page.items {
        println!("Claire's sale {}, archived: {}", found.document.id, found.is_archived);
    }

    println!("\n# A restore, and a deletion in the archive\n");
    archive.restore(2).await?;
    let deleted = archive.delete_before(date("2017-01-01")?).await?;
    println!("{} deleted in the archive", deleted.documents);
    for id in [1, 2] {
        let place = match archive.get(id).await? {
            None => "nowhere",
            Some(found) if found.is_archived => "in the archive",
            Some(_) => "in the collection",
        };
        println!("sale {id} is {place}");
    }
    Ok(())
}
