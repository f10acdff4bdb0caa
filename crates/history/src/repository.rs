//! The repository, and what its actions share.

use std::sync::Arc;

use mongo_patterns_core::action::Call;
use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::follow::with_majority;
use mongo_patterns_core::index::{Ensure, FindDuplicates, IndexPlan};
use mongo_patterns_core::lanes::{Joined, Lanes};
use mongo_patterns_core::topology::Topology;
use mongodb::ClientSession;
use tokio::sync::OnceCell;

use crate::prelude::*;

/// A collection of current documents, and a collection of all of their revisions.
///
/// `D` is the type of a document. See the [crate](crate) for the stored documents and the guarantees.
///
/// A clone is cheap. Build one repository for the two collections and clone it: the clones share the
/// [lanes](crate#lanes) of the documents.
pub struct HistoryRepository<D> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> D>,
}

/// The part of a repository that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Collection<RawDocumentBuf>,
    pub(crate) revisions: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    lanes: Lanes,
    /// The changes of calls that wait for the lane of their document.
    pub(crate) changes: Arc<Joined<Changes>>,
    topology: OnceCell<Topology>,
    indexes: OnceCell<()>,
}

/// The document of changes whose calls wait.
pub(crate) struct Changes {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: Bson,
}

mongo_patterns_core::redacted_debug!(
    Shared,
    |shared| "collection" = shared.current.namespace(),
    "revisions_collection" = shared.revisions.namespace()
);

impl Shared {
    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call {
            pattern: "history",
            operation,
            collection: &self.current,
        }
    }

    /// Returns the entry in the catalog.
    pub(crate) fn entry(&self) -> Entry {
        let settings = self.settings.stored_form(self.revisions.name());
        Entry::new("history", &self.current, None, settings)
    }

    pub(crate) fn current_plan(&self) -> IndexPlan {
        self.settings.current_plan(self.current.name())
    }

    pub(crate) fn revisions_plan(&self) -> IndexPlan {
        self.settings.revisions_plan(self.revisions.name())
    }

    /// Returns what creates the indexes and the entry.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        Ensure {
            call: self.operation("ensure_indexes"),
            plan: self.revisions_plan(),
            collection: &self.revisions,
            other: Some(&self.current),
            other_plan: Some(self.current_plan()),
            further: Vec::new(),
            entry: self.entry(),
            fields: self.settings.fields_of_revision(),
            own: None,
            fits: None,
            family: None,
            needs_transactions: true,
            has_indexes: None,
        }
    }

    /// Returns what the deployment is. One round trip, once.
    pub(crate) async fn topology(&self) -> Result<Topology> {
        let topology = self.topology.get_or_try_init(|| Topology::read(&self.current));
        topology.await.copied()
    }

    /// Checks that the deployment has transactions, and does what [`check_indexes`](Self::check_indexes) does.
    pub(crate) async fn check_write(&self) -> Result<()> {
        self.topology().await?.check_transactions()?;
        self.check_indexes().await
    }

    /// Checks that the indexes exist, and detects the deployment: three round trips, once. Without the unique indexes, a write
    /// could store a revision twice.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        let check = || async {
            self.topology().await?;
            self.current_plan().check(&self.current).await?;
            self.revisions_plan().check(&self.revisions).await
        };
        self.indexes.get_or_try_init(check).await.copied()
    }

    /// Does what [`check_indexes`](Self::check_indexes) does. Returns a search for the documents that violate a missing index.
    pub(crate) async fn find_duplicates(&self) -> Result<Option<FindDuplicates<'_>>> {
        match self.check_indexes().await {
            Err(error) if error.kind() == ErrorKind::IndexMissing => {
                let current = (&self.current, self.current_plan());
                FindDuplicates::of(vec![current, (&self.revisions, self.revisions_plan())]).await
            }
            checked => checked.map(|()| None),
        }
    }

    /// Returns the same with the write concern `majority`.
    pub(crate) fn with_majority(&self) -> Self {
        Self {
            current: with_majority(&self.current),
            revisions: with_majority(&self.revisions),
            settings: self.settings.clone(),
            lanes: self.lanes.clone(),
            changes: Arc::new(Joined::new(self.lanes.clone())),
            topology: self.topology.clone(),
            indexes: self.indexes.clone(),
        }
    }

    /// Sends the commands of a write in the lane of its document, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::text(id)).await
    }
}

impl<D> HistoryRepository<D> {
    pub(crate) fn new(
        current: Collection<RawDocumentBuf>,
        revisions: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        let lanes = Lanes::new(&current);
        Self {
            shared: Arc::new(Shared {
                changes: Arc::new(Joined::new(lanes.clone())),
                lanes,
                current,
                revisions,
                settings,
                topology: OnceCell::new(),
                indexes: OnceCell::new(),
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the collection of the current documents, for reads that this crate does not offer. A write to it is not
    /// recorded before the next write of the repository to the same document.
    ///
    /// ```no_run
    /// # use mongo_patterns_history::HistoryRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns_core::Result<()> {
    /// let of_michelle = doc! { "customerName": "Michelle" };
    /// println!("{} policies", policies.collection().count_documents(of_michelle).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.current
    }

    /// Returns the collection of the revisions, for reads that this crate does not offer.
    ///
    /// ```no_run
    /// # use mongo_patterns_history::HistoryRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns_core::Result<()> {
    /// println!("{} revisions of all policies", policies.revisions_collection().estimated_document_count().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn revisions_collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.revisions
    }

    /// Returns the indexes that the repository requires: those of the current documents, and those of the revisions.
    ///
    /// ```no_run
    /// # use mongo_patterns_history::HistoryRepository;
    /// # async fn f(policies: HistoryRepository<i32>) -> mongo_patterns_core::Result<()> {
    /// let [current, revisions] = policies.indexes();
    /// println!("{current}\n{revisions}"); // the calls of createIndex, for a shell
    /// revisions.check(policies.revisions_collection()).await?; // an error if one is missing
    /// # Ok(())
    /// # }
    /// ```
    pub fn indexes(&self) -> [IndexPlan; 2] {
        [self.shared.current_plan(), self.shared.revisions_plan()]
    }
}

mongo_patterns_core::clone_fields!(HistoryRepository<D>, shared, types);

mongo_patterns_core::redacted_debug!(
    HistoryRepository<D>,
    |repository| "collection" = repository.shared.current.namespace(),
    "revisions_collection" = repository.shared.revisions.namespace(),
    "settings" = repository.shared.settings
);

/// The names that the modules above the repository use.
pub(crate) mod prelude {
    pub(crate) use super::Shared;
    pub(crate) use crate::prelude::*;
    pub(crate) use crate::query::{self, options};
}
