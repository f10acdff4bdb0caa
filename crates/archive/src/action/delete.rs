use mongo_patterns_core::index::Ensure;
use mongo_patterns_core::migration;
use mongo_patterns_core::migration::{Pace, Step, Walk, both};

use super::prelude::*;
use super::run::begin;
use crate::results::DeletedArchived;

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
    /// are old enough.
    ///
    /// # Cancel safety
    /// Some of the documents are deleted. Call it again.
    ///
    /// # Errors
    /// With nothing changed: [`InvalidArgument`] for a number that is 0, [`SettingsMismatch`], also when the catalog has no
    /// entry, and [`IndexMissing`]. Those of the driver. Call it again.
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
}

impl Deletion<'_> {
    pub(super) async fn run(mut self, conn: &mut Conn<'_>, mut reporter: Reporter<'_>) -> Result<DeletedArchived> {
        let walk = Walk::by_number(self.filter.clone(), self.chunk).by_index(self.index);
        let mut chunks = begin(self.ensure, self.collection, walk, conn, &mut reporter).await?;
        let mut deleted = DeletedArchived::default();
        while let Some(chunk) = chunks.next_chunk().await? {
            let documents = chunk.ids.len() as u64;
            // A document may have been restored, changed and archived again.
            let still = both(by_ids(&chunk.ids), self.filter.clone());
            if !conn.is_plan() || deleted.documents == 0 {
                let delete = Step::delete_many("delete old documents", self.collection, still);
                deleted.documents += conn.write(delete).await?.map_or(documents, |reply| reply.deleted);
            } else {
                deleted.documents += documents;
            }
            conn.count_migrated(documents);
            reporter.advance(documents);
            self.pace.pause(conn, documents).await;
        }
        Ok(deleted)
    }
}
