use std::cmp::Reverse;
use std::marker::PhantomData;

#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{Decode, IndexMissing, InvalidArgument};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::bytes;
use mongo_patterns_core::pages::cut;
use mongo_patterns_core::stored::{decode, id_of};
use mongo_patterns_core::{DocumentId, Result};
use mongodb::bson::{DateTime, Document, RawDocumentBuf};
use serde::de::DeserializeOwned;

use super::NOT_DECODED;
use crate::page::Page;
use crate::repository::{Archive, Shared};
use crate::results::{Found, FoundPage};
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
    /// the same age are in the order of their `_id`s, the ones of the collection before those of the archive.
    ///
    /// The two reads see two moments: a document that is archived between them is found once, and one that is restored between
    /// them can be missed. In a snapshot session they see one.
    ///
    /// # Cost
    /// Two round trips, one to each collection. Each examines the documents of one page, and those that do not match the filter between
    /// them, by the index on the age.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for a limit of 0, [`IndexMissing`], [`Decode`], and those of the driver.
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

/// A document with its age, and the number of its collection.
struct Row {
    age: DateTime,
    collection: usize,
    document: RawDocumentBuf,
}

impl<D: DeserializeOwned> Find<'_, D> {
    async fn execute(mut self) -> Result<FoundPage<D>> {
        let mut conn = Conn::to_read(self.session.take(), self.max_time).await?;
        let mut rows = self.rows(0, &mut conn).await?;
        let archived = self.rows(1, &mut conn).await?;
        // Archived between the two reads.
        let current: Vec<Vec<u8>> = rows.iter().map(|row| bytes(&id_of(&row.document))).collect();
        rows.extend(
            archived
                .into_iter()
                .filter(|row| !current.contains(&bytes(&id_of(&row.document)))),
        );
        // Stable: of the same age, those of the collection are first.
        match self.newest_first {
            true => rows.sort_by_key(|row| Reverse(row.age)),
            false => rows.sort_by_key(|row| row.age),
        }
        let has_more = cut(&mut rows, self.limit).is_some();
        let next = if has_more { self.token(&rows)? } else { None };
        let documents = rows
            .iter()
            .map(|row| Ok(Found::new(decode(&row.document, "", NOT_DECODED)?, row.collection == 1)));
        Ok(FoundPage {
            documents: documents.collect::<Result<_>>()?,
            next,
        })
    }

    fn page(&self) -> Page<'_> {
        Page {
            date: self.shared.age_field(),
            index: self.shared.index_name(),
            newest_first: self.newest_first,
            limit: self.limit,
        }
    }

    /// Reads a page of one of the collections.
    async fn rows(&self, collection: usize, conn: &mut Conn<'_>) -> Result<Vec<Row>> {
        let from = [&self.shared.current, &self.shared.archived][collection];
        let after = self
            .after
            .as_ref()
            .map(|token| (token.age, token.ids[collection].as_ref().map(DocumentId::value)));
        let documents = self.page().read(from, self.filter.clone(), after, conn).await?;
        let rows = documents.into_iter().map(|(age, document)| Row {
            age,
            collection,
            document,
        });
        Ok(rows.collect())
    }

    /// Returns the position after the last document.
    fn token(&self, rows: &[Row]) -> Result<Option<ArchiveToken>> {
        let Some(age) = rows.last().map(|row| row.age) else {
            return Ok(None);
        };
        let mut ids = match &self.after {
            Some(token) if token.age == age => token.ids.clone(),
            _ => [None, None],
        };
        for row in rows.iter().filter(|row| row.age == age) {
            ids[row.collection] = Some(DocumentId::new(id_of(&row.document))?);
        }
        Ok(Some(ArchiveToken { age, ids }))
    }
}
