//! The repository, and what its actions share.

pub(crate) mod refreshes;
pub(crate) mod version_cache;

use std::sync::Arc;

use mongo_patterns_core::action::Call;
use mongo_patterns_core::batching::Queues;
use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::follow::with_majority;
use mongo_patterns_core::hints::HintCache;
use mongo_patterns_core::index::{Ensure, IndexPlan};
use mongo_patterns_core::key_locks::KeyLocks;
use tokio::sync::{OnceCell, RwLockReadGuard};

use self::refreshes::Refreshes;
use self::version_cache::VersionCache;
use crate::prelude::*;
use crate::query;
use crate::settings::Consistency;

/// A collection of parents, which embed the first of their children, and a collection of all children.
///
/// `P` is the type of a parent with its subset, and `C` the type of a child as its collection stores it. See the
/// [crate](crate) for the documents and the guarantees.
///
/// A clone is cheap. Build one repository for the two collections and clone it: the clones share the refreshes
/// of a parent, and the per-key locks, which keep their single writes from waiting on the server for their transactions.
pub struct SubsetRepository<P, C> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (P, C)>,
}

/// The part of a repository that does not depend on the types of parent and child.
pub(crate) struct Shared {
    pub(crate) parents: Collection<RawDocumentBuf>,
    pub(crate) children: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) versions: VersionCache,
    /// The parents that this process wrote in a transaction at the first attempt. They had a version then.
    pub(crate) managed: HintCache<()>,
    pub(crate) refreshes: Refreshes,
    /// The children whose calls wait for another one that writes their parent in a transaction.
    pub(crate) inserts: Arc<Queues<WaitingInserts>>,
    locks: Arc<KeyLocks>,
    consistency: OnceCell<Consistency>,
    indexes: OnceCell<()>,
}

/// The parent of children that wait to be inserted together.
pub(crate) struct WaitingInserts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) parent: Bson,
}

/// Parents that are locked within this process.
pub(crate) enum Locked<'a> {
    Shared(#[expect(dead_code)] Vec<RwLockReadGuard<'a, ()>>),
    Exclusively(#[expect(dead_code)] LockedKeys),
}

mongo_patterns_core::redacted_debug!(
    Shared,
    |shared| "collection" = shared.parents.namespace(),
    "children_collection" = shared.children.namespace()
);

impl Shared {
    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call {
            pattern: "subset",
            operation,
            collection: &self.parents,
        }
    }

    pub(crate) fn index_plan(&self) -> IndexPlan {
        self.settings.index_plan(self.children.name())
    }

    /// Returns the entry in the catalog.
    pub(crate) fn entry(&self) -> Entry {
        let settings = self.settings.stored_form(self.children.name());
        Entry::new("subset", &self.parents, Some(self.settings.subset.as_str()), settings)
    }

    /// Returns what creates the indexes and the entry.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        Ensure {
            call: self.operation("ensure_indexes"),
            plan: self.index_plan(),
            collection: &self.children,
            other: Some(&self.parents),
            other_plan: None,
            further: Vec::new(),
            entry: self.entry(),
            fields: self.settings.fields_of_child(),
            family: None,
            needs_transactions: true,
            has_indexes: None,
        }
    }

    /// Returns the consistency that the user chose, or that the deployment supports. One round trip, once.
    pub(crate) async fn consistency(&self) -> Result<Consistency> {
        if let Some(chosen) = self.settings.consistency {
            return Ok(chosen);
        }
        let detect = || async {
            Ok(match is_replicated(&self.hello().await?) {
                true => Consistency::Transactional,
                false => Consistency::Eventual,
            })
        };
        self.consistency.get_or_try_init(detect).await.copied()
    }

    pub(crate) async fn hello(&self) -> Result<Document> {
        let admin = self.parents.client().database("admin");
        Ok(send::run_read(&admin, query::hello()).await?)
    }

    /// Checks that the indexes exist: one round trip, once. Without this check, a write without a transaction would
    /// store its child before it fails on the missing index of the order.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        self.check_indexes_in(&mut Steps::run()).await
    }

    /// Does what [`check_indexes`](Self::check_indexes) does, as a step of a run. A plan only lists it.
    pub(crate) async fn check_indexes_in(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        let plan = self.index_plan();
        if steps.is_plan() {
            return plan.check_in(steps, &self.children).await;
        }
        let check = || plan.check(&self.children);
        self.indexes.get_or_try_init(check).await.copied()
    }

    /// Locks parents within this process for an insert without a transaction. Without a total and computed fields, inserts share the
    /// lock:
    /// see [`refreshes`]. Other writes do not, because each could wait on the server for a child that a transaction has
    /// locked, with a connection that the transaction may need.
    pub(crate) async fn lock_for_insert(&self, parents: &[Bson]) -> Locked<'_> {
        match self.settings.counts_children() {
            false => Locked::Shared(self.locks.shared_all(parents.iter().map(document_id::text)).await),
            true => Locked::Exclusively(self.lock_exclusively(parents).await),
        }
    }

    /// Locks a parent exclusively within this process, if it is free.
    pub(crate) fn try_lock(&self, parent: &Bson) -> Option<LockedKeys> {
        self.locks.try_exclusive(&document_id::text(parent))
    }

    /// Locks parents exclusively within this process.
    pub(crate) async fn lock_exclusively(&self, parents: &[Bson]) -> LockedKeys {
        self.locks.exclusive_all(parents.iter().map(document_id::text)).await
    }

    /// Returns the same repository with the write concern `majority` for the parents, so that no failover rolls back
    /// their writes. The locks are shared.
    pub(crate) fn with_majority(&self) -> Self {
        Self {
            parents: with_majority(&self.parents),
            children: self.children.clone(),
            settings: self.settings.clone(),
            versions: VersionCache::default(),
            managed: HintCache::default(),
            refreshes: Refreshes::default(),
            inserts: Arc::default(),
            locks: Arc::clone(&self.locks),
            consistency: self.consistency.clone(),
            indexes: self.indexes.clone(),
        }
    }
}

