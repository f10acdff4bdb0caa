use std::marker::PhantomData;

#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{Corrupt, Decode, IndexMismatch, IndexMissing, InvalidArgument};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::pages::{DatePage, check_limit, cut};
use mongo_patterns_core::stored::decode;
use mongo_patterns_core::{Error, Result};
use mongodb::bson::Document;
use serde::de::DeserializeOwned;

use crate::entry;
use crate::results::{NOT_DECODED, TrashEntry, TrashPage};
use crate::token::TrashToken;
use crate::trash::{Shared, Trash};

impl<D> Trash<D> {
    /// Reads a page of the deleted documents, with the time of their deletion and who deleted them: the newest first.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::{Trash, TrashToken};
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(trash: Trash<Document>) -> mongo_patterns::Result<()> {
    /// let first = trash.list().limit(20).await?;
    /// for entry in &first.entries {
    ///     println!("{} {:?}", entry.deleted_at, entry.deleted_by);
    /// }
    /// if let Some(next) = first.next {
    ///     let link = format!("/deleted?after={next}");
    ///     let after: TrashToken = next.to_string().parse()?; // from the link
    ///     let second = trash.list().limit(20).after(after).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and the [check of the indexes](crate#cost) once. The server examines the entries of one page.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for a limit of 0, [`IndexMissing`], [`IndexMismatch`], [`Decode`], [`Corrupt`] for an entry without
    /// a document, and those of the driver.
    pub fn list(&self) -> List<'_, D> {
        List {
            shared: self.shared(),
            limit: 100,
            after: None,
            types: PhantomData,
            session: None,
            max_time: self.shared().max_time,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads deleted documents; returned by [`Trash::list`].
    pub struct List<'a, D> {
        shared: &'a Shared,
        limit: u32,
        after: Option<TrashToken>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;

    /// Sets the maximum number of entries; 100 by default.
    limit(entries: u32) => limit = entries;

    /// Reads the entries after a position. `None` means from the start.
    after(token: impl Into<Option<TrashToken>>) => after = token.into();

    "list" => TrashPage<D> where D: DeserializeOwned + 'a
}

impl<D: DeserializeOwned> List<'_, D> {
    async fn execute(self) -> Result<TrashPage<D>> {
        check_limit(self.limit)?;
        self.shared.check_indexes().await?;
        let trash = &self.shared.trash;
        let page = DatePage {
            date: entry::DELETED_AT,
            newest_first: true,
            limit: self.limit,
            after: self.after.as_ref().map(TrashToken::position),
        };
        let mut conn = Conn::to_read(self.session, self.max_time).await?;
        let mut rows = page.read(trash, Document::new(), &mut conn).await?;
        let next = cut(&mut rows, self.limit).map(TrashToken::after);
        let entries = rows.iter().map(|row| {
            let document = entry::document_of(&row.document).and_then(|document| decode(document, "", NOT_DECODED));
            let of_entry = |error: Error| error.of_document(row.id.clone(), "document").of_collection(trash);
            Ok(TrashEntry {
                document: document.map_err(of_entry)?,
                deleted_at: row.date,
                deleted_by: entry::deleted_by(&row.document),
            })
        });
        Ok(TrashPage {
            entries: entries.collect::<Result<_>>()?,
            next,
        })
    }
}
