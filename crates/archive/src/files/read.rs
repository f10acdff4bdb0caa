use std::ops::{Bound, RangeBounds};

use mongo_patterns_core::action::{ActionFuture, Call, Find, run};

use super::prelude::*;
use crate::decode::decode;

impl<D> FileArchive<D> {
    /// Lists the files that can have documents of a range of ages, in the order in which they were written; `..` for all.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::archive::files::FileArchive;
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(archive: FileArchive<()>, march: DateTime, april: DateTime) -> mongo_patterns::Result<()> {
    /// for file in archive.files(march..april).await? {
    ///     println!("{}: {} documents", file.name, file.documents);
    /// }
    /// let mut all = archive.files(..).stream();
    /// while let Some(file) = all.try_next().await? {
    ///     println!("{} {}", file.sha256, file.name); // as sha256sum prints it
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines the records of all files.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn files(&self, ages: impl RangeBounds<DateTime>) -> Find<'_, ArchiveFile> {
        let shared = self.shared();
        let mut filter = shared.records(&[STORED]);
        match ages.start_bound() {
            Bound::Unbounded => {}
            Bound::Included(start) => drop(filter.insert("newest", doc! { "$gte": start })),
            Bound::Excluded(start) => drop(filter.insert("newest", doc! { "$gt": start })),
        }
        match ages.end_bound() {
            Bound::Unbounded => {}
            Bound::Included(end) => drop(filter.insert("oldest", doc! { "$lte": end })),
            Bound::Excluded(end) => drop(filter.insert("oldest", doc! { "$lt": end })),
        }
        let call = Call::new("archive", "files", &shared.records);
        Find::new(call, filter, ArchiveFile::of).sort(doc! { "_id": 1 })
    }

    /// Reads the documents of a file, after its SHA-256 was compared with that of its record.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::files::FileArchive;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(archive: FileArchive<Document>) -> mongo_patterns::Result<()> {
    /// for file in archive.files(..).await? {
    ///     println!("{} documents", archive.read(file.name).await?.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and a read of the file. The documents are in memory: about 32 MB at most.
    ///
    /// # Cancel safety
    /// It changes nothing.
    ///
    /// # Errors
    /// [`NotFound`] when the archive has no file of this name, [`Corrupt`] when the file is missing or changed, [`FileStore`],
    /// and [`Decode`].
    pub fn read(&self, name: impl Into<String>) -> ActionFuture<'_, Vec<D>>
    where
        D: DeserializeOwned,
    {
        let (shared, name) = (self.shared(), name.into());
        run(shared.operation("read"), async move {
            let documents = shared.load(&name, &mut Conn::new()).await?;
            documents.iter().map(|document| decode(document)).collect()
        })
    }
}
