use std::marker::PhantomData;

use futures::future::BoxFuture;
#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{Corrupt, SettingsMismatch};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::list::{Asked, List, Page, PageSource};
use mongo_patterns_core::pages::DatedDocument;
use mongo_patterns_core::stored::decode;
use mongo_patterns_core::{Error, Result};
use serde::de::DeserializeOwned;

use crate::entry;
use crate::related_entries;
use crate::results::{NOT_DECODED, TrashEntry};
use crate::token::TrashToken;
use crate::trash::{Shared, Trash};

impl<D: DeserializeOwned> Trash<D> {
    /// Reads the deleted documents, with the time of their deletion and who deleted them, as a [list](List) in the order of
    /// the deletions.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::{Trash, TrashToken};
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(trash: Trash<Document>) -> mongo_patterns::Result<()> {
    /// let first = trash.list().newest_first().limit(20).page().await?;
    /// for entry in &first.items {
    ///     println!("{} {:?}", entry.deleted_at, entry.deleted_by);
    /// }
    /// if let Some(next) = first.next {
    ///     let link = format!("/deleted?after={next}");
    ///     let after: TrashToken = next.to_string().parse()?; // from the link
    ///     let second = trash.list().newest_first().limit(20).after(after).page().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip for each page, and the [check of the indexes](crate#cost) once. The server examines the entries of one
    /// page, and of their [related](crate#related-documents-of-a-trash) documents.
    ///
    /// # Errors
    /// - [`Corrupt`]: an entry has no document.
    /// - [`SettingsMismatch`]: an entry has related documents, and the trash has no related collections.
    pub fn list(&self) -> List<'_, TrashEntry<D>, TrashToken> {
        let (shared, types) = (self.shared(), PhantomData);
        List::new(shared.operation("list"), Ok(Entries { shared, types }))
    }
}

/// The entries of a trash.
struct Entries<'a, D> {
    shared: &'a Shared,
    types: PhantomData<fn() -> D>,
}

impl<D: DeserializeOwned> PageSource<TrashEntry<D>, TrashToken> for Entries<'_, D> {
    fn read<'c>(
        &'c self,
        page: Asked<TrashToken>,
        conn: &'c mut Conn<'_>,
    ) -> BoxFuture<'c, Result<Page<TrashEntry<D>, TrashToken>>> {
        let trash = &self.shared.trash;
        let entry_of = |row: &DatedDocument| {
            related_entries::check(self.shared, &row.document)?;
            let document = entry::document_of(&row.document).and_then(|document| decode(document, NOT_DECODED));
            let of_entry = |error: Error| error.of_document(row.id.clone(), "document").of_collection(trash);
            Ok(TrashEntry {
                document: document.map_err(of_entry)?,
                deleted_at: row.date,
                deleted_by: entry::deleted_by(&row.document),
            })
        };
        Box::pin(async move {
            self.shared.check_indexes().await?;
            page.by_date(
                (&[trash], entry::DELETED_AT),
                &self.shared.of_documents(),
                entry_of,
                conn,
            )
            .await
        })
    }
}
