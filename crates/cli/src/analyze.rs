//! How arrays and groups are spread, what each pattern would make of them, and which one to take.

mod advice;
mod designs;
mod groups;
mod report;
mod sizes;
pub(crate) mod subset;

use futures::TryStreamExt;
use mongo_patterns_core::FieldName;
use mongo_patterns_core::moves::number;
use mongo_patterns_outlier::{Analysis, OutlierRepository};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::Context;
use crate::args::Sample;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;

/// What is asked about.
pub(crate) enum Question<'a> {
    /// The documents of a collection, in groups of an equal field.
    Groups { collection: &'a str, field: &'a str },
    /// The arrays of documents, with their extras.
    Lists(&'a OutlierRepository<Document, Bson>),
}

/// What is known of the lists, be they groups of documents or arrays.
pub(crate) struct Spread {
    /// Where they are.
    pub(crate) namespace: String,
    pub(crate) analysis: Analysis,
    /// Of how many documents this is, where not of all.
    pub(crate) sample: Option<u32>,
    /// How many documents count nowhere, and why.
    pub(crate) left_out: (u64, &'static str),
    /// The bytes of an item in an array, on average.
    pub(crate) item_bytes: f64,
    pub(crate) stored: Stored,
}

/// What the collection takes now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    /// The bytes of an entry of the `_id` index.
    pub(crate) entry_bytes: f64,
}

pub(crate) async fn run(context: &Context, pattern: &'static str, question: &Question<'_>, sample: Sample) -> Outcome {
    let collection = match question {
        Question::Groups { collection, .. } => collection,
        Question::Lists(lists) => lists.collection().name(),
    };
    context.must_exist(collection).await?;
    let progress = Progress::new(context.output, "analyze", "documents", None);
    let spread = match question {
        Question::Groups { collection, field } => {
            let field = FieldName::of_element(*field)?;
            groups::spread(&context.database.collection(collection), &field, sample.sample).await?
        }
        Question::Lists(lists) => of_lists(lists, sample.sample).await?,
    };
    progress.end();
    let recommended = advice::recommend(&spread);
    report::print(context.output, pattern, &spread, &[], recommended.as_ref())?;
    Ok(Exit::Well)
}

async fn of_lists(lists: &OutlierRepository<Document, Bson>, sample: Option<u32>) -> Result<Spread, Failure> {
    let mut analyze = lists.analyze();
    if let Some(documents) = sample {
        analyze = analyze.sample(documents);
    }
    let analysis = analyze.await?;
    Ok(Spread {
        namespace: lists.collection().namespace().to_string(),
        left_out: (analysis.not_arrays, "have something else than an array"),
        item_bytes: analysis.bytes_per_element(),
        sample,
        stored: stored(&lists.collection().clone_with_type()).await?,
        analysis,
    })
}

/// By `$collStats`, which a user who can read may ask for.
async fn stored(collection: &Collection<Document>) -> Result<Stored, Failure> {
    /// What an entry takes, where there are too few to tell.
    const ENTRY_BYTES: f64 = 24.0;
    const ENOUGH: u64 = 10_000;
    let mut rows = collection
        .aggregate([doc! { "$collStats": { "storageStats": {} } }])
        .await
        .map_err(Failure::on(collection.namespace()))?;
    let mut stored = Stored {
        entry_bytes: ENTRY_BYTES,
        ..Stored::default()
    };
    while let Some(row) = rows.try_next().await? {
        let Ok(statistics) = row.get_document("storageStats") else {
            continue;
        };
        stored.documents += number(statistics, "count");
        stored.bytes += number(statistics, "size");
        stored.index_bytes += number(statistics, "totalIndexSize");
        let of_id = statistics.get_document("indexSizes").map(|sizes| number(sizes, "_id_"));
        if let Ok(of_id) = of_id
            && stored.documents >= ENOUGH
        {
            stored.entry_bytes = ratio(of_id, number(statistics, "count"));
        }
    }
    Ok(stored)
}

#[allow(clippy::cast_precision_loss)] // estimates
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
