//! A range of an index, and the command that reads it.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{Collation, FindOptions, Hint};

use crate::action::batch_size;
use crate::conn::Conn;
use crate::error::Result;
use crate::migration::and;

/// A range of an index.
pub(super) struct Range {
    /// Contains the fields of the equality too, so that it is the order of the index in any case.
    pub(super) sort: Document,
    /// The first key. `None` for the start of the index.
    pub(super) min: Option<Document>,
    /// A key after the last one. `None` for the end of the index.
    pub(super) max: Option<Document>,
    /// The `_id` of the document at the first key, if it is not one of the range.
    pub(super) except: Option<Bson>,
}

impl Range {
    /// Returns whether it has a start only. The server takes the last of all keys for the end of such a range, which it
    /// excludes.
    pub(super) fn is_open(&self) -> bool {
        self.min.is_some() && self.max.is_none()
    }

    pub(super) fn options(self, index: &str, limit: u32) -> FindOptions {
        let mut options = FindOptions::builder()
            .hint(Hint::Name(index.to_owned()))
            .sort(self.sort)
            .limit(i64::from(limit))
            .batch_size(batch_size(limit))
            // The adjacent bounds are those of bytes. The server refuses it for an index with another one.
            .collation(Collation::builder().locale("simple").build())
            .build();
        (options.min, options.max) = (self.min, self.max);
        options
    }

    pub(super) async fn find(
        self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        index: &str,
        limit: u32,
        conn: &mut Conn<'_>,
    ) -> Result<Vec<RawDocumentBuf>> {
        let filter = match &self.except {
            None => filter,
            Some(id) => and(filter, doc! { "_id": { "$ne": id } }),
        };
        Ok(conn.find_all(collection, filter, self.options(index, limit)).await?)
    }
}
