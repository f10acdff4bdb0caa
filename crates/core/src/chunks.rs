//! The documents of a collection, some at a time: their ids alone pass through the client.

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::{Collection, Cursor};

use crate::error::Result;
use crate::key::stored_integer;

/// How many documents a chunk has at most: their ids must fit into a command.
const MOST_DOCUMENTS: usize = 10_000;
/// And how many bytes their ids have, about.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How many the server hands over at a time. It forgets a cursor that is not asked for ten minutes.
const BATCH: u32 = 1000;

/// Which documents are walked through, and how much each is.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Which documents.
    pub filter: Document,
    /// How much one is, as an expression.
    pub weight: Bson,
    /// About how much is in one chunk, at least one document.
    pub most: u64,
}

/// The way through all documents that match a filter, by `_id`.
pub struct Chunks {
    cursor: Cursor<RawDocumentBuf>,
    most: u64,
}

crate::redacted_debug!(Chunks);

/// Some documents.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// Their ids.
    pub ids: Vec<Bson>,
    /// How much they are together.
    pub weight: u64,
}

impl Walk {
    /// Through all documents that match, so many at a time.
    pub fn by_number(filter: Document, most: u64) -> Self {
        // A plain number in a projection would include a field of that name.
        let weight = doc! { "$literal": 1_i64 }.into();
        Self { filter, weight, most }
    }

    /// Begins it. One round trip, and one more for each 1000 documents.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn begin(self, collection: &Collection<RawDocumentBuf>) -> Result<Chunks> {
        let cursor = collection
            .find(self.filter.clone())
            .sort(by_id())
            .projection(self.projection())
            .batch_size(BATCH)
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::local())
            .await?;
        let most = self.most;
        Ok(Chunks { cursor, most })
    }

    /// The command that [`begin`](Self::begin) sends.
    pub fn find_command(&self, collection: &str) -> Document {
        doc! {
            "find": collection,
            "filter": self.filter.clone(),
            "sort": by_id(),
            "projection": self.projection(),
            "batchSize": BATCH,
            "readConcern": { "level": "local" },
        }
    }

    fn projection(&self) -> Document {
        doc! { "_id": 1, "weight": self.weight.clone() }
    }
}

fn by_id() -> Document {
    doc! { "_id": 1 }
}

impl Chunks {
    /// The next ones.
    ///
    /// # Errors
    /// Those of the driver.
    pub async fn next(&mut self) -> Result<Option<Chunk>> {
        let mut chunk = Chunk::default();
        let mut bytes = 0;
        while chunk.weight < self.most && chunk.ids.len() < MOST_DOCUMENTS && bytes < MOST_BYTES {
            let Some(document) = self.cursor.try_next().await? else {
                break;
            };
            let id = document.get("_id").ok().flatten();
            let Some(id) = id.and_then(|id| Bson::try_from(id).ok()) else {
                continue;
            };
            let weight = document.get("weight").ok().flatten().and_then(stored_integer);
            chunk.weight += weight.and_then(|weight| u64::try_from(weight).ok()).unwrap_or(0);
            bytes += document.as_bytes().len();
            chunk.ids.push(id);
        }
        Ok((!chunk.ids.is_empty()).then_some(chunk))
    }
}
