//! The archiving of all documents, alone and beside writers.

use anyhow::{Result, ensure};
use futures::future::FutureExt;
use mongo_patterns_core::Repository;
use mongodb::bson::{DateTime, doc};

use super::sales::Sales;
use crate::bench::Bench;
use crate::beside::beside;
use crate::bucket::scatter;
use crate::measure::{Variant, Work, compare};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Sales of 300 bytes move to a second collection, in chunks of 500, or by the manual's $merge and deleteMany, which lose what is \
written between them. Files are on the disk of the server, of 5000 sales each. Then again, while eight writers update random \
sales by their ids without a pause.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Run,
    Files,
    Manual,
}

impl Form {
    const ALL: [Self; 3] = [Self::Run, Self::Files, Self::Manual];

    fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Files => "run, files",
            Self::Manual => "the manual's two commands",
        }
    }

    async fn prepare(self, sales: &Sales, documents: u64) -> Result<()> {
        sales.clear().await?;
        match self {
            Self::Run | Self::Manual => drop(sales.archive()?.ensure_indexes().replace_settings().await?),
            Self::Files => drop(sales.files()?.ensure_indexes().replace_settings().await?),
        }
        sales.fill(documents as i64).await
    }

    async fn archive(self, sales: &Sales) -> Result<()> {
        match self {
            Self::Run => drop(sales.archive()?.run().await?),
            Self::Files => drop(sales.files()?.run().await?),
            Self::Manual => {
                let old = doc! { "date": { "$lt": DateTime::now() } };
                let merge = doc! { "$merge": { "into": sales.archived.name(), "on": "_id" } };
                drop(sales.current.aggregate([doc! { "$match": &old }, merge]).await?);
                sales.current.delete_many(old).await?;
            }
        }
        let left = sales.current.count_documents(doc! {}).await?;
        ensure!(left == 0, "{left} sales are left");
        Ok(())
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("archive-run", "Archive documents", TEXT);
    let documents = bench.pick(50_000, 1000);
    let title = "Alone";
    let all = Sales::new(bench.collection("sales"), bench.collection("archived_sales"))?;
    let variants = Form::ALL.map(|form| {
        let sales = all.clone();
        let variant = Variant::new(form.name(), documents, move || {
            let sales = sales.clone();
            async move {
                form.prepare(&sales, documents).await?;
                Ok::<Work, _>(async move { form.archive(&sales).await }.boxed())
            }
        });
        let variant = variant.against(Form::Manual.name());
        if form == Form::Manual { variant } else { variant.ours() }
    });
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "document", entries).with_server_ratios();
    let sales = Sales::new(bench.wide("sales_beside"), bench.wide("archived_beside"))?;
    for form in Form::ALL {
        let (p99, seconds) = beside_writers(form, &sales, documents).await?;
        comparison.figure(form.name(), "documents/s beside 8 writers", documents as f64 / seconds);
        comparison.figure(form.name(), "p99 of the writers, ms", p99);
    }
    section.add(&comparison);
    Ok(section)
}

/// Archives beside writers. Returns the 99th percentile of the time of a write in milliseconds, and the seconds of the run.
async fn beside_writers(form: Form, sales: &Sales, documents: u64) -> Result<(f64, f64)> {
    form.prepare(sales, documents).await?;
    let current = sales.current.clone();
    let write = move |number| {
        let current = current.clone();
        async move {
            let id = (scatter(number) % documents) as i64;
            current
                .update_one(doc! { "_id": id }, doc! { "$inc": { "n": 1 } })
                .await?;
            Ok(())
        }
    };
    let sales = sales.clone();
    beside(write, async move { form.archive(&sales).await }).await
}
