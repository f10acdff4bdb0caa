//! The example of MongoDB's manual, "Archive Data", with files: sales that are older than five years, in a directory.
//!
//! `cargo run --example sales_in_files --features archive-files`

mod support;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns::archive_files::object_store::local::LocalFileSystem;
use mongo_patterns::prelude::*;
use mongodb::bson::{DateTime, Document, doc};

fn date(text: &str) -> Result<DateTime> {
    Ok(DateTime::parse_rfc3339_str(format!("{text}T00:00:00Z"))?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("sales_in_files").await?;
    let directory = std::env::temp_dir().join(format!("sales-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let sales = database.collection::<Document>("sales");
    let store = LocalFileSystem::new_with_prefix(&directory)?.with_fsync(true);
    let archive = FileArchive::<Document>::builder(sales.clone(), Arc::new(store), "")
        .age_field("date")
        .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
        .build()?;
    archive.ensure_indexes().await?;

    println!("# Two thousand sales of 2016 and 2017, and one of today\n");
    let day = |n: i64| DateTime::from_millis(1_451_606_400_000 + n * 30_000_000);
    let old = (0..2000).map(|n| doc! { "_id": n, "customer_name": "Claire", "total_amount": 41.5, "date": day(n) });
    sales.insert_many(old).await?;
    let today = doc! { "_id": 2000, "customer_name": "Joy", "total_amount": 129, "date": DateTime::now() };
    sales.insert_one(today).await?;

    recorder.clear();
    println!("# A run writes a file for each chunk\n");
    let moved = archive.run().chunk(1000).await?;
    println!(
        "{} archived, {} left",
        moved.documents,
        sales.count_documents(doc! {}).await?
    );
    for file in archive.files(..).await? {
        println!(
            "a file of {} sales, from {} to {}",
            file.documents, file.oldest, file.newest
        );
    }

    println!("\n# The sales of December 2016\n");
    let (from, to) = (date("2016-12-01")?, date("2017-01-01")?);
    for file in archive.files(from..to).await? {
        let sales = archive.read(&file.name).await?;
        let is_of_december =
            |sale: &&Document| sale.get_datetime("date").is_ok_and(|date| (&from..&to).contains(&date));
        println!("{} in a file", sales.iter().filter(is_of_december).count());
    }

    println!("\n# A restore of a file, and a deletion of old ones\n");
    if let Some(file) = archive.files(from..to).await?.first() {
        println!("{} restored", archive.restore_file(&file.name).await?.documents);
    }
    println!(
        "{} deleted",
        archive.delete_before(date("2020-01-01")?).await?.documents
    );
    let problems: Vec<_> = archive.verify().stream().try_collect().await?;
    println!(
        "{} files, {} problems",
        std::fs::read_dir(&directory)?.count(),
        problems.len()
    );
    std::fs::remove_dir(&directory)?;
    Ok(())
}
