#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{IndexMissing, InvalidArgument, SettingsMismatch};
use mongo_patterns_core::age;
use mongodb::bson::DateTime;

use crate::action::delete_before::{DeleteBefore, Deletion};
use crate::entry::DELETED_AT;
use crate::trash::Trash;

impl<D> Trash<D> {
    /// Deletes the entries from before a time for good, in the background.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(trash: mongo_patterns::archive::Trash<()>, month_ago: DateTime) -> mongo_patterns::Result<()> {
    /// let deleted = trash.delete_before(month_ago).await?;
    /// println!("{} documents", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`plan`](DeleteBefore::plan) counts them, and lists the commands of the first chunk.
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
    pub fn delete_before(&self, time: DateTime) -> DeleteBefore<'_> {
        let shared = self.shared();
        DeleteBefore::of(Deletion {
            call: shared.operation("delete_before"),
            ensure: shared.ensure(),
            collection: &shared.trash,
            filter: age::before(DELETED_AT, time),
            index: age::index(DELETED_AT),
            related: None,
        })
    }
}
