use std::marker::PhantomData;

#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{Decode, IndexMismatch, IndexMissing, InvalidArgument};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::pages::{DatePage, DatedDocument, check_limit, cut};
use mongo_patterns_core::{Result, order};
use mongodb::bson::Document;
use serde::de::DeserializeOwned;

use crate::repository::{Archive, Shared};
use crate::results::FoundPage;
use crate::token::ArchiveToken;

impl<D> Archive<D> {
    /// Reads a page of the documents of both collections that match a filter, in the order of their ages: the newest first.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::{Archive, ArchiveToken};
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(archive: Archive<Document>) -> mongo_patterns::Result<()> {
    /// let of_claire = doc! { "customer_name": "Claire" };
    /// let first = archive.find(of_claire.clone()).limit(20).await?;
    /// if let Some(next) = first.next {
    ///     let link = format!("/sales?after={next}");
    ///     let after: ArchiveToken = next.to_string().parse()?; // from the link
    ///     let second = archive.find(of_claire).limit(20).after(after).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The filter is the caller's own, as for the driver's `find`. Documents whose age field is not a date are not found. Those of
    /// the same age are in the order of their `_id`s. If both collections have a document of one age and `_id`, that of the
    /// collection is found.
    ///
    /// # Guarantees
    /// From the first page to the last, a document that does not change is on exactly one page, whatever is archived, restored,
    /// inserted and deleted between two pages.
    ///
    /// The two reads see two moments: a document that is archived between them is found once, and one that is restored between
    /// them can be missed. In a snapshot session they see one.
    ///
    /// # Cost
    /// Two round trips, one to each collection, and the [check of the indexes](crate#cost) once. Each examines the documents of
    /// one page, and those that do not match the filter between them, by the index on the age.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for a limit of 0, [`IndexMissing`], [`IndexMismatch`], [`Decode`], and those of the driver.
    pub fn find(&self, filter: Document) -> Find<'_, D> {
        Find {
            shared: self.shared(),
            filter,
            limit: 100,
            newest_first: true,
            after: None,
            types: PhantomData,
            session: None,
            max_time: self.shared().max_time,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads documents of both collections; returned by [`Archive::find`].
    pub struct Find<'a, D> {
        shared: &'a Shared,
        filter: Document,
        limit: u32,
        newest_first: bool,
        after: Option<ArchiveToken>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;

    /// Reads from the oldest document to the newest.
    oldest_first() => newest_first = false;

    /// Sets the maximum number of documents; 100 by default.
    limit(documents: u32) => limit = documents;

    /// Reads the documents after a position, of the same filter and order. `None` means from the start.
    after(token: impl Into<Option<ArchiveToken>>) => after = token.into();

    "find" => FoundPage<D> where D: DeserializeOwned + 'a
}

/// A document, and whether it is in the archive.
struct Row {
    dated: DatedDocument,
    is_archived: bool,
}

impl<D: DeserializeOwned> Find<'_, D> {
    async fn execute(mut self) -> Result<FoundPage<D>> {
        check_limit(self.limit)?;
        self.shared.check_indexes().await?;
        let mut conn = Conn::to_read(self.session.take(), self.max_time).await?;
        let mut rows = self.rows(false, &mut conn).await?;
        rows.extend(self.rows(true, &mut conn).await?);
        let compare = |a: &Row, b: &Row| {
            let by_age = a.dated.date.cmp(&b.dated.date);
            by_age.then_with(|| order::compare(&a.dated.id, &b.dated.id))
        };
        // Stable: of two at one position, that of the collection is first.
        match self.newest_first {
            true => rows.sort_by(|a, b| compare(b, a)),
            false => rows.sort_by(compare),
        }
        // Archived between the two reads.
        rows.dedup_by(|b, a| compare(a, b).is_eq());
        let next = cut(&mut rows, self.limit).map(|row| ArchiveToken::after(&row.dated));
        let found = rows
            .iter()
            .map(|row| self.shared.decode(&row.dated.document, row.is_archived));
        Ok(FoundPage {
            documents: found.collect::<Result<_>>()?,
            next,
        })
    }

    /// Reads a page of one of the collections.
    async fn rows(&self, is_archived: bool, conn: &mut Conn<'_>) -> Result<Vec<Row>> {
        let page = DatePage {
            date: self.shared.age_field(),
            newest_first: self.newest_first,
            limit: self.limit,
            after: self.after.as_ref().map(ArchiveToken::position),
        };
        let from = self.shared.collection(is_archived);
        let documents = page.read(from, self.filter.clone(), conn).await?;
        let row = |dated| Row { dated, is_archived };
        Ok(documents.into_iter().map(row).collect())
    }
}
