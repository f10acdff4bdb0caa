#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{InvalidArgument, SettingsMismatch};
use mongo_patterns_core::age;
use mongo_patterns_core::migration::and;
use mongodb::bson::DateTime;

use crate::action::delete_before::{DeleteBefore, Deletion, Dependents};
use crate::entry::{DELETED_AT, OF};
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
    /// Entries of [related](crate#related-documents-of-a-trash) documents are deleted before the entry of their document,
    /// and not counted. [`plan`](DeleteBefore::plan) counts the entries, and lists the commands of the first chunk.
    ///
    /// # Cost
    /// Three round trips, one more with a progress callback, and one for each chunk, or two with related collections. The
    /// server examines only entries that are old enough.
    ///
    /// # Cancel safety
    /// Some of the entries are deleted. A document that has lost related ones is not restored. Call it again.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a number is 0.
    /// - [`SettingsMismatch`]: also if the catalog has no entry.
    ///
    /// After another error, some entries can be deleted: call it again.
    pub fn delete_before(&self, time: DateTime) -> DeleteBefore<'_> {
        let shared = self.shared();
        DeleteBefore::of(Deletion {
            call: shared.operation("delete_before"),
            ensure: shared.ensure(),
            collection: &shared.trash,
            filter: and(age::before(DELETED_AT, time), shared.of_documents()),
            index: age::index(DELETED_AT),
            dependents: match shared.has_related() {
                true => Dependents::Entries(OF),
                false => Dependents::None,
            },
        })
    }
}
