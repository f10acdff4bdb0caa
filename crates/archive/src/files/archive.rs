//! The archive in files, and its construction.

use std::sync::Arc;
use std::time::Duration;

use mongo_patterns_core::catalog::catalog_of;
use mongo_patterns_core::index::{Ensure, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{Repository, RetryPolicy, Validator};
use mongodb::options::{CollectionOptions, WriteConcern};

use super::store::FileStore;
use crate::builder::checked;
use crate::prelude::*;
use crate::query;

mongo_patterns_core::repository! {
    /// A collection whose old documents are in files.
    ///
    /// `D` is the type of the documents. A clone is cheap, and shares everything. The [module](super) has the form of the files and
    /// the guarantees.
    pub struct FileArchive<D>;
    "archive": |shared| shared.current, max_time: None
}

/// The part that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Raw,
    /// The catalog.
    pub(crate) records: Raw,
    pub(crate) store: Arc<dyn FileStore>,
    pub(crate) settings: Settings,
    /// In a process, one call moves at a time, also after it was dropped.
    pub(crate) lanes: Lanes,
}

impl Shared {
    /// Begins a move, when no other one of this process is on its way.
    pub(crate) async fn enter(&self) -> Result<Conn<'static>> {
        Conn::enter(None, &self.lanes, "").await
    }

    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let age = self.settings.age.as_str();
        let index = PlannedIndex::new(format!("{age}_1__id_1"), query::index(age));
        Ensure::new(
            self.operation("ensure_indexes"),
            None,
            doc! { "age": age, "files": true },
            vec![Managed::by_id(&self.current).indexes(vec![index])],
        )
        .fields(vec![("age", age)])
        .in_transactions()
    }
}

impl<D> FileArchive<D> {
    /// Starts to build an archive of a collection in files. Whatever its write concern is, what the calls of the archive change in it
    /// is confirmed by a majority.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::archive::files::{Directory, FileArchive};
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let sales = database.collection::<Document>("sales");
    /// let archive = FileArchive::<Document>::builder(sales, Directory::new("/mnt/archive/sales"))
    ///     .age_field("date")
    ///     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
    ///     .keep(doc! { "retentionPolicy": "permanent" })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn builder<A: Send + Sync>(collection: Collection<A>, store: impl FileStore) -> FileArchiveBuilder<D> {
        FileArchiveBuilder::over(collection.clone_with_type(), Arc::new(store))
    }
}

impl<D: Send + Sync> FileArchive<D> {
    /// Returns the collection of the documents that are not archived, for all calls of a service.
    pub fn collection(&self) -> Collection<D> {
        self.shared.current.clone_with_type()
    }
}

/// The index `{ date: 1, _id: 1 }`, with the name of the age field, finds documents by their age.
///
/// There are no validators: the documents are those of the application.
impl<D> Repository for FileArchive<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        Vec::new()
    }
}

mongo_patterns_core::builder! {
    /// Builds a [`FileArchive`].
    pub struct FileArchiveBuilder<D> over current: Raw, store: Arc<dyn FileStore> {
        age: Option<String>,
        older_than: Option<Duration>,
        keep: Option<Document>,
        retry: RetryPolicy,
    }

    /// Sets the field with the time of a document, a date. Required. A document without it is never archived.
    age_field(name: impl Into<String>) => age = Some(name.into());

    /// Sets the age from which documents are archived, by the clock of the client. Required.
    older_than(age: Duration) => older_than = Some(age);

    /// Keeps the documents that match a filter: they are not archived.
    keep(filter: Document) => keep = Some(filter);

    /// Sets how a write retries after conflicts with other writers.
    retry(policy: RetryPolicy) => retry = policy;
}

impl<D> FileArchiveBuilder<D> {
    /// Checks the settings and returns the archive. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) when a required setting is missing, the age field is `_id` or no plain
    /// name, or the filter of documents to keep is empty, so that nothing would be archived.
    pub fn build(self) -> Result<FileArchive<D>> {
        let settings = checked(self.age, self.older_than, self.keep, self.retry, None)?;
        Ok(FileArchive::of(Shared {
            lanes: Lanes::new(&self.current),
            records: catalog_of(&self.current, Some(WriteConcern::majority())),
            current: confirmed(&self.current),
            store: self.store,
            settings,
        }))
    }
}

/// Returns the collection with confirmed writes, because the files and the records must last as long as what they say of it.
fn confirmed(collection: &Raw) -> Raw {
    let options = CollectionOptions::builder()
        .selection_criteria(collection.selection_criteria().cloned())
        .read_concern(collection.read_concern().cloned())
        .write_concern(WriteConcern::majority())
        .build();
    let database = collection.client().database(&collection.namespace().db);
    database.collection_with_options(collection.name(), options)
}
