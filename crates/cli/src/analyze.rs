//! The distribution of items over lists, estimates for each pattern, and a recommendation.

mod advice;
pub(crate) mod analysis;
mod designs;
mod groups;
pub(crate) mod invalid;
mod lists;
pub(crate) mod reference;
mod report;
mod sizes;
pub(crate) mod subset;

use futures::TryStreamExt;
use mongo_patterns_core::FieldName;
use mongo_patterns_core::migration::number;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use self::analysis::Analysis;
use self::invalid::Invalid;
pub(crate) use self::lists::Fields;
use self::report::Printed;
use crate::Context;
use crate::args::Sample;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;

/// The lists to analyze.
pub(crate) enum Source<'a> {
    /// The documents of a collection, grouped by a field.
    Groups { collection: &'a str, field: &'a str },
    /// The arrays of documents, with their overflow documents.
    Lists {
        collection: &'a str,
        /// The collection of overflow documents.
        overflow: &'a str,
        fields: Fields<'a>,
        /// The configured threshold.
        threshold: Option<u32>,
    },
}

/// The distribution of items over lists, which are groups of documents or arrays.
pub(crate) struct Distribution {
    /// The namespace of the lists.
    pub(crate) namespace: String,
    pub(crate) analysis: Analysis,
    /// The size of the sample, if it is not all documents.
    pub(crate) sample: Option<u32>,
    /// The number of excluded documents, and the reason.
    pub(crate) left_out: (u64, &'static str),
    /// The average size of an item in an array, in bytes.
    pub(crate) item_bytes: f64,
    pub(crate) stored: Stored,
    /// The configured threshold of an outlier collection.
    pub(crate) threshold: Option<u32>,
}

/// The current size of the collection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    /// The size of an entry of the `_id` index, in bytes.
    pub(crate) entry_bytes: f64,
}

pub(crate) async fn run(
    context: &Context,
    pattern: &'static str,
    source: &Source<'_>,
    sample: Sample,
    invalid: Option<&Invalid>,
) -> Outcome {
    let collection = match source {
        Source::Groups { collection, .. } | Source::Lists { collection, .. } => collection,
    };
    context.must_exist(collection).await?;
    let progress = Progress::new(context.output, "analyze", "documents", None);
    let distribution = match source {
        Source::Groups { collection, field } => {
            let field = FieldName::of_element(*field)?;
            groups::distribution(&context.database.collection(collection), &field, sample.sample).await?
        }
        Source::Lists {
            collection,
            overflow,
            fields,
            threshold,
        } => Distribution {
            threshold: *threshold,
            ..lists::distribution(
                &context.database.collection(collection),
                overflow,
                fields,
                sample.sample,
            )
            .await?
        },
    };
    progress.end();
    let recommended = advice::recommend(&distribution);
    let printed = Printed {
        distribution: &distribution,
        subset_sizes: &[],
        invalid,
        recommended: recommended.as_ref(),
    };
    report::print(context.output, pattern, &printed)?;
    Ok(Exit::Success)
}

/// Reads the size from `$collStats`, for which the role `read` suffices.
async fn stored(collection: &Collection<Document>) -> Result<Stored, Failure> {
    /// The size of an index entry, if the collection is too small to measure it.
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
