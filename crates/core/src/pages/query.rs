//! The commands of a query.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Namespace};

use super::order::Order;
use super::range::Range;
use super::token::{DocumentToken, checksum, invalid};
use crate::action::Call;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{IndexPlan, PlannedIndex};
use crate::limit::cut;
use crate::list::{Asked, Page, PageStart};
use crate::migration::{Step, and};
use crate::send;

/// How many indexes a process remembers that it has checked.
const MOST_CHECKED: usize = 10_000;

/// Returns the indexes that this process has checked, with their collections.
fn checked() -> MutexGuard<'static, HashSet<(Namespace, String)>> {
    static CHECKED: LazyLock<Mutex<HashSet<(Namespace, String)>>> = LazyLock::new(Mutex::default);
    CHECKED.lock().unwrap_or_else(PoisonError::into_inner)
}

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

    /// Reads a page.
    pub(super) fn read<'a>(
        &'a self,
        Asked { start, limit, .. }: Asked<DocumentToken>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<Page<RawDocumentBuf, DocumentToken>>> {
        Box::pin(async move {
            let mut found = match self.order.range(&self.position(&start)?) {
                None => Vec::new(),
                Some(range) => {
                    // A page with a token follows one that was checked.
                    if start.position().is_none() {
                        self.check_served(conn).await?;
                    }
                    let is_open = range.is_open();
                    let mut found = self.find(range, limit.saturating_add(1), conn).await?;
                    if is_open && found.len() <= limit as usize {
                        found.extend(self.find_last(&start, conn).await?);
                    }
                    found
                }
            };
            let has_more = cut(&mut found, limit).is_some();
            if start.is_backward() {
                found.reverse();
            }
            let mut positions = Vec::with_capacity(found.len());
            for document in &found {
                positions.push(self.order.position(document)?);
            }
            let token = |values| DocumentToken::of(self.checksum, values);
            let ends = positions.first().cloned().zip(positions.pop());
            let ends = ends.map(|(first, last)| [token(first), token(last)]);
            let edges = self.order.edges().map(token);
            Ok(Page::around(found, &start, ends, has_more, edges))
        })
    }

    async fn find(&self, range: Range, limit: u32, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
        let found = range.find(&self.collection, self.filter.clone(), &self.index, limit, conn);
        found.await.map_err(|error| self.without_index(error))
    }

    /// Reads the document at the last of all keys, unless the page starts there.
    async fn find_last(&self, start: &PageStart<DocumentToken>, conn: &mut Conn<'_>) -> Result<Option<RawDocumentBuf>> {
        let last = self.order.edge(false);
        if self.position(start)?.position() == Some(&&last[..]) {
            return Ok(None);
        }
        let filter = and(self.filter.clone(), doc! { "_id": Bson::MaxKey });
        match conn.find_one(&self.collection, filter, None).await? {
            Some(document) if self.order.position(&document)? == last => Ok(Some(document)),
            _ => Ok(None),
        }
    }

    fn without_index(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::IndexMissing => error.with_text(format!(
                "the index `{}` does not exist, and nothing was read: call ensure_index() once before the first page",
                self.index
            )),
            _ => error,
        }
    }

    /// Checks, once in a process and outside of any session, that the index has all documents in this order.
    async fn check_served(&self, conn: &Conn<'_>) -> Result<()> {
        let is_checked = || checked().contains(&(self.collection.namespace(), self.index.clone()));
        if self.index == "_id_" || is_checked() {
            return Ok(());
        }
        let mut conn = Conn::to_read(None, conn.max_time()).await?;
        let served = self.plan().check_in(&mut conn).await;
        served.map_err(|error| self.without_index(error))?;
        self.set_checked();
        Ok(())
    }

    /// Remembers that the index was checked.
    pub(super) fn set_checked(&self) {
        let mut checked = checked();
        if checked.len() >= MOST_CHECKED {
            checked.clear();
        }
        checked.insert((self.collection.namespace(), self.index.clone()));
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
        // Without the filter, for which the plan could be empty.
        let options = self.order.bounded().options(&self.index, 1);
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
