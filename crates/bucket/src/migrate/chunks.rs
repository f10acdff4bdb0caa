//! A collection in ranges of one field, ascending, each of about as many documents.

use mongo_patterns_core::index::serves;
use mongo_patterns_core::migration::{Step, both};
use mongodb::options::Collation;

use crate::prelude::*;
use crate::query::chunk::{Range, only_field};

/// A server accepts at most an int64.
const MAX_DOCUMENTS: u64 = 1 << 62;

/// The ranges of a collection.
pub(super) struct Chunks<'a> {
    collection: &'a Collection<RawDocumentBuf>,
    pub(super) field: &'a str,
    /// The name of an index on the field. Without one, there is a single range of all documents.
    index: Option<String>,
    /// The filter of the documents that count.
    filter: Document,
    documents: u64,
}

impl<'a> Chunks<'a> {
    pub(super) async fn new(
        conn: &mut Conn<'_>,
        collection: &'a Collection<RawDocumentBuf>,
        field: &'a str,
        (filter, documents): (Document, u64),
    ) -> Result<Self> {
        let indexes = conn.list_indexes("look for an index to chunk by", collection).await?;
        let index = indexes.iter().find(|index| serves(index, field));
        let index = index.and_then(|index| index.get_str("name").ok().map(str::to_owned));
        Ok(Self {
            collection,
            field,
            index,
            filter,
            documents: documents.min(MAX_DOCUMENTS),
        })
    }

    /// Returns the hint for reads of a range.
    pub(super) fn hint(&self) -> Option<Hint> {
        self.index.clone().map(Hint::Name)
    }

    /// Returns the range after this value, with all documents of its last value.
    pub(super) async fn next(&self, conn: &mut Conn<'_>, after: Option<Bson>) -> Result<Range> {
        let Some(hint) = self.hint() else {
            return Ok(Range::default());
        };
        let mut range = Range { after, through: None };
        let options = FindOneOptions::builder()
            .sort(doc! { self.field: 1 })
            .skip(self.documents - 1)
            .projection(only_field(self.field))
            .hint(hint)
            .collation(Collation::builder().locale("simple").build())
            .build();
        let find = Step::find_one(
            "find the end of a chunk",
            self.collection,
            both(range.filter(self.field), self.filter.clone()),
            options,
        );
        range.through = conn.read(find).await?.first()?.remove(self.field);
        Ok(range)
    }
}
