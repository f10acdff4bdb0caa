//! The trash, its construction, and what its calls share.

use std::collections::HashSet;
use std::time::Duration;

#[allow(unused_imports)] // the documentation links to it
use mongo_patterns_core::ErrorKind;
use mongo_patterns_core::catalog::Owned;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Checks, Ensure, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::settings::{check_acknowledged, configuration};
use mongo_patterns_core::through::Place;
use mongo_patterns_core::{DocumentId, FieldName, Repository, Result, RetryPolicy, Validator, age, document_id};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::builder::{check_collections, check_related};
use crate::entry::{DELETED_AT, EXPIRES_AT, ID, OF};
use crate::related::{Related, RelatedCollection};

/// The name of the index by which a restore finds the entries of a document.
pub(crate) const BY_DOCUMENT: &str = "document._id_1_deletedAt_-1__id_-1";
/// The name of the index in whose order the entries are listed.
pub(crate) const BY_TIME: &str = "deletedAt_1__id_1";

mongo_patterns_core::repository! {
    /// A collection whose deleted documents are kept in a second one.
    ///
    /// `D` is the type of the documents. A clone is cheap, and shares everything. The [crate documentation](crate#trash) has the
    /// stored form and the guarantees.
    pub struct Trash<D>;
    "trash": |shared| shared.current, max_time: shared.max_time, "trash" = shared.trash.namespace()
}

/// The part that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Collection<RawDocumentBuf>,
    pub(crate) trash: Collection<RawDocumentBuf>,
    pub(crate) expires_after: Option<Duration>,
    /// The collections whose documents are deleted with their document. Their second collection is the trash.
    pub(crate) related: Related,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    pub(crate) lanes: Lanes,
    pub(crate) checks: Checks,
}

impl Shared {
    /// Begins a write of a document, in its lane.
    pub(crate) async fn enter<'s>(&self, session: Option<&'s mut ClientSession>, id: &DocumentId) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::canonical(id.value())).await
    }

    /// Returns whether it has related collections.
    pub(crate) fn has_related(&self) -> bool {
        !self.related.collections.is_empty()
    }

    /// Matches the entries of documents, and not of related documents.
    pub(crate) fn of_documents(&self) -> Document {
        match self.has_related() {
            true => doc! { OF: { "$exists": false } },
            false => Document::new(),
        }
    }

    /// Refuses a deletion that would leave dependents of a document. At most one round trip.
    pub(crate) async fn check_dependents(&self) -> Result<()> {
        let others = self.checks.others(|| self.ensure()).await?;
        others.check_delete(Some(Place::Trash), |collection| self.related.has(collection))
    }

    /// Checks the indexes, once. An index of a planned name with another definition would hide entries from a read that
    /// names it.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        self.checks.indexes(|| self.ensure()).await
    }

    /// Does what [`check_indexes`](Self::check_indexes) does if there are related collections: an index finds their documents.
    pub(crate) async fn check_related_indexes(&self) -> Result<()> {
        match self.has_related() {
            true => self.check_indexes().await,
            false => Ok(()),
        }
    }

    /// Returns what checks the collections, creates the indexes, stores the entry of the catalog, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let mut settings = doc! { "trash_database": self.trash.namespace().db, "trash_collection": self.trash.name() };
        let mut indexes = vec![
            PlannedIndex::new(BY_DOCUMENT, doc! { ID: 1, DELETED_AT: -1, "_id": -1 }),
            PlannedIndex::new(BY_TIME, age::index(DELETED_AT)),
        ];
        if let Some(time) = self.expires_after {
            let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            settings.insert("expires_after_ms", time);
            let expiry = PlannedIndex::new(format!("{EXPIRES_AT}_1"), doc! { EXPIRES_AT: 1 });
            indexes.push(expiry.expiring(0));
        }
        if self.has_related() {
            let of_collection = |one: &RelatedCollection| {
                doc! { "collection": one.current.namespace().to_string(), "field": one.field.as_str() }
            };
            let related: Vec<Document> = self.related.collections.iter().map(of_collection).collect();
            settings.insert("related", related);
            indexes.push(PlannedIndex::new(format!("{OF}_1"), doc! { OF: 1 }));
        }
        let reason = "a deletion and a restore have the `_id` of the document, so they reach one shard";
        let mut collections = vec![
            Managed::new(&self.trash, ID, reason).indexes(indexes),
            Managed::by_id(&self.current),
        ];
        collections.extend(self.related.managed_related(false));
        Ensure::new(self.operation("ensure_indexes"), None, settings, collections)
            .fields(vec![("trash_collection", ID)])
            .owns(vec![Owned::collection(&self.trash)])
            .others_in(&self.current, &self.checks)
            .remembered_in(self.checks.indexes_exist())
    }
}

