//! Pages of one collection, in the order of a date.

#[allow(unused_imports)] // the documentation links to it
use mongo_patterns_core::ErrorKind;
use mongo_patterns_core::Result;
use mongo_patterns_core::action::batch_size;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::bytes;
use mongo_patterns_core::migration::and;
use mongo_patterns_core::pages::check_limit;
use mongo_patterns_core::stored::id_of;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::options::{FindOptions, Hint};

use crate::query;

/// What a page has, and in which order.
pub(crate) struct Page<'a> {
    /// The field with the date.
    pub(crate) date: &'a str,
    /// The name of the index on it.
    pub(crate) index: String,
    pub(crate) newest_first: bool,
    pub(crate) limit: u32,
}

/// The date and the `_id` after which a page begins. Without an `_id`, before all documents of this date.
pub(crate) type After<'a> = Option<(DateTime, Option<&'a Bson>)>;

impl Page<'_> {
    /// Reads the documents of the page that match a filter, with their dates, and at least one more if there is one.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a limit of 0, [`IndexMissing`](ErrorKind::IndexMissing), and those of
    /// the driver.
    pub(crate) async fn read(
        &self,
        from: &Collection<RawDocumentBuf>,
        filter: Document,
        after: After<'_>,
        conn: &mut Conn<'_>,
    ) -> Result<Vec<(DateTime, RawDocumentBuf)>> {
        check_limit(self.limit)?;
        let bounds = query::bounds(self.date, after, self.newest_first);
        let direction = if self.newest_first { -1 } else { 1 };
        // The minimum is a part of the range, and the last document of the page before may be there.
        let limit = self.limit.saturating_add(2);
        let options = FindOptions::builder()
            .hint(Hint::Name(self.index.clone()))
            .sort(doc! { self.date: direction, "_id": direction })
            .min(bounds.min)
            .max(bounds.max)
            .limit(i64::from(limit))
            .batch_size(batch_size(limit))
            .build();
        let is_date = doc! { self.date: { "$not": { "$type": "array" } } };
        let documents = conn.find_all(from, and(is_date, filter), options);
        let documents = documents.await?;
        let last = after
            .filter(|_| !self.newest_first)
            .and_then(|(date, id)| Some((date, bytes(id?))));
        let rows = documents
            .into_iter()
            .filter_map(|document| Some((document.get_datetime(self.date).ok()?, document)));
        Ok(rows
            .filter(|(date, document)| last.as_ref() != Some(&(*date, bytes(&id_of(document)))))
            .collect())
    }
}
