//! OLD: goes away.

use mongodb::bson::{Document, doc};

pub use crate::migration::PlannedCommand;

/// An aggregation as moves send it: on the primary as it is now, and ids compared by their bytes.
pub fn aggregation(collection: &str, stages: impl IntoIterator<Item = Document>) -> Document {
    doc! {
        "aggregate": collection,
        "pipeline": stages.into_iter().collect::<Vec<_>>(),
        "cursor": {},
        "allowDiskUse": true,
        "collation": { "locale": "simple" },
        "readConcern": { "level": "local" },
    }
}

/// An update as the driver sends it.
pub fn update(collection: &str, statement: Document) -> Document {
    doc! { "update": collection, "ordered": true, "updates": [statement] }
}

/// The command that lists the indexes of a collection.
pub fn list_indexes(collection: &str) -> Document {
    doc! { "listIndexes": collection, "cursor": { "batchSize": 1000 } }
}
