//! The size of items on disk.

use anyhow::{Result, ensure};
use futures::stream;
use indicatif::{ProgressBar, ProgressStyle};
use mongo_patterns_core::Repository;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use mongodb::options::TimeseriesGranularity;
use serde_json::json;

use super::by_hand;
use super::trade::{FlatTrade, SECOND, Trade, scatter};
use crate::bench::Bench;
use crate::counts::number;
use crate::report::{self, Section, Table};
use crate::svg::{Bar, Chart};

const CUSTOMERS: u64 = 1000;
const MEGABYTE: f64 = 1024.0 * 1024.0;

const TEXT: &str = "\
A million trades of 1000 customers in turn, one trade per second: each customer has 1000 trades, one every 17 \
minutes. One document per item has an index by customer and date, as its pages need it; buckets have the repository's \
index. Time series collections have the customer as their meta field. Their size depends on the time between a \
customer's items. The second one has the granularity of hours, and an index by customer and date. Sizes are those of \
`collStats` after a checkpoint: data before compression, then files. The ratio is that of the files.";

#[derive(Clone, Copy, Debug)]
enum Form {
    Flat,
    Buckets(u32),
    TimeSeries,
    TimeSeriesHours,
}

impl Form {
    const ALL: [Self; 5] = [
        Self::Flat,
        Self::Buckets(10),
        Self::Buckets(50),
        Self::TimeSeries,
        Self::TimeSeriesHours,
    ];

    fn name(self) -> String {
        match self {
            Self::Flat => "one document per item".to_owned(),
            Self::Buckets(size) => format!("buckets of {size}"),
            Self::TimeSeries => "time series".to_owned(),
            Self::TimeSeriesHours => "time series, hours, with an index".to_owned(),
        }
    }
}

/// Sizes in bytes.
struct Sizes {
    documents: f64,
    data: f64,
    storage: f64,
    indexes: f64,
}

impl Sizes {
    fn files(&self) -> f64 {
        self.storage + self.indexes
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let items = bench.pick(1_000_000, 50_000);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} storage: {msg}")?;
    let bar = ProgressBar::new(Form::ALL.len() as u64).with_style(style);
    let mut measured = Vec::new();
    for form in Form::ALL {
        bar.set_message(form.name());
        let collection = bench.collection("storage");
        load(form, &collection, items).await?;
        measured.push((form, sizes(&collection).await?));
        collection.drop().await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(section(items, &measured))
}

fn section(items: u64, measured: &[(Form, Sizes)]) -> Section {
    let title = format!("{} items of 1000 customers", report::number(items as f64));
    let flat = measured[0].1.files();
    let megabytes = |bytes: f64| report::number(bytes / MEGABYTE);
    let (mut rows, mut bars, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    for (form, sizes) in measured {
        let ratio = sizes.files() / flat;
        rows.push(vec![
            form.name(),
            report::number(sizes.documents),
            megabytes(sizes.data),
            megabytes(sizes.storage),
            megabytes(sizes.indexes),
            megabytes(sizes.files()),
            report::number(ratio),
        ]);
        bars.push(Bar {
            label: form.name(),
            parts: vec![sizes.storage, sizes.indexes],
            text: format!("{}  ({} x)", megabytes(sizes.files()), report::number(ratio)),
            ours: matches!(form, Form::Buckets(_)),
        });
        raw.push(json!({
            "name": form.name(),
            "documents": sizes.documents,
            "data_bytes": sizes.data,
            "storage_bytes": sizes.storage,
            "index_bytes": sizes.indexes,
        }));
    }
    let columns = [
        "",
        "documents",
        "data MiB",
        "storage MiB",
        "indexes MiB",
        "storage and indexes",
        "ratio",
    ];
    let mut section = Section::new("storage", "Storage", TEXT);
    section.raw.push(json!({ "title": title, "entries": raw }));
    section.charts.push(Chart {
        file: "storage-1.svg".to_owned(),
        title: format!("{title}: MiB on disk"),
        bars,
        parts: ["documents", "indexes"].map(str::to_owned).into(),
    });
    section.tables.push(Table {
        title,
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    });
    section
}

/// Returns item `n` of a collection, about one second after the previous one.
fn item(n: u64) -> (u32, Trade) {
    let millis = (scatter(n) >> 40) as i64 % 1000;
    (
        (n % CUSTOMERS) as u32,
        Trade::at(n, (SECOND + n as i64) * 1000 + millis),
    )
}

async fn load(form: Form, collection: &Collection<Document>, items: u64) -> Result<()> {
    match form {
        Form::Buckets(page_size) => {
            collection.drop().await?;
            let trades = super::collection::repository(collection, page_size)?;
            trades.ensure_indexes().replace_settings().await?;
            let appended = trades.append_stream(stream::iter((0..items).map(item))).await?;
            ensure!(appended.items == items, "items are missing");
            return Ok(());
        }
        Form::Flat => by_hand::flat(collection).await?,
        Form::TimeSeries => by_hand::time_series(collection, None).await?,
        Form::TimeSeriesHours => {
            by_hand::time_series(collection, Some(TimeseriesGranularity::Hours)).await?;
            by_hand::index(collection).await?;
        }
    }
    let collection = collection.clone_with_type::<FlatTrade>();
    let all: Vec<u64> = (0..items).collect();
    for part in all.chunks(10_000) {
        let documents = part.iter().map(|n| {
            let (customer, trade) = item(*n);
            FlatTrade::new(customer, &trade)
        });
        collection.insert_many(documents).ordered(false).await?;
    }
    Ok(())
}

async fn sizes(collection: &Collection<Document>) -> Result<Sizes> {
    // This runs a checkpoint. Before one, the files lack the last writes.
    collection
        .client()
        .database("admin")
        .run_command(doc! { "fsync": 1 })
        .await?;
    let database = by_hand::database(collection);
    let statistics = database.run_command(doc! { "collStats": collection.name() }).await?;
    let documents = match statistics.get_document("timeseries") {
        Ok(series) => number(series, "bucketCount")?,
        Err(_) => number(&statistics, "count")?,
    };
    Ok(Sizes {
        documents,
        data: number(&statistics, "size")?,
        storage: number(&statistics, "storageSize")?,
        indexes: number(&statistics, "totalIndexSize")?,
    })
}
