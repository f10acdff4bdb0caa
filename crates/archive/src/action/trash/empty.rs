#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{IndexMissing, InvalidArgument, SettingsMismatch};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::{Result, age, migration};
use mongodb::bson::DateTime;

use crate::action::delete::Deletion;
use crate::entry::DELETED_AT;
use crate::results::DeletedArchived;
use crate::trash::{Shared, Trash};

impl<D> Trash<D> {
    /// Deletes the entries from before a time for good, in the background.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trash: mongo_patterns::archive::Trash<()>) -> mongo_patterns::Result<()> {
    /// let deleted = trash.empty_before(DateTime::now()).await?;
    /// println!("{} documents", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`plan`](EmptyBefore::plan) counts them, and lists the commands of the first chunk.
    ///
    /// # Cost
    /// Three round trips, one more with a progress callback, and one for each chunk. The server examines
    /// only entries that are old enough.
    ///
    /// # Cancel safety
    /// Some of the entries are deleted. Call it again.
    ///
    /// # Errors
    /// With nothing changed: [`InvalidArgument`] for a number that is 0, [`SettingsMismatch`], also when the catalog has no
    /// entry, and [`IndexMissing`]. Those of the driver. Call it again.
    pub fn empty_before(&self, time: DateTime) -> EmptyBefore<'_> {
        EmptyBefore::with_defaults(self.shared(), time)
    }
}

migration! {
    /// Deletes entries of a trash; returned by [`Trash::empty_before`].
    pub struct EmptyBefore<'a> {
        shared: &'a Shared,
        before: DateTime,
    }
    "empty_before" => DeletedArchived;
    in chunks of 1000 "entries";
}

impl EmptyBefore<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<DeletedArchived> {
        let shared = self.shared;
        let deletion = Deletion {
            ensure: &shared.ensure(),
            collection: &shared.trash,
            filter: age::before(DELETED_AT, self.before),
            index: age::index(DELETED_AT),
            related: None,
        };
        deletion.run(conn, progress).await
    }
}
