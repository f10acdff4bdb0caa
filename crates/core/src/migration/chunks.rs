//! The ids of a collection in chunks.

use futures::TryStreamExt;
use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, serialize_to_document};
use mongodb::options::{FindOptions, Hint};

use crate::conn::Conn;
use crate::error::Result;
use crate::key::stored_integer;
use crate::measure;
use crate::migration::and;
use crate::plan::PlannedCommand;
use crate::send::{self, Rows};
use crate::value::size;
use crate::value::stored::{id_of, value};

/// The most documents of a chunk: their ids must fit into a command.
const MOST_DOCUMENTS: usize = 10_000;
/// About the most bytes of the ids of a chunk.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The batch size. One more than round numbers of documents, because the server leaves the cursor of a full batch open.
const BATCH: u32 = 1001;

/// The documents that a migration walks through, by `_id`, in chunks of a total weight.
#[derive(Clone, Debug)]
pub struct ChunkedFind {
    /// The filter of the documents.
    pub filter: Document,
    /// The weight of a document, as an expression.
    weight: Bson,
    /// About the weight of a chunk, which has at least one document.
    most: u64,
    /// The index in whose order it walks. `None` for the order of the `_id`s.
    index: Option<Document>,
}

/// A walk that has begun. It resumes after the last document if the server closes its cursor.
pub struct Chunks {
    most: u64,
    rows: Rows,
}

crate::redacted_debug!(Chunks);

/// The documents of a chunk.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// Their ids.
    pub ids: Vec<Bson>,
    /// Their total weight.
    pub weight: u64,
}

impl ChunkedFind {
    /// Walks through all documents that match, `most` in a chunk.
    pub fn by_number(filter: Document, most: u64) -> Self {
        // A plain number in a projection would include a field of that name.
        let weight = doc! { "$literal": 1_i64 }.into();
        Self::by_weight(filter, weight, most)
    }

    /// Walks through all documents that match, in chunks of about this weight.
    pub fn by_weight(filter: Document, weight: Bson, most: u64) -> Self {
        Self {
            filter,
            weight,
            most,
            index: None,
        }
    }

    /// Walks through all documents that match, at most `most` in a chunk, with about as many bytes as the largest document.
    pub fn by_bytes(filter: Document, most: u64) -> Self {
        let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let share = doc! { "$divide": [long(most), long(size::MAX_BYTES as u64)] };
        let of_bytes = doc! { "$toLong": { "$multiply": [{ "$bsonSize": "$$ROOT" }, share] } };
        let weight = doc! { "$max": [1_i64, of_bytes] }.into();
        Self::by_weight(filter, weight, most)
    }

    /// Walks by an index, in its order.
    #[must_use]
    pub fn by_index(mut self, keys: Document) -> Self {
        self.index = Some(keys);
        self
    }

    /// Begins it. One round trip, and one more for each 1001 documents.
    pub(super) async fn begin(self, collection: &Collection<RawDocumentBuf>) -> Result<Chunks> {
        let (most, collection) = (self.most, collection.clone());
        let open = move |last: Option<&RawDocument>| {
            let (collection, (filter, options)) = (collection.clone(), self.after(last));
            let opened = async move { send::find_rows(&collection, filter, options).await };
            Box::pin(opened) as BoxFuture<'static, _>
        };
        let rows = Rows::resuming(Box::new(open)).await?;
        Ok(Chunks { most, rows })
    }

    /// Returns the keys of the index in whose order it walks.
    fn keys(&self) -> Document {
        self.index.clone().unwrap_or(doc! { "_id": 1 })
    }

    /// Returns the filter and the options after a document. The bound is a position of the index, so it suits values of all
    /// types.
    fn after(&self, last: Option<&RawDocument>) -> (Document, FindOptions) {
        let (keys, mut options) = (self.keys(), self.options());
        let Some(last) = last else {
            return (self.filter.clone(), options);
        };
        let value = |key: &String| Some((key.clone(), value(last, key).unwrap_or(Bson::Null)));
        options.min = Some(keys.keys().filter_map(value).collect());
        options.hint = Some(Hint::Keys(keys));
        let others = doc! { "_id": { "$ne": id_of(last) } };
        (and(self.filter.clone(), others), options)
    }

    /// Returns the command that [`begin`](Self::begin) sends.
    pub(super) fn find_command(&self, collection: &str) -> mongodb::error::Result<Document> {
        let mut command = doc! { "find": collection, "filter": self.filter.clone() };
        command.extend(serialize_to_document(&self.options())?);
        command.insert("readConcern", doc! { "level": "local" });
        Ok(command)
    }

    fn options(&self) -> FindOptions {
        let mut projection: Document = self.keys().into_iter().map(|(key, _)| (key, 1.into())).collect();
        projection.extend(doc! { "_id": 1, "weight": self.weight.clone() });
        let options = FindOptions::builder()
            .sort(self.keys())
            .hint(self.index.clone().map(Hint::Keys))
            .projection(projection)
            .batch_size(BATCH);
        send::latest(options.build())
    }
}

impl Chunk {
    /// Returns the number of documents.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.ids.len() as u64
    }
}

impl Chunks {
    /// Returns the next chunk.
    pub fn next_chunk(&mut self) -> BoxFuture<'_, Result<Option<Chunk>>> {
        Box::pin(self.read())
    }

    async fn read(&mut self) -> Result<Option<Chunk>> {
        let mut chunk = Chunk::default();
        let mut bytes = 0;
        while chunk.weight < self.most && chunk.ids.len() < MOST_DOCUMENTS && bytes < MOST_BYTES {
            let Some(document) = self.rows.try_next().await? else {
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

impl Conn<'_> {
    /// Counts migrated documents for the metrics. A plan counts none.
    pub fn count_migrated(&self, documents: u64) {
        if !self.is_plan() {
            measure::migrated(documents);
        }
    }

    /// Begins to walk through a collection, in a plan too.
    pub fn chunks<'a>(
        &'a mut self,
        purpose: &'static str,
        walk: ChunkedFind,
        collection: &'a Collection<RawDocumentBuf>,
    ) -> BoxFuture<'a, Result<Chunks>> {
        Box::pin(async move {
            if self.is_plan() {
                self.list([PlannedCommand::read(purpose, walk.find_command(collection.name())?)]);
            }
            walk.begin(collection).await
        })
    }
}
