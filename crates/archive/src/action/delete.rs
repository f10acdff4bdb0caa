use mongo_patterns_core::index::Ensure;
use mongo_patterns_core::migration::{Pace, Step, Walk, both};
use mongo_patterns_core::{RetryPolicy, migration, transaction};
use mongodb::options::FindOptions;

use super::prelude::*;
use super::run::begin;
use crate::results::DeletedArchived;
use crate::transfer;
use crate::wholes::{self, Moving};

impl<D> Archive<D> {
    /// Deletes the archived documents from before a time, but for those to [keep](crate::ArchiveBuilder::keep).
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(archive: mongo_patterns::archive::Archive<()>, ten_years_ago: DateTime) -> mongo_patterns::Result<()> {
    /// let deleted = archive.delete_archived_before(ten_years_ago).rate(5_000).await?;
    /// println!("{} documents", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`plan`](DeleteArchivedBefore::plan) counts them, and lists the commands of the first chunk.
    ///
    /// # Cost
    /// Three round trips, one more with a progress callback, and one for each chunk. The server examines only documents that
    /// are old enough. With [related](crate::ArchiveBuilder::related) documents, a chunk is read and deleted in a transaction:
    /// three round trips, one for each collection of related documents, and another one if it has some.
    ///
    /// # Cancel safety
    /// Some of the documents are deleted. Call it again.
    ///
    /// # Errors
    /// With nothing changed: [`InvalidArgument`] for a number that is 0, [`SettingsMismatch`], also when the catalog has no
    /// entry, and [`IndexMissing`]. Those of the driver. Call it again. [`TooLarge`] for a document with too many
    /// [related](crate#related-documents) ones.
    pub fn delete_archived_before(&self, time: DateTime) -> DeleteArchivedBefore<'_> {
        DeleteArchivedBefore::with_defaults(self.shared(), time)
    }
}

migration! {
    /// Deletes archived documents; returned by [`Archive::delete_archived_before`].
    pub struct DeleteArchivedBefore<'a> {
        shared: &'a Shared,
        before: DateTime,
    }
    "delete_archived_before" => DeletedArchived;
    in chunks of 1000 "documents";
}

impl DeleteArchivedBefore<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, reporter: Reporter<'_>) -> Result<DeletedArchived> {
        let (shared, chunk) = (self.shared, self.chunk_size());
        self.options.check_numbers()?;
        let settings = &shared.settings;
        let deletion = Deletion {
            ensure: &shared.ensure(),
            collection: &shared.archived,
            filter: query::before(settings, self.before),
            index: query::index(settings.age.as_str()),
            chunk,
            pace: self.options.pace(),
            related: Some((shared.moving(true), &settings.retry)).filter(|_| !shared.wholes.related.is_empty()),
        };
        deletion.run(conn, reporter).await
    }
}

/// The deletion of the documents that match a filter, in the order of an index.
pub(super) struct Deletion<'a> {
    pub(super) ensure: &'a Ensure<'a>,
    pub(super) collection: &'a Raw,
    pub(super) filter: Document,
    pub(super) index: Document,
    pub(super) chunk: u64,
    pub(super) pace: Pace,
    /// The related documents, if there are such, which are deleted with each document.
    pub(super) related: Option<(Moving<'a>, &'a RetryPolicy)>,
}

impl Deletion<'_> {
    pub(super) async fn run(mut self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<DeletedArchived> {
        let walk = Walk::by_number(self.filter.clone(), self.chunk).by_index(self.index.clone());
        let mut chunks = begin(self.ensure, self.collection, walk, conn, &mut reporter).await?;
        let mut deleted = DeletedArchived::default();
        while let Some(chunk) = chunks.next_chunk().await? {
            let documents = chunk.ids.len() as u64;
            if !conn.is_plan() || deleted.documents == 0 {
                deleted.documents += match self.related {
                    None => self.delete(&chunk.ids, conn).await?,
                    Some((_, retry)) => self.delete_parts(&chunk.ids, retry, conn).await?,
                };
            } else {
                deleted.documents += documents;
            }
            conn.count_migrated(documents);
            reporter.advance(documents);
            self.pace.pause(conn, documents).await;
        }
        Ok(deleted)
    }

    /// Matches documents that have not changed. One may have been restored, changed and archived again.
    fn still(&self, ids: &[Bson]) -> Document {
        both(by_ids(ids), self.filter.clone())
    }

    async fn delete(&self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<u64> {
        let delete = Step::delete_many("delete old documents", self.collection, self.still(ids));
        Ok(conn
            .write(delete)
            .await?
            .map_or(ids.len() as u64, |reply| reply.deleted))
    }

    /// Deletes documents with their related ones, in transactions that are not too large.
    async fn delete_parts(&self, ids: &[Bson], retry: &RetryPolicy, conn: &mut Conn<'_>) -> Result<u64> {
        let (mut deleted, mut parts) = (0, vec![ids]);
        while let Some(part) = parts.pop() {
            let whole = match conn.is_plan() {
                true => self.delete_wholes(part, conn).await,
                false => {
                    transaction::run(self.collection, retry, conn, (self, part), |conn, (deletion, ids)| {
                        Box::pin(deletion.delete_wholes(ids, conn))
                    })
                    .await
                }
            };
            match whole {
                Err(error) if error.kind() == ErrorKind::TooLarge && part.len() > 1 => {
                    parts.extend([&part[part.len() / 2..], &part[..part.len() / 2]]);
                }
                whole => deleted += whole?,
            }
        }
        Ok(deleted)
    }

    async fn delete_wholes(&self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<u64> {
        let find = Step::find(
            "read documents",
            self.collection,
            self.still(ids),
            FindOptions::default(),
        );
        let documents = conn.read(find).await?.documents;
        let (false, Some((moving, _))) = (documents.is_empty(), self.related) else {
            return Ok(0);
        };
        let related = moving.measure(&documents, conn).await?;
        wholes::delete(&related, conn).await?;
        self.delete(&transfer::ids(&documents), conn).await
    }
}
