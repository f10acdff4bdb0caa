#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{FileStore, SettingsMismatch};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::{MigrationProgress, Step};
use mongo_patterns_core::{Deleted, Result, migration};
use mongodb::bson::{DateTime, doc};
use mongodb::options::FindOptions;

use crate::form::{STORED, file_of};
use crate::repository::{FileArchive, Shared};

impl<D> FileArchive<D> {
    /// Deletes the files whose documents are all from before a time.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive_files::FileArchive;
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(archive: FileArchive<()>, ten_years_ago: DateTime) -> mongo_patterns::Result<()> {
    /// let deleted = archive.delete_before(ten_years_ago).await?;
    /// println!("{} documents", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A file with one newer document stays.
    ///
    /// # Cost
    /// Three round trips, and two for each file. The server examines the records of all files.
    ///
    /// # Cancel safety
    /// Some of the files are deleted. Call it again.
    ///
    /// # Errors
    /// - [`SettingsMismatch`]: also if the catalog has no entry.
    /// - [`FileStore`]: the store failed. Call it again.
    pub fn delete_before(&self, time: DateTime) -> DeleteBefore<'_> {
        DeleteBefore::with_defaults(self.shared(), time)
    }
}

migration! {
    /// Deletes old files; returned by [`FileArchive::delete_before`].
    pub struct DeleteBefore<'a> {
        shared: &'a Shared,
        before: DateTime,
    }
    "delete_before" => Deleted;
}

impl DeleteBefore<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, _: MigrationProgress<'_>) -> Result<Deleted> {
        let shared = self.shared;
        shared.ensure().require(conn).await?;
        shared.discard_abandoned(conn).await?;
        let mut old = shared.records_in(&[STORED]);
        old.insert("newest", doc! { "$lt": self.before });
        let find = Step::find("find old files", &shared.records, old, FindOptions::default());
        let mut deleted = 0;
        for record in conn.read(find).await?.documents {
            let file = file_of(&record)?;
            if shared.mark_deleted(&file.name, &[STORED], conn).await? {
                shared.remove(&file.name, conn).await?;
                deleted += file.documents;
            }
        }
        Ok(Deleted::new(deleted))
    }
}
