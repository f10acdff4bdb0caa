use std::ops::{Bound, RangeBounds};

#[allow(unused_imports)] // the documentation links to them
use mongo_patterns_core::ErrorKind::{Corrupt, FileStore, NotFound};
use mongo_patterns_core::action::{Call, Find, Read};
use mongo_patterns_core::stored::decode;
use mongodb::bson::{DateTime, doc};
use serde::de::DeserializeOwned;

use crate::form::{STORED, file_of};
use crate::repository::FileArchive;
use crate::results::ArchiveFile;

const NOT_DECODED: &str =
    "a stored document cannot be read as the type of the documents: change the type, or correct the document";

impl<D> FileArchive<D> {
    /// Lists the files that can have documents of a range of ages, in the order in which they were written; `..` for all.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::archive_files::FileArchive;
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
    pub fn files(&self, ages: impl RangeBounds<DateTime>) -> Find<'_, ArchiveFile> {
        let shared = self.shared();
        let mut filter = shared.records_in(&[STORED]);
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
        let call = Call {
            collection: &shared.records,
            ..shared.operation("files")
        };
        Find::new(call, filter, file_of).sort(doc! { "_id": 1 })
    }

    /// Reads the documents of a file, after a check of its length and its SHA-256.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive_files::FileArchive;
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
    /// # Errors
    /// - [`NotFound`]: the archive has no file of this name.
    /// - [`Corrupt`]: the file is missing or changed.
    /// - [`FileStore`]: the store failed.
    pub fn read(&self, name: impl Into<String>) -> Read<'_, Vec<D>>
    where
        D: DeserializeOwned,
    {
        let (shared, name) = (self.shared(), name.into());
        Read::new(shared.operation("read"), async move |mut conn| {
            // An older record would name a file that was restored since.
            conn.see_latest();
            let documents = shared.load(&name, &mut conn).await?;
            documents.iter().map(|document| decode(document, NOT_DECODED)).collect()
        })
    }
}
