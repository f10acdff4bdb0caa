//! The construction of an archive.

use std::time::Duration;

use mongo_patterns_core::RetryPolicy;
use mongo_patterns_core::settings::{check_acknowledged, configuration, required};

use crate::archive::Archive;
use crate::link::{Link, confirmed};
use crate::prelude::*;

/// Builds an [`Archive`].
#[must_use = "a builder does nothing until build() is called"]
pub struct ArchiveBuilder<D> {
    current: Raw,
    archived: Raw,
    age: Option<String>,
    older_than: Option<Duration>,
    keep: Option<Document>,
    retry: RetryPolicy,
    max_time: Option<Duration>,
    in_another_cluster: bool,
    types: PhantomData<fn() -> D>,
}

mongo_patterns_core::redacted_debug!(ArchiveBuilder<D>, |this| "collection" = this.current.namespace());
mongo_patterns_core::clone_fields!(
    ArchiveBuilder<D>,
    current,
    archived,
    age,
    older_than,
    keep,
    retry,
    max_time,
    in_another_cluster,
    types
);

impl<D> Archive<D> {
    /// Starts to build an archive of a collection in a second one, with their read preferences, read concerns and write
    /// concerns. Both are of one client, but for an archive in [another cluster](ArchiveBuilder::another_cluster). They can be
    /// in two databases.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::archive::Archive;
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let (sales, archived) = (database.collection::<Document>("sales"), database.collection::<Document>("archived_sales"));
    /// let archive = Archive::<Document>::builder(sales, archived)
    ///     .age_field("date")
    ///     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
    ///     .keep(doc! { "retentionPolicy": "permanent" })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(
        collection: Collection<A>,
        archive: Collection<B>,
    ) -> ArchiveBuilder<D> {
        ArchiveBuilder {
            current: collection.clone_with_type(),
            archived: archive.clone_with_type(),
            age: None,
            older_than: None,
            keep: None,
            retry: RetryPolicy::default(),
            max_time: None,
            in_another_cluster: false,
            types: PhantomData,
        }
    }
}

impl<D> ArchiveBuilder<D> {
    mongo_patterns_core::setters! {
        /// Sets the field with the time of a document, a date. Required. A document without it is never archived.
        age_field(name: impl Into<String>) => age = Some(name.into());

        /// Sets the age from which documents are archived, by the clock of the client. Required.
        older_than(age: Duration) => older_than = Some(age);

        /// Keeps the documents that match a filter: they are not archived, and not deleted in the archive.
        keep(filter: Document) => keep = Some(filter);

        /// Tells that the archive is in another cluster: its collection is of a client of that cluster. Both clusters are replica
        /// sets or sharded, and what is moved is confirmed by a majority, whatever the write concerns of the collections are.
        ///
        /// See [another cluster](crate#another-cluster).
        another_cluster() => in_another_cluster = true;

        /// Sets how a write retries after conflicts with other writers.
        retry(policy: RetryPolicy) => retry = policy;

        /// Bounds the time of each command of a read on the server (`maxTimeMS`), for reads that set none themselves.
        /// Without it a read takes as long as it needs.
        ///
        /// See [time limits](mongo_patterns_core::action#time-limits).
        max_time(time: Duration) => max_time = Some(time);
    }

    /// Checks the settings and returns the archive. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) when a required setting is missing, the age field is `_id` or no plain
    /// name, the filter of documents to keep is empty, so that nothing would be archived, both collections are the same, or
    /// one of them has the write concern `w: 0`, which confirms no write.
    pub fn build(self) -> Result<Archive<D>> {
        let age = FieldName::new(required(self.age, "age_field")?)?;
        if self.keep.as_ref().is_some_and(Document::is_empty) {
            return Err(configuration(
                "the filter of documents to keep is empty and matches all: leave it out",
            ));
        }
        if !self.in_another_cluster {
            check_collections(&self.current, &self.archived)?;
        }
        let settings = Settings {
            age,
            older_than: required(self.older_than, "older_than")?,
            keep: self.keep,
            retry: self.retry,
            max_time: self.max_time,
        };
        let (mut current, mut archived, mut link) = (self.current, self.archived, None);
        if self.in_another_cluster {
            (current, archived) = (confirmed(&current), confirmed(&archived));
            link = Some(Link::new(&current, &archived));
        }
        Ok(Archive::new(current, archived, settings, link))
    }
}

/// Checks the collection and the second one.
pub(crate) fn check_collections(current: &Raw, second: &Raw) -> Result<()> {
    if current.namespace() == second.namespace() {
        return Err(configuration("both collections are the same: use a second one"));
    }
    check_acknowledged(current)?;
    check_acknowledged(second)
}
