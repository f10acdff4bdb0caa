//! Pages of one collection in the order of a date, and then of the `_id`.

use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc};

use super::order::Order;
use crate::conn::Conn;
#[allow(unused_imports)] // the documentation links to it
use crate::error::ErrorKind;
use crate::error::Result;
use crate::list::PageStart;
use crate::migration::and;
use crate::value::stored::id_of;

/// The documents whose field is a date, from the newest or from the oldest.
pub struct DatePage<'a> {
    /// The field with the date, with which the index begins.
    pub date: &'a str,
    /// The order.
    pub newest_first: bool,
    /// The most documents.
    pub limit: u32,
    /// The date and the `_id` after which it begins.
    pub after: Option<(DateTime, &'a Bson)>,
}

crate::redacted_debug!(DatePage<'_>);

/// A document, with its position.
pub struct DatedDocument {
    /// The date.
    pub date: DateTime,
    /// The `_id`.
    pub id: Bson,
    /// The document.
    pub document: RawDocumentBuf,
}

crate::redacted_debug!(DatedDocument);

impl DatePage<'_> {
    /// Reads the documents that match a filter, and one more if there is one. The limit is not 0, and the caller has checked
    /// the index: one with only some of the documents would hide the others.
    ///
    /// # Errors
    /// [`IndexMissing`](ErrorKind::IndexMissing), and those of the driver.
    pub async fn read(
        &self,
        from: &Collection<RawDocumentBuf>,
        filter: Document,
        conn: &mut Conn<'_>,
    ) -> Result<Vec<DatedDocument>> {
        let direction = if self.newest_first { -1 } else { 1 };
        let order = Order::new(&Document::new(), &doc! { self.date: direction, "_id": direction })?;
        let position = self.after.map(|(date, id)| [Bson::DateTime(date), id.clone()]);
        let start = position
            .as_ref()
            .map_or(PageStart::First, |position| PageStart::After(&position[..]));
        let Some(mut range) = order.range(&start) else {
            return Ok(Vec::new());
        };
        // Only dates.
        if position.is_none() || self.newest_first {
            range.min = Some(doc! { self.date: DateTime::MIN, "_id": Bson::MinKey });
        }
        let after_dates = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
        range
            .max
            .get_or_insert_with(|| doc! { self.date: after_dates, "_id": Bson::MinKey });
        let filter = and(doc! { self.date: { "$not": { "$type": "array" } } }, filter);
        let limit = self.limit.saturating_add(1);
        let found = range
            .find(from, filter, &order.index_name(), limit, conn)
            .await?
            .into_iter();
        let dated = found.filter_map(|document| {
            let (date, id) = (document.get_datetime(self.date).ok()?, id_of(&document));
            Some(DatedDocument { date, id, document })
        });
        Ok(dated.collect())
    }
}
