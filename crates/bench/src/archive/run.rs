//! The archiving of all documents, alone and beside writers.

use anyhow::{Result, ensure};
use futures::future::FutureExt;
use mongodb::bson::{DateTime, doc};

use super::sales::Sales;
use crate::bench::Bench;
use crate::beside::beside;
use crate::bucket::scatter;
use crate::measure::{Variant, Work, compare};
use crate::memory;
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Sales of 300 bytes move to a second collection, in chunks of 500, or by the manual's $merge and deleteMany, which lose what is \
written between them. For another cluster, the server is both. Then again, while eight writers update random sales by their ids without a pause. The memory is the peak of \
the client for a million sales.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Run,
    AnotherCluster,
    Manual,
}

impl Form {
    const ALL: [Self; 3] = [Self::Run, Self::AnotherCluster, Self::Manual];

    fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::AnotherCluster => "run, another cluster",
            Self::Manual => "the manual's two commands",
        }
    }

    async fn archive(self, sales: &Sales) -> Result<()> {
        match self {
            Self::Run => drop(sales.archive(false)?.run().await?),
            Self::AnotherCluster => drop(sales.archive(true)?.run().await?),
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
    let variants = Form::ALL.map(|form| {
        let sales = Sales {
            current: bench.collection("sales"),
            archived: bench.collection("archived_sales"),
        };
        let variant = Variant::new(form.name(), documents, move || {
            let sales = sales.clone();
            async move {
                sales.fill(documents as i64, form == Form::AnotherCluster).await?;
                Ok::<Work, _>(async move { form.archive(&sales).await }.boxed())
            }
        });
        let variant = variant.against(Form::Manual.name());
        if form == Form::Manual { variant } else { variant.ours() }
    });
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "document", entries).with_server_ratios();
    let sales = Sales {
        current: bench.wide("sales_beside"),
        archived: bench.wide("archived_beside"),
    };
    for form in Form::ALL {
        let (p99, seconds) = beside_writers(form, &sales, documents).await?;
        comparison.figure(form.name(), "documents/s beside 8 writers", documents as f64 / seconds);
        comparison.figure(form.name(), "p99 of the writers, ms", p99);
    }
    let many = bench.pick(1_000_000, 2000);
    for form in Form::ALL {
        sales.fill(many as i64, form == Form::AnotherCluster).await?;
        memory::reset_peak();
        form.archive(&sales).await?;
        if let Some(peak) = memory::peak_mib() {
            comparison.figure(form.name(), "client memory, MiB", peak);
        }
    }
    section.add(&comparison);
    Ok(section)
}

/// Archives beside writers. Returns the 99th percentile of the time of a write in milliseconds, and the seconds of the run.
async fn beside_writers(form: Form, sales: &Sales, documents: u64) -> Result<(f64, f64)> {
    sales.fill(documents as i64, form == Form::AnotherCluster).await?;
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
