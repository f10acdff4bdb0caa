use mongo_patterns_core::migration;
use mongo_patterns_core::migration::Step;
use mongodb::options::FindOptions;

use super::prelude::*;
use crate::results::DeletedArchived;

impl<D> FileArchive<D> {
    /// Deletes the files whose documents are all from before a time.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::files::FileArchive;
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
    /// With nothing changed: [`SettingsMismatch`], also when the catalog has no entry. [`FileStore`], and those of the driver.
    /// Call it again.
    pub fn delete_before(&self, time: DateTime) -> DeleteFilesBefore<'_> {
        DeleteFilesBefore::with_defaults(self.shared(), time)
    }
}

migration! {
    /// Deletes old files; returned by [`FileArchive::delete_before`].
    pub struct DeleteFilesBefore<'a> {
        shared: &'a Shared,
        before: DateTime,
    }
    "delete_before" => DeletedArchived;
}

impl DeleteFilesBefore<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, _: Reporter<'_>) -> Result<DeletedArchived> {
        let shared = self.shared;
        shared.ensure().require(conn).await?;
        shared.discard_left(conn).await?;
        let mut old = shared.records(&[STORED]);
        old.insert("newest", doc! { "$lt": self.before });
        let find = Step::find("find old files", &shared.records, old, FindOptions::default());
        let mut deleted = DeletedArchived::default();
        for record in conn.read(find).await?.documents {
            let file = ArchiveFile::of(&record)?;
            if shared.mark(&file.name, &[STORED], conn).await? {
                shared.remove(&file.name, conn).await?;
                deleted.documents += file.documents;
            }
        }
        Ok(deleted)
    }
}
