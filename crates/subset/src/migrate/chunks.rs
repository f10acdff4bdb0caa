//! Parents, some at a time.

use futures::TryStreamExt;
use mongo_patterns_core::Result;
use mongo_patterns_core::key::stored_integer;
use mongodb::Cursor;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};

use crate::repository::Shared;

/// How many parents a chunk has at most: their ids must fit into a command.
const MOST_PARENTS: usize = 10_000;
/// And how many bytes their ids have, about.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How many the server hands over at a time. It forgets a cursor that is not asked for ten minutes.
const BATCH: u32 = 1000;

/// The way through all parents that match a filter.
pub(crate) struct Chunks {
    cursor: Cursor<RawDocumentBuf>,
    /// About how much is in one chunk.
    most: u64,
}

/// Some parents.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) ids: Vec<Bson>,
    /// How much they have together, as the weight says.
    pub(crate) weight: u64,
}

impl Chunks {
    /// `weight` is how much a parent is, as an expression.
    pub(crate) async fn new(shared: &Shared, filter: Document, weight: Bson, most: u64) -> Result<Self> {
        let cursor = shared
            .parents
            .find(filter)
            .sort(doc! { "_id": 1 })
            .projection(doc! { "_id": 1, "weight": weight })
            .batch_size(BATCH)
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::local())
            .await?;
        Ok(Self { cursor, most })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>> {
        let mut chunk = Chunk::default();
        let mut bytes = 0;
        while chunk.weight < self.most && chunk.ids.len() < MOST_PARENTS && bytes < MOST_BYTES {
            let Some(parent) = self.cursor.try_next().await? else {
                break;
            };
            let id = parent.get("_id").ok().flatten();
            let Some(id) = id.and_then(|id| Bson::try_from(id).ok()) else {
                continue;
            };
            let weight = parent.get("weight").ok().flatten().and_then(stored_integer);
            chunk.weight += weight.and_then(|weight| u64::try_from(weight).ok()).unwrap_or(0);
            bytes += parent.as_bytes().len();
            chunk.ids.push(id);
        }
        Ok((!chunk.ids.is_empty()).then_some(chunk))
    }
}
