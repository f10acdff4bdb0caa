//! The distribution of items over lists, and the size of their collection.

use futures::TryStreamExt;
use mongo_patterns_core::migration::number;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::analysis::{Analysis, ratio};
use crate::failure::Failure;

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

/// Reads the size from `$collStats`, for which the role `read` suffices.
pub(super) async fn stored(collection: &Collection<Document>) -> Result<Stored, Failure> {
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
