//! The repository, and what its actions share.

use std::sync::Arc;

use mongo_patterns_core::catalog::{Others, Owned};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::follow::with_majority;
use mongo_patterns_core::index::{Checks, Ensure, FindDuplicates, Managed};
use mongo_patterns_core::lanes::{Joined, Lanes};
use mongo_patterns_core::topology::Topology;
use mongo_patterns_core::{Repository, Result, Validator, document_id};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::query::validator::{of_current, of_revisions};
use crate::settings::Settings;

mongo_patterns_core::repository! {
    /// A collection of current documents, and a collection of all of their revisions.
    ///
    /// `D` is the type of a document. Build one repository for the two collections and clone it, which is cheap: the clones
    /// share the [lanes](crate#lanes) of the documents. See the [crate](crate) for the stored documents and the guarantees.
    pub struct HistoryRepository<D>;
    "history": |shared| shared.current, max_time: shared.settings.max_time,
        "revisions_collection" = shared.revisions.namespace(), "settings" = shared.settings
}

/// The part of a repository that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Collection<RawDocumentBuf>,
    pub(crate) revisions: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    lanes: Lanes,
    /// The changes of calls that wait for the lane of their document.
    pub(crate) changes: Arc<Joined<ChangesOfDocument>>,
    checks: Checks,
}

/// The document of changes whose calls wait.
pub(crate) struct ChangesOfDocument {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: Bson,
}

impl Shared {
    /// Returns what creates the indexes and the entry, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let settings = &self.settings;
        let (id, revision) = (settings.document_id.as_str(), settings.revision.as_str());
        let reason =
            "every command for a document has its id, so it reaches one shard, and every unique index starts with it";
        let revisions = Managed::new(&self.revisions, id, reason)
            .or(doc! { id: 1, revision: 1 })
            .limit("With the id alone, the revisions of a document are in one chunk, which cannot be split: a history with more data than the chunk size is a jumbo chunk, which the balancer does not move.")
            .limit("With the revision in the key, a read by time is sent to all shards that have revisions of the document.")
            .indexes(settings.revisions_indexes());
        let current = match settings.is_by_id() {
            true => Managed::by_id(&self.current),
            false => Managed::new(&self.current, id, reason),
        };
        let current = current
            .limit("Any other unique index of the collection must start with the id.")
            .indexes(settings.current_indexes());
        let (call, stored) = (
            self.operation("ensure_indexes"),
            settings.stored_form(self.revisions.name()),
        );
        // A source of references with a history has the revision as its version.
        let mut owned = vec![
            Owned::parents(&self.current).with_dependents("delete", Some(&self.revisions)),
            Owned::field(&self.current, revision, "revision_field")
                .shared_as("version")
                .written_alone(),
            Owned::field(&self.current, settings.time.as_str(), "time_field"),
            Owned::collection(&self.revisions),
            Owned::documents(&self.revisions, "revisions"),
        ];
        owned.extend(
            settings
                .change_fields()
                .map(|field| Owned::field(&self.current, field, "change_fields")),
        );
        Ensure::new(call, None, stored, vec![revisions, current])
            .fields(settings.fields_of_revision())
            .owns(owned)
            .others_in(&self.current, &self.checks)
    }

    /// Returns what the deployment is. One round trip, once.
    pub(crate) async fn topology(&self) -> Result<Topology> {
        self.checks.topology(&self.current).await
    }

    /// Checks that the deployment has transactions, and does what [`check_indexes`](Self::check_indexes) does.
    pub(crate) async fn check_write(&self) -> Result<()> {
        self.topology().await?.check_transactions()?;
        self.check_indexes().await
    }

    /// Checks that the indexes exist, and detects the deployment: three round trips, once.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        self.topology().await?;
        self.checks.indexes(|| self.ensure()).await
    }

    /// Returns what other repositories own in the current documents, for a change that [concerns
    /// them](crate::query::change::Change::concerns_others). See [`Checks::others`].
    pub(crate) async fn others(&self) -> Result<Arc<Others>> {
        self.checks.others(|| self.ensure()).await
    }

    /// Returns what other repositories own, for an update. See [`Checks::others_if_known`].
    pub(crate) async fn others_of_update(&self) -> Result<Arc<Others>> {
        self.checks.others_if_known(|| self.ensure()).await
    }

    /// Returns what [`others`](Self::others) returned last.
    pub(crate) fn known_others(&self) -> Arc<Others> {
        self.checks.known_others()
    }

    /// Does what [`check_indexes`](Self::check_indexes) does. Returns a search for the documents that violate a missing index.
    pub(crate) async fn find_duplicates(&self) -> Result<Option<FindDuplicates>> {
        self.ensure().find_duplicates(self.check_indexes().await).await
    }

    /// Returns the same with the write concern `majority`.
    pub(crate) fn with_majority(&self) -> Self {
        Self {
            current: with_majority(&self.current),
            revisions: with_majority(&self.revisions),
            settings: self.settings.clone(),
            lanes: self.lanes.clone(),
            changes: Arc::new(Joined::new(self.lanes.clone())),
            checks: self.checks.clone(),
        }
    }

    /// Sends the commands of a write in the lane of its document, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::canonical(id)).await
    }

    /// Does what [`enter`](Self::enter) does, for several documents.
    pub(crate) async fn enter_all<'s>(&self, ids: &[Bson], session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter_all(session, &self.lanes, ids.iter().map(document_id::canonical)).await
    }
}

impl<D> HistoryRepository<D> {
    pub(crate) fn new(
        current: Collection<RawDocumentBuf>,
        revisions: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        let lanes = Lanes::new(&current);
        Self::of(Shared {
            changes: Arc::new(Joined::new(lanes.clone())),
            lanes,
            current,
            revisions,
            settings,
            checks: Checks::default(),
        })
    }

    /// Returns the collection of the revisions, for reads that this crate does not offer.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// println!("{} revisions of all policies", policies.revisions_collection().estimated_document_count().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn revisions_collection(&self) -> Collection<Document> {
        self.shared.revisions.clone_with_type()
    }
}

impl<D: Send + Sync> HistoryRepository<D> {
    /// Returns the collection of the current documents, for reads that this crate does not offer. A write to it is not
    /// recorded before the next write of the repository.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// let of_michelle = doc! { "customerName": "Michelle" };
    /// println!("{} policies", policies.collection().count_documents(of_michelle).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<D> {
        self.shared.current.clone_with_type()
    }
}

/// Where the catalog has no settings, `ensure_indexes()` refuses collections in which no revision has one of the fields. It
/// is `Corrupt` if two stored documents have the same id, or two revisions of one document the same number.
///
/// The validators are `$jsonSchema`s: a document and a revision have an id, a number and a time. Set no validator for the
/// current documents if other programs write them for a [follower](Self::follow).
impl<D> Repository for HistoryRepository<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let (current, revisions, settings) = (&self.shared.current, &self.shared.revisions, &self.shared.settings);
        vec![
            Validator::new(current.namespace(), of_current(settings)),
            Validator::new(revisions.namespace(), of_revisions(settings)),
        ]
    }
}