/// Returns whether a server is part of a replica set or a sharded cluster, by its reply to `hello`.
pub(crate) fn is_replicated(hello: &Document) -> bool {
    hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid")
}

impl<P, C> SubsetRepository<P, C> {
    pub(crate) fn new(
        parents: Collection<RawDocumentBuf>,
        children: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                parents,
                children,
                settings,
                versions: VersionCache::default(),
                managed: HintCache::default(),
                refreshes: Refreshes::default(),
                inserts: Arc::default(),
                locks: Arc::default(),
                consistency: OnceCell::new(),
                indexes: OnceCell::new(),
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The same, for a call whose work can be done by a task.
    pub(crate) fn shared_arc(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the collection of the parents: to insert them, and to change all fields but the subset, its version, the
    /// total and the computed fields.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{Document, doc, rawdoc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// products.collection().insert_one(rawdoc! { "_id": 1, "name": "Super Widget" }).await?;
    /// products.collection().update_one(doc! { "_id": 1 }, doc! { "$set": { "name": "Super Widget 2" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.parents
    }

    /// Returns the collection of the children, for reads that this crate does not offer.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let by_kristina = doc! { "review_author": "Kristina" };
    /// println!("{} reviews", products.children_collection().count_documents(by_kristina).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn children_collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.children
    }

    /// Returns the maximum number of embedded children, of the first subset.
    ///
    /// ```no_run
    /// # fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) {
    /// println!("the {} newest reviews", products.subset_size());
    /// # }
    /// ```
    pub fn subset_size(&self) -> u32 {
        self.shared.settings.size
    }

    /// Returns the indexes that the repository requires on the children: one on the parent and the order, and a unique
    /// one on the parent and the child's id. The parents need only their `_id` index.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// println!("{}", products.indexes()); // the calls of createIndex, for a shell
    /// products.indexes().check(products.children_collection()).await?; // an error if one is missing
    /// # Ok(())
    /// # }
    /// ```
    pub fn indexes(&self) -> IndexPlan {
        self.shared.index_plan()
    }
}

mongo_patterns_core::clone_fields!(SubsetRepository<P, C>, shared, types);

mongo_patterns_core::redacted_debug!(
    SubsetRepository<P, C>,
    |repository| "collection" = repository.shared.parents.namespace(),
    "children_collection" = repository.shared.children.namespace(),
    "settings" = repository.shared.settings
);

/// The names that the modules above the repository use.
pub(crate) mod prelude {
    pub(crate) use super::Shared;
    pub(crate) use crate::prelude::*;
    pub(crate) use crate::query::{self, options};
}