/// Three indexes of the trash: by document, by time, and if entries expire, a TTL index. There are no validators.
impl<D> Repository for Trash<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        Vec::new()
    }
}

mongo_patterns_core::builder! {
    /// Builds a [`Trash`].
    pub struct TrashBuilder<D> over current: Collection<RawDocumentBuf>, trash: Collection<RawDocumentBuf> {
        expires_after: Option<Duration>,
        related: Vec<(Collection<RawDocumentBuf>, String)>,
    }
    with retry, max_time;

    /// Sets the time after which the server deletes an entry, from its deletion by the clock of the client; by default
    /// never. The [catalog](mongo_patterns_core::catalog) has the time. Another time, after
    /// [`replace_settings`](mongo_patterns_core::index::EnsureIndexes::replace_settings), concerns later deletions.
    expires_after(time: Duration) => expires_after = Some(time);
}

impl<D> Trash<D> {
    /// Starts to build a trash of a collection in a second one, with their read preferences, read concerns and write
    /// concerns. Both are of one client. They can be in two databases. The second collection has only entries of this trash.
    ///
    /// Build one trash for the two collections, and clone it: calls for one document wait in the client, and not on the
    /// server.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use mongo_patterns::archive::Trash;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let (users, deleted_users) = (database.collection::<Document>("users"), database.collection::<Document>("deleted_users"));
    /// let trash = Trash::<Document>::builder(users, deleted_users)
    ///     .expires_after(Duration::from_secs(30 * 24 * 60 * 60))
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(collection: Collection<A>, trash: Collection<B>) -> TrashBuilder<D> {
        TrashBuilder::over(collection.clone_with_type(), trash.clone_with_type())
    }
}

impl<D> TrashBuilder<D> {
    /// Deletes related documents with each document, and keeps them in the trash too: documents of another collection whose
    /// field has its `_id`. Can be called for several collections.
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Trash;
    /// # use mongo_patterns::mongodb::{Database, bson::Document};
    /// # fn f(database: Database) -> mongo_patterns::Result<()> {
    /// let collection = |name| database.collection::<Document>(name);
    /// let books = Trash::<Document>::builder(collection("sales"), collection("deleted_sales"))
    ///     .related(collection("extra_sales"), "book_id")
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [related documents of a trash](crate#related-documents-of-a-trash).
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn related<A: Send + Sync>(mut self, collection: Collection<A>, field: impl Into<String>) -> Self {
        self.related.push((collection.clone_with_type(), field.into()));
        self
    }

    /// Checks the settings and returns the trash. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) in these cases:
    ///
    /// - Entries would expire at once.
    /// - Two collections are the same.
    /// - The field of a related collection is `_id` or no plain name.
    /// - A collection has the write concern `w: 0`, which confirms no write.
    pub fn build(self) -> Result<Trash<D>> {
        if self.expires_after.is_some_and(|time| time.is_zero()) {
            return Err(configuration(
                "the entries of the trash would expire at once: set a longer time, or leave it out",
            ));
        }
        check_collections(&self.current, &self.trash)?;
        let mut names = HashSet::from([self.current.namespace(), self.trash.namespace()]);
        let collections = self.related.into_iter().map(|(current, field)| {
            check_related(&mut names, &current)?;
            check_acknowledged(&current)?;
            Ok(RelatedCollection {
                current,
                archived: self.trash.clone(),
                field: FieldName::new(field)?,
            })
        });
        let related = Related {
            id: FieldName::of_element("_id".to_owned())?,
            collections: collections.collect::<Result<_>>()?,
        };
        Ok(Trash::of(Shared {
            lanes: Lanes::new(&self.current),
            current: self.current,
            trash: self.trash,
            expires_after: self.expires_after,
            related,
            retry: self.retry,
            max_time: self.max_time,
            checks: Checks::default(),
        }))
    }
}
