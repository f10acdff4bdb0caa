#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{InvalidArgument, SettingsMismatch, TooLarge};
use mongo_patterns_core::action::Call;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{by_ids, with_ids};
use mongo_patterns_core::index::Ensure;
use mongo_patterns_core::migration::{ChunkedFind, MigrationProgress, Step, and};
use mongo_patterns_core::{Deleted, ErrorKind, Result, RetryPolicy, age, migration, transaction};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf};
use mongodb::options::FindOptions;

use crate::related::{self, Related};
use crate::repository::Archive;
use crate::transfer::ids_of;

impl<D> Archive<D> {
    /// Deletes the archived documents from before a time, except documents to [keep](crate::ArchiveBuilder::keep).
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(archive: mongo_patterns::archive::Archive<()>, ten_years_ago: DateTime) -> mongo_patterns::Result<()> {
    /// let deleted = archive.delete_before(ten_years_ago).rate(5_000).await?;
    /// println!("{} documents", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [Related](crate::ArchiveBuilder::related) documents are deleted, and not counted. [`plan`](DeleteBefore::plan) counts
    /// the documents, and lists the commands of the first chunk.
    ///
    /// # Cost
    /// Four round trips, one more with a progress callback, and one for each chunk. With
    /// [related](crate::ArchiveBuilder::related) documents, a chunk takes three, and up to two for each of their
    /// collections. The server examines only documents that are old enough.
    ///
    /// # Cancel safety
    /// Some of the documents are deleted. Call it again.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a number is 0.
    /// - [`SettingsMismatch`]: also if the catalog has no entry.
    /// - [`TooLarge`]: a document has too many [related](crate#related-documents) ones.
    ///
    /// After another error, some documents can be deleted: call it again.
    pub fn delete_before(&self, time: DateTime) -> DeleteBefore<'_> {
        let shared = self.shared();
        DeleteBefore::of(Deletion {
            call: shared.operation("delete_before"),
            ensure: shared.ensure(),
            collection: &shared.archived,
            filter: shared.limit.before(time),
            index: age::index(shared.age_field()),
            dependents: match shared.related.collections.is_empty() {
                true => Dependents::None,
                false => Dependents::Related(&shared.related, &shared.retry),
            },
        })
    }
}

migration! {
    /// Deletes documents from before a time; returned by [`Archive::delete_before`] and [`Trash::delete_before`](crate::Trash::delete_before).
    pub struct DeleteBefore<'a> {
        shared: Deletion<'a>,
    }
    "delete_before" => Deleted;
    in chunks of 1000 "documents";
}

impl<'a> DeleteBefore<'a> {
    pub(crate) fn of(deletion: Deletion<'a>) -> Self {
        Self::with_defaults(deletion)
    }

    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Deleted> {
        self.shared.run(conn, progress).await
    }
}

/// The deletion of the documents that match a filter, in the order of an index.
pub(crate) struct Deletion<'a> {
    pub(super) call: Call<'a>,
    pub(super) ensure: Ensure<'a>,
    pub(super) collection: &'a Collection<RawDocumentBuf>,
    pub(super) filter: Document,
    pub(super) index: Document,
    pub(super) dependents: Dependents<'a>,
}

/// What is deleted with each document.
pub(crate) enum Dependents<'a> {
    None,
    /// The related documents, in one transaction.
    Related(&'a Related, &'a RetryPolicy),
    /// First the documents of the same collection that have its `_id` in this field.
    Entries(&'static str),
}

impl<'a> Deletion<'a> {
    fn operation(&self, operation: &'static str) -> Call<'a> {
        Call { operation, ..self.call }
    }

    async fn run(&self, conn: &mut Conn<'_>, mut progress: MigrationProgress<'_>) -> Result<Deleted> {
        let walk = ChunkedFind::by_number(self.filter.clone(), progress.chunk).by_index(self.index.clone());
        let purpose = "walk through the documents";
        let chunks = self
            .ensure
            .begin_chunks(purpose, walk, self.collection, conn, &mut progress);
        let mut chunks = chunks.await?;
        let mut deleted = 0;
        while let Some(chunk) = chunks.next_chunk().await? {
            if !conn.is_plan() || deleted == 0 {
                deleted += match self.dependents {
                    Dependents::None | Dependents::Entries(_) => self.delete(&chunk.ids, conn).await?,
                    Dependents::Related(related, retry) => {
                        self.delete_related(&chunk.ids, related, retry, conn).await?
                    }
                };
            } else {
                deleted += chunk.documents();
            }
            progress.advance(conn, chunk.documents()).await;
        }
        Ok(Deleted::new(deleted))
    }

    /// Matches documents that have not changed. One may have been restored, changed and archived again.
    fn unchanged(&self, ids: &[Bson]) -> Document {
        and(by_ids(ids), self.filter.clone())
    }

    async fn delete(&self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<u64> {
        if let Dependents::Entries(field) = self.dependents {
            let delete = Step::delete_many("delete their related entries", self.collection, with_ids(field, ids));
            conn.write(delete).await?;
        }
        let delete = Step::delete_many("delete old documents", self.collection, self.unchanged(ids));
        Ok(conn
            .write(delete)
            .await?
            .map_or(ids.len() as u64, |reply| reply.deleted))
    }

    /// Deletes documents with their related ones, in transactions that are not too large.
    async fn delete_related(
        &self,
        ids: &[Bson],
        related: &Related,
        retry: &RetryPolicy,
        conn: &mut Conn<'_>,
    ) -> Result<u64> {
        let (mut deleted, mut slices) = (0, vec![ids]);
        while let Some(slice) = slices.pop() {
            let context = (self, slice, related);
            let done = match conn.is_plan() {
                true => self.delete_together(slice, related, conn).await,
                false => {
                    transaction::run(
                        self.collection,
                        retry,
                        conn,
                        context,
                        |conn, (deletion, ids, related)| Box::pin(deletion.delete_together(ids, related, conn)),
                    )
                    .await
                }
            };
            match done {
                Err(error) if error.kind() == ErrorKind::TooLarge && slice.len() > 1 => {
                    let (first, second) = slice.split_at(slice.len() / 2);
                    slices.extend([second, first]);
                }
                done => deleted += done?,
            }
        }
        Ok(deleted)
    }

    async fn delete_together(&self, ids: &[Bson], related: &Related, conn: &mut Conn<'_>) -> Result<u64> {
        let (filter, options) = (self.unchanged(ids), FindOptions::default());
        let find = Step::find("read documents", self.collection, filter, options);
        let documents = conn.read(find.up_to(ids.len())).await?.documents;
        if documents.is_empty() {
            return Ok(0);
        }
        let related = related.measure(&documents, true, conn).await;
        let related = related.map_err(|error| error.of_collection(self.collection))?;
        related::delete(&related, conn).await?;
        self.delete(&ids_of(&documents), conn).await
    }
}
