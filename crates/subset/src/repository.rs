//! The repository, and what its actions share.

use std::sync::Arc;

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::follow::with_majority;
use mongo_patterns_core::hints::HintCache;
use mongo_patterns_core::index::{Checks, Ensure, FindDuplicates, Managed};
use mongo_patterns_core::lanes::{Joined, Lanes};
use mongo_patterns_core::{Repository, Result, Validator, document_id};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::query::validator;
use crate::settings::Settings;

mongo_patterns_core::repository! {
    /// A collection of parents, which embed the first of their children, and a collection of all children.
    ///
    /// `P` is the type of a parent with its subset, and `C` the type of a child as its collection stores it. Build one
    /// repository for the two collections and clone it, which is cheap: the clones share the [lanes](crate#lanes) of the
    /// parents. See the [crate](crate) for the documents and the guarantees.
    pub struct SubsetRepository<P, C>;
    "subset": |shared| shared.parents, max_time: shared.settings.max_time,
        "children_collection" = shared.children.namespace(), "settings" = shared.settings
}

/// The part of a repository that does not depend on the types of parent and child.
pub(crate) struct Shared {
    pub(crate) parents: Collection<RawDocumentBuf>,
    pub(crate) children: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    /// The parents that this process wrote at the first attempt. They had a version then.
    pub(crate) managed: HintCache<()>,
    /// The children whose calls wait for another call that writes their parent.
    pub(crate) inserts: Arc<Joined<WaitingInserts>>,
    lanes: Lanes,
    checks: Checks,
    /// The checks of the parents. Only the fields of others are used.
    checks_of_parents: Checks,
}

/// The parent of children that wait to be inserted together.
pub(crate) struct WaitingInserts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) parent: Bson,
}

impl Shared {
    /// Returns what creates the indexes and the entry, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let settings = &self.settings;
        let (parent, child_id) = (settings.parent.as_str(), settings.child_id.as_str());
        let reason = "every command for the children of a parent has the parent, so it reaches one shard, and every unique index starts with it";
        let children = Managed::new(&self.children, parent, reason)
            .or(doc! { parent: 1, child_id: 1 })
            .limit("With the parent alone, the children of a parent are in one chunk, which cannot be split: children with more data than the chunk size are a jumbo chunk, which the balancer does not move.")
            .limit("With the child id in the key, the children of a parent can be on several shards: their reads are sent to all of them, and are not of one moment outside a transaction.")
            .limit("A child id that is the `_id` of the child is unique among the children of its parent, and not in the collection.")
            .indexes(settings.indexes());
        let (call, stored) = (
            self.operation("ensure_indexes"),
            settings.stored_form(self.children.name()),
        );
        let collections = vec![children, Managed::by_id(&self.parents)];
        Ensure::new(call, Some(settings.first().field.as_str()), stored, collections)
            .fields(settings.fields_of_child())
            .own(settings.own_fields(&self.parents))
            .others_in(&self.children, &self.checks)
            .others_in(&self.parents, &self.checks_of_parents)
            .owns(settings.owned(&self.parents, &self.children))
    }

    /// Returns what other repositories own in the children, for a replacement. See [`Checks::others`].
    pub(crate) async fn others(&self) -> Result<Arc<Others>> {
        self.checks.others(|| self.ensure()).await
    }

    /// Returns what other repositories own in the parents, for a deletion.
    pub(crate) async fn others_of_parents(&self) -> Result<Arc<Others>> {
        self.checks_of_parents.others(|| self.ensure()).await
    }

    /// Checks once that the indexes exist. An insert would not notice that the unique index of the child ids is missing.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        self.checks.indexes(|| self.ensure()).await
    }

    /// Does what [`check_indexes`](Self::check_indexes) does, as a step of a run. A plan only lists it.
    pub(crate) async fn check_indexes_in(&self, conn: &mut Conn<'_>) -> Result<()> {
        self.checks.indexes_in(|| self.ensure(), conn).await
    }

    /// Does what [`check_indexes`](Self::check_indexes) does. Returns a search for the children that violate a missing index.
    pub(crate) async fn find_duplicates(&self) -> Result<Option<FindDuplicates>> {
        self.ensure().find_duplicates(self.check_indexes().await).await
    }

    /// Sends the commands of a write in the lanes of its parents, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, parents: &[Bson], session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter_all(session, &self.lanes, parents.iter().map(document_id::canonical)).await
    }

    /// Returns the same repository with the write concern `majority` for the parents, so that no failover rolls back their
    /// writes.
    pub(crate) fn with_majority(&self) -> Self {
        Self {
            parents: with_majority(&self.parents),
            children: self.children.clone(),
            settings: self.settings.clone(),
            managed: HintCache::default(),
            inserts: Arc::new(Joined::new(self.lanes.clone())),
            lanes: self.lanes.clone(),
            checks: self.checks.clone(),
            checks_of_parents: self.checks_of_parents.clone(),
        }
    }
}

impl<P, C> SubsetRepository<P, C> {
    pub(crate) fn new(
        parents: Collection<RawDocumentBuf>,
        children: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        let lanes = Lanes::new(&parents);
        Self::of(Shared {
            parents,
            children,
            settings,
            managed: HintCache::default(),
            inserts: Arc::new(Joined::new(lanes.clone())),
            lanes,
            checks: Checks::default(),
            checks_of_parents: Checks::default(),
        })
    }

    /// Returns the maximum number of embedded children, of the first subset.
    ///
    /// ```no_run
    /// # fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) {
    /// println!("the {} newest reviews", products.subset_size());
    /// # }
    /// ```
    pub fn subset_size(&self) -> u32 {
        self.shared.settings.first().size
    }
}

impl<P: Send + Sync, C: Send + Sync> SubsetRepository<P, C> {
    /// Returns the collection of the parents: to insert them, and to change all fields except the subset, its version, the
    /// total and the figures.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// products.collection().insert_one(doc! { "_id": 1, "name": "Super Widget" }).await?;
    /// products.collection().update_one(doc! { "_id": 1 }, doc! { "$set": { "name": "Super Widget 2" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<P> {
        self.shared.parents.clone_with_type()
    }

    /// Returns the collection of the children, for reads that this crate does not offer.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let by_kristina = doc! { "review_author": "Kristina" };
    /// println!("{} reviews", products.children_collection().count_documents(by_kristina).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn children_collection(&self) -> Collection<C> {
        self.shared.children.clone_with_type()
    }
}

/// Where the catalog has no settings, `ensure_indexes()` refuses collections in which no child has one of the fields. It
/// refuses a parent with another value than a number in the field of the version or the total. It is `Corrupt` if two stored
/// children of one parent have the same id.
///
/// The validators are `$jsonSchema`s: no subset has more children than its size, children have the id of a parent and their
/// own, and a field of an order is not an array. Set them after a [migration](Self::migrate_from_embedded), because parents
/// that embed all of their children violate them.
impl<P, C> Repository for SubsetRepository<P, C> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let (parents, children, settings) = (&self.shared.parents, &self.shared.children, &self.shared.settings);
        vec![
            Validator::new(parents.namespace(), validator::parents(settings)),
            Validator::new(children.namespace(), validator::children(settings)),
        ]
    }
}
