//! The construction of an archive in files.

use std::sync::Arc;
use std::time::Duration;

#[allow(unused_imports)] // the documentation links to it
use mongo_patterns_core::ErrorKind;
use mongo_patterns_core::Result;
use mongo_patterns_core::age::AgeLimit;
use mongo_patterns_core::catalog::catalog_of;
use mongo_patterns_core::lanes::Lanes;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::options::{CollectionOptions, WriteConcern};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::repository::{FileArchive, Shared};
use crate::store::Store;

mongo_patterns_core::builder! {
    /// Builds a [`FileArchive`].
    pub struct FileArchiveBuilder<D> over current: Collection<RawDocumentBuf>, store: Arc<dyn ObjectStore>, prefix: Path {
        age: Option<String>,
        older_than: Option<Duration>,
        keep: Option<Document>,
    }
    with retry, max_time;

    /// Sets the field with the time of a document, a date. Required. A document without it is never archived.
    age_field(name: impl Into<String>) => age = Some(name.into());

    /// Sets the age from which documents are archived, by the clock of the client. Required.
    older_than(age: Duration) => older_than = Some(age);

    /// Keeps the documents that match a filter: they are not archived. The [catalog](mongo_patterns_core::catalog) has the
    /// filter, so no run with another filter moves them.
    keep(filter: Document) => keep = Some(filter);
}

impl<D> FileArchive<D> {
    /// Starts to build an archive of a collection in files, below a prefix of an object store. Its changes of the collection
    /// are confirmed by a majority, whatever the write concern of the collection is.
    ///
    /// ```no_run
    /// # use std::{sync::Arc, time::Duration};
    /// use mongo_patterns::archive_files::FileArchive;
    /// use mongo_patterns::archive_files::object_store::local::LocalFileSystem;
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    ///
    /// # fn f(database: Database) -> Result<(), Box<dyn std::error::Error>> {
    /// let sales = database.collection::<Document>("sales");
    /// let store = LocalFileSystem::new_with_prefix("/mnt/archive")?.with_fsync(true);
    /// let archive = FileArchive::<Document>::builder(sales, Arc::new(store), "sales")
    ///     .age_field("date")
    ///     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
    ///     .keep(doc! { "retentionPolicy": "permanent" })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantees
    /// The documents are deleted in the collection when the store has confirmed their file. So a file must outlast a failure
    /// of the machine as soon as the store confirms it. The stores of S3, Google Cloud and Azure do so. A
    /// [`LocalFileSystem`](object_store::local::LocalFileSystem) does so only [`with_fsync(true)`], on a file system that
    /// has hard links.
    ///
    /// No other archive has files below the prefix, which can be empty. The store's own retries are the only retries of its
    /// calls.
    ///
    /// [`with_fsync(true)`]: object_store::local::LocalFileSystem::with_fsync
    // proof: archive_files::store::a_store_that_fails_changes_nothing
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn builder<A: Send + Sync>(
        collection: Collection<A>,
        store: Arc<dyn ObjectStore>,
        prefix: impl Into<Path>,
    ) -> FileArchiveBuilder<D> {
        FileArchiveBuilder::over(collection.clone_with_type(), store, prefix.into())
    }
}

impl<D> FileArchiveBuilder<D> {
    /// Checks the settings and returns the archive. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) in these cases:
    ///
    /// - A required setting is missing.
    /// - The age field is `_id` or no plain name.
    /// - The filter of documents to keep is empty, so that nothing would be archived.
    pub fn build(self) -> Result<FileArchive<D>> {
        let limit = AgeLimit::new(self.age, self.older_than, self.keep)?;
        Ok(FileArchive::of(Shared {
            lanes: Lanes::new(&self.current),
            records: catalog_of(&self.current, Some(WriteConcern::majority())),
            current: confirmed_by_majority(&self.current),
            store: Store {
                files: self.store,
                prefix: self.prefix,
            },
            limit,
            retry: self.retry,
            max_time: self.max_time,
        }))
    }
}

/// A deletion that the cluster rolls back would leave documents in the collection and in a file.
fn confirmed_by_majority(collection: &Collection<RawDocumentBuf>) -> Collection<RawDocumentBuf> {
    let options = CollectionOptions::builder()
        .selection_criteria(collection.selection_criteria().cloned())
        .read_concern(collection.read_concern().cloned())
        .write_concern(WriteConcern::majority())
        .build();
    let database = collection.client().database(&collection.namespace().db);
    database.collection_with_options(collection.name(), options)
}
