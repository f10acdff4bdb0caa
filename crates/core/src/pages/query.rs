//! The commands of a query.

use std::time::Duration;

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{Collation, FindOptions, Hint};

use super::limit::{check_limit, cut};
use super::order::{Order, Range};
use super::results::DocumentPage;
use super::start::PageStart;
use super::token::{DocumentToken, checksum, invalid};
use crate::action::{Call, batch_size};
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{IndexPlan, PlannedIndex};
use crate::migration::{Step, and};
use crate::send;

/// A query and its order.
pub(super) struct Query {
    pub(super) collection: Collection<RawDocumentBuf>,
    filter: Document,
    order: Order,
    index: String,
    /// The checksum of the filter and the sort.
    checksum: u64,
    pub(super) max_time: Option<Duration>,
}

impl Query {
    pub(super) fn new(
        collection: Collection<RawDocumentBuf>,
        filter: Document,
        sort: &Document,
        max_time: Option<Duration>,
    ) -> Result<Self> {
        let order = Order::new(&filter, sort)?;
        Ok(Self {
            collection,
            checksum: checksum(0, &doc! { "filter": &filter, "sort": order.sort() }.into()),
            index: order.index_name(),
            filter,
            order,
            max_time,
        })
    }

    pub(super) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call::new("pages", operation, &self.collection)
    }

    pub(super) fn plan(&self) -> IndexPlan {
        let index = PlannedIndex::new(&self.index, self.order.index());
        IndexPlan::new(&self.collection, vec![index])
    }

    fn options(&self, range: Range, limit: u32) -> FindOptions {
        FindOptions::builder()
            .hint(Hint::Name(self.index.clone()))
            .sort(range.sort)
            .min(range.min)
            .max(range.max)
            .limit(i64::from(limit))
            .batch_size(batch_size(limit))
            // The adjacent bounds are those of bytes. The server refuses it for an index with another one.
            .collation(Collation::builder().locale("simple").build())
            .build()
    }

    /// Reads a page.
    pub(super) fn read<'a>(
        &'a self,
        start: &'a PageStart<DocumentToken>,
        limit: u32,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<DocumentPage<RawDocumentBuf>>> {
        Box::pin(async move {
            check_limit(limit)?;
            let range = self.order.range(&self.position(start)?);
            // The server refuses bounds with nothing in between.
            let mut found = match range.min == range.max {
                true => Vec::new(),
                false => self.find(range, limit.saturating_add(1), conn).await?,
            };
            let has_more = cut(&mut found, limit).is_some();
            if matches!(start, PageStart::Before(_)) {
                found.reverse();
            }
            let mut positions = Vec::with_capacity(found.len());
            for document in &found {
                positions.push(self.order.position(document)?);
            }
            let token = |values| DocumentToken::of(self.checksum, values);
            let last = positions.last().cloned().map(token);
            let first = positions.into_iter().next().map(token);
            let edges = self.order.edges().map(token);
            let [previous, next] = start.around(first, last, has_more, edges);
            Ok(DocumentPage::new(found, previous, next))
        })
    }

    async fn find(&self, range: Range, limit: u32, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
        let filter = match &range.except {
            None => self.filter.clone(),
            Some(id) => and(self.filter.clone(), doc! { "_id": { "$ne": id } }),
        };
        let found = conn
            .find_all(&self.collection, filter, self.options(range, limit))
            .await;
        found.map_err(|error| {
            let error = Error::from(error);
            match error.kind() {
                ErrorKind::IndexMissing => error.with_text(format!(
                    "the index `{}` does not exist, and nothing was read: call ensure_index() once before the first page",
                    self.index
                )),
                _ => error,
            }
        })
    }

    fn position<'a>(&self, start: &'a PageStart<DocumentToken>) -> Result<PageStart<&'a [Bson]>> {
        let values = |token: &'a DocumentToken| {
            let values = token.values(self.checksum)?;
            self.order.has(values).then_some(values).ok_or_else(invalid)
        };
        Ok(match start {
            PageStart::First => PageStart::First,
            PageStart::After(token) => PageStart::After(values(token)?),
            PageStart::Before(token) => PageStart::Before(values(token)?),
        })
    }

    /// Checks that no document has several positions, by the plan of the first page. One round trip.
    pub(super) async fn check_index(&self) -> Result<()> {
        let options = self.options(self.order.range(&PageStart::First), 1);
        // Without the filter, for which the plan could be empty.
        let find = Step::find("explain a page", &self.collection, doc! {}, options).command()?;
        let namespace = self.collection.namespace();
        let database = self.collection.client().database(&namespace.db);
        let explain = doc! { "explain": find, "verbosity": "queryPlanner" };
        let explained = send::run_read(&database, explain).await?;
        match explained.get_document("queryPlanner").ok().and_then(is_multikey) {
            Some(false) => Ok(()),
            Some(true) => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "documents have, or had, arrays in fields of the index `{}`, in which they have several positions: sort by other fields, or correct the documents, drop the index, and call ensure_index()",
                    self.index
                ),
            )),
            None => Err(Error::new(
                ErrorKind::Unsupported,
                "the server does not read the bounds of an index, which pages need: use MongoDB 6.0 or newer",
            )),
        }
    }
}

/// Returns whether an index of a plan has several keys for a document, on any shard. `None` without an index.
fn is_multikey(plan: &Document) -> Option<bool> {
    let of_value = |value: &Bson| match value {
        Bson::Document(inner) => is_multikey(inner),
        Bson::Array(values) => values
            .iter()
            .filter_map(Bson::as_document)
            .filter_map(is_multikey)
            .max(),
        _ => None,
    };
    let of_stage = plan.get_bool("isMultiKey").ok();
    of_stage.into_iter().chain(plan.values().filter_map(of_value)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_multikey_if_it_is_on_one_shard() {
        let scan = |is_multikey: bool| doc! { "stage": "FETCH", "inputStage": { "stage": "IXSCAN", "isMultiKey": is_multikey } };
        let shards =
            |a, b| doc! { "winningPlan": { "shards": [{ "winningPlan": scan(a) }, { "winningPlan": scan(b) }] } };
        assert_eq!(is_multikey(&scan(true)), Some(true));
        assert_eq!(is_multikey(&shards(false, false)), Some(false));
        assert_eq!(is_multikey(&shards(true, false)), Some(true));
        assert_eq!(is_multikey(&doc! { "winningPlan": { "stage": "EOF" } }), None);
    }
}
