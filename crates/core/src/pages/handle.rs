//! Pages, and their construction.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};
use serde::de::DeserializeOwned;

use super::action::Documents;
use super::query::Query;
use super::token::DocumentToken;
use crate::action::Write;
use crate::conn::Conn;
#[allow(unused_imports)] // the links of the documentation use them
use crate::error::{ErrorKind::*, Result};
use crate::index::{EnsuredIndexes, IndexPlan};
use crate::list::List;

/// The pages of a query: a filter and a sort. See the [module](super).
///
/// Clones are cheap. It is built without a command, so a service can build one for each request.
pub struct Pages<D> {
    query: Arc<Query>,
    types: PhantomData<fn() -> D>,
}

crate::redacted_debug!(Pages<D>, |pages| "collection" = pages.query.collection.namespace());
crate::clone_fields!(Pages<D>, query, types);

crate::builder! {
    /// Builds [`Pages`].
    pub struct PagesBuilder<D> over collection: Collection<RawDocumentBuf> {
        filter: Document,
        sort: Document,
        max_time: Option<Duration>,
    }

    /// Sets the filter, as for the driver's `find`; by default, all documents match.
    filter(filter: Document) => filter = filter;

    /// Sets the order: fields or paths, each with 1 or -1. Documents with equal values are in the order of their `_id`s, in
    /// the direction of the last field. By default, the order is by `_id`.
    sort(fields: Document) => sort = fields;

    /// Bounds the time of each command of a page on the server (`maxTimeMS`), for pages that set none themselves.
    ///
    /// See [time limits](crate::action#time-limits).
    max_time(time: Duration) => max_time = Some(time);
}

impl<D> Pages<D> {
    /// Starts to build the pages of a collection, with its read preference and its read concern.
    ///
    /// ```no_run
    /// # use mongo_patterns::pages::Pages;
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # fn f(database: Database, tenant: i32) -> mongo_patterns::Result<()> {
    /// let newest = Pages::<Document>::over(database.collection::<Document>("orders"))
    ///     .filter(doc! { "tenant": tenant, "total": { "$gt": 100 } })
    ///     .sort(doc! { "date": -1 })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn over<T: Send + Sync>(collection: Collection<T>) -> PagesBuilder<D> {
        PagesBuilder::over(collection.clone_with_type())
    }

    /// Returns the index of the pages, for example to create it by other means. Its text is the `createIndex` call for a shell.
    ///
    /// ```
    /// # use mongo_patterns::pages::Pages;
    /// # async fn f(pages: Pages<()>) -> mongo_patterns::Result<()> {
    /// println!("{}", pages.index());
    /// pages.index().check().await?; // an error if it is missing
    /// # Ok(())
    /// # }
    /// ```
    pub fn index(&self) -> IndexPlan {
        self.query.plan()
    }

    /// Creates the [index](Self::index) unless it exists, and checks that no document has an array in its fields.
    ///
    /// A service calls it when it starts, for each filter and sort with other fields. The values of the filter do not
    /// matter.
    ///
    /// ```no_run
    /// # async fn f(pages: mongo_patterns::pages::Pages<()>) -> mongo_patterns::Result<()> {
    /// for name in pages.ensure_index().await?.created {
    ///     println!("created the index {name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips, and one more to create the index. The server reads the whole collection for a new index.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// The index is created or not, and the server may complete a build that it has begun. Call it again.
    ///
    /// # Errors
    /// With nothing written:
    ///
    /// - [`IndexMismatch`]: another index has its name, or its keys under another name.
    /// - [`UnsupportedCollation`]: the collation of the collection is not the simple one.
    /// - [`Configuration`]: the collection is a view, a time series, capped or clustered.
    ///
    /// With the index created:
    ///
    /// - [`Corrupt`]: a document has, or once had, an array in one of its fields.
    /// - [`Unsupported`]: the server has no bounds of an index, or refuses them under the strict Stable API.
    pub fn ensure_index(&self) -> Write<'_, EnsuredIndexes> {
        let query = &*self.query;
        Write::new(query.operation("ensure_index"), async move |session| {
            let mut conn = Conn::of_caller(session).await?;
            let ensured = query.plan().ensure(&mut conn).await?;
            query.check_index().await?;
            query.set_checked();
            Ok(ensured)
        })
    }
}

impl<D: DeserializeOwned> Pages<D> {
    /// Reads the documents of the query, in its order: a [page](List::page), or all as a [stream](List::stream).
    ///
    /// ```no_run
    /// # use mongo_patterns::pages::{DocumentToken, Pages};
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(newest: Pages<Document>) -> mongo_patterns::Result<()> {
    /// let first = newest.list().limit(20).page().await?;
    /// if let Some(next) = first.next {
    ///     let link = format!("/orders?after={next}");
    ///     let after: DocumentToken = next.to_string().parse()?; // from the link
    ///     let second = newest.list().limit(20).after(after).page().await?;
    ///     let back = newest.list().limit(20).before(second.previous).page().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for a page, and one for each further 16 MB. The first page of a process takes one more, unless it has
    /// called [`ensure_index`](Pages::ensure_index), and so does the last page if the filter compares no field for equality.
    /// The server examines one or two documents more than the limit, and the documents between them that do not match the
    /// rest of the filter.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a token that is modified, or of another filter or sort.
    /// - [`IndexMismatch`]: the index is partial or sparse, or has other keys or another collation.
    /// - [`Corrupt`]: a document has an array in a field of the index.
    /// - [`Unsupported`]: the strict Stable API.
    pub fn list(&self) -> List<'_, D, DocumentToken> {
        let (query, types) = (&*self.query, PhantomData);
        let mut call = query.operation("list");
        call.max_time = query.max_time;
        List::new(call, Ok(Documents { query, types }))
    }
}

impl<D> PagesBuilder<D> {
    /// Checks the sort and returns the pages. Sends nothing.
    ///
    /// # Errors
    /// - [`Configuration`]: a name of the sort is no field or path of fields, a direction is not 1 or -1, or a field comes
    ///   after `_id`.
    pub fn build(self) -> Result<Pages<D>> {
        let query = Query::new(self.collection, self.filter, &self.sort, self.max_time)?;
        Ok(Pages {
            query: Arc::new(query),
            types: PhantomData,
        })
    }
}
