use std::marker::PhantomData;

use futures::future::BoxFuture;
use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::list::{Asked, List, Page, PageSource};
use mongo_patterns_core::pages::DatedDocument;
use mongodb::bson::Document;
use serde::de::DeserializeOwned;

use crate::repository::{Archive, Shared};
use crate::results::Found;
use crate::token::ArchiveToken;

impl<D: DeserializeOwned> Archive<D> {
    /// Reads the documents of both collections that match a filter, as a [list](List) in the order of their ages.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::{Archive, ArchiveToken};
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(archive: Archive<Document>) -> mongo_patterns::Result<()> {
    /// let of_claire = doc! { "customer_name": "Claire" };
    /// let first = archive.list(of_claire.clone()).newest_first().limit(20).page().await?;
    /// if let Some(next) = first.next {
    ///     let link = format!("/sales?after={next}");
    ///     let after: ArchiveToken = next.to_string().parse()?; // from the link
    ///     let second = archive.list(of_claire).newest_first().limit(20).after(after).page().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Documents whose age field is not a date are not found. Documents of the same age are in the order of their `_id`s. If
    /// both collections have a document of one age and `_id`, the collection's is found.
    ///
    /// # Guarantees
    /// From the first page to the last, a document that does not change is on exactly one page, whatever is archived,
    /// restored, inserted and deleted between two pages.
    ///
    /// The two reads of a page see two moments: a document that is archived between them is found once, and a document that
    /// is restored between them can be missed. In a snapshot session they see one.
    ///
    /// # Cost
    /// Two round trips for each page, one to each collection, and the [check of the indexes](crate#cost) once. Each examines
    /// the documents of one page, and by the index on the age the documents between them that do not match.
    pub fn list(&self, filter: Document) -> List<'_, Found<D>, ArchiveToken> {
        let (shared, types) = (self.shared(), PhantomData);
        List::new(shared.operation("list"), Ok(OfBoth { shared, filter, types }))
    }
}

/// The documents of both collections that match a filter.
struct OfBoth<'a, D> {
    shared: &'a Shared,
    filter: Document,
    types: PhantomData<fn() -> D>,
}

impl<D: DeserializeOwned> PageSource<Found<D>, ArchiveToken> for OfBoth<'_, D> {
    fn read<'c>(
        &'c self,
        page: Asked<ArchiveToken>,
        conn: &'c mut Conn<'_>,
    ) -> BoxFuture<'c, Result<Page<Found<D>, ArchiveToken>>> {
        let shared = self.shared;
        let decode = |row: &DatedDocument| shared.decode(&row.document, row.collection == 1);
        Box::pin(async move {
            shared.check_indexes().await?;
            let both = [&shared.current, &shared.archived];
            page.by_date((&both, shared.age_field()), &self.filter, decode, conn)
                .await
        })
    }
}
