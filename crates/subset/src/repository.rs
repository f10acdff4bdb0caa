pub(crate) mod version_cache;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mongo_patterns_core::Result;
use mongo_patterns_core::action::Call;
use mongo_patterns_core::index::IndexPlan;
use mongo_patterns_core::key_locks::KeyLocks;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, WriteConcern};
use tokio::sync::OnceCell;

use crate::repository::version_cache::Known;
use crate::settings::Settings;
use crate::{Consistency, SubsetRepositoryBuilder};

/// A collection of parents, each with the first few of its children, and one of all children.
///
/// `P` is the type of a parent, its subset included, and `C` that of a child as it is stored in the collection of the
/// children. A clone is cheap. See the [crate](crate) for the documents and the guarantees.
///
/// Make one for the two collections and clone it: the clones keep writes away from a transaction of theirs, on which they
/// would wait with the connections that it needs.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// products.ensure_indexes().await?;
/// let for_a_task = products.clone();
/// tokio::spawn(async move { for_a_task.rebuild(1).await });
/// # Ok(())
/// # }
/// ```
pub struct SubsetRepository<P, C> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (P, C)>,
}

/// What does not depend on the types of parent and child.
pub(crate) struct Shared {
    pub(crate) parents: Collection<RawDocumentBuf>,
    pub(crate) children: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) locks: Arc<KeyLocks>,
    pub(crate) known: Known,
    consistency: OnceCell<Consistency>,
    indexes: OnceCell<()>,
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

    /// What the user chose, or what the deployment has: one round trip, once.
    pub(crate) async fn consistency(&self) -> Result<Consistency> {
        if let Some(chosen) = self.settings.consistency {
            return Ok(chosen);
        }
        let look = || async {
            let admin = self.parents.client().database("admin");
            let hello: Document = admin.run_command(doc! { "hello": 1 }).await?;
            let has_transactions =
                hello.contains_key("setName") || hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
            Ok(if has_transactions {
                Consistency::Transactional
            } else {
                Consistency::Eventual
            })
        };
        self.consistency.get_or_try_init(look).await.copied()
    }

    /// The same, with writes to the parents that no failover rolls back. The locks are the same ones.
    pub(crate) fn with_majority(&self) -> Self {
        let options = CollectionOptions::builder().write_concern(WriteConcern::majority());
        let namespace = self.parents.namespace();
        let database = self.parents.client().database(&namespace.db);
        Self {
            parents: database.collection_with_options(&namespace.coll, options.build()),
            children: self.children.clone(),
            settings: self.settings.clone(),
            locks: Arc::clone(&self.locks),
            known: Known::default(),
            consistency: self.consistency.clone(),
            indexes: self.indexes.clone(),
        }
    }

    /// Checks that the indexes exist: one round trip, once. Without transactions a write would find out that the order
    /// has no index after it wrote the child.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        let plan = self.settings.index_plan(self.children.name());
        let check = || plan.check(&self.children);
        self.indexes.get_or_try_init(check).await.copied()
    }
}

impl<P, C> SubsetRepository<P, C> {
    /// Starts to build a repository over the collection of the parents and that of the children. Their write concerns are
    /// used, and the read preference and read concern of the parents by [`get`](Self::get), those of the children by
    /// [`child`](Self::child) and [`children`](Self::children). All else reads from the primary.
    ///
    /// Build one repository for a collection of children, and clone it. A write updates the subset of its own repository
    /// alone: with a second one over the same children, for other parents or with other settings, the writes of each make
    /// the subsets of the other stale. Run a [follower](Self::follow) of each then.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::{Direction, SubsetRepository};
    /// # use mongodb::{Database, bson::Document};
    /// # struct Product;
    /// # struct Review;
    /// # fn f(database: Database) -> mongo_patterns_core::Result<()> {
    /// let (product, review) = (database.collection::<Document>("product"), database.collection::<Document>("review"));
    /// let products = SubsetRepository::<Product, Review>::builder(product, review)
    ///     .subset_field("reviews")
    ///     .parent_field("product_id")
    ///     .child_id_field("review_id")
    ///     .order_by("published_date", Direction::Descending)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collections, as ones of another type
    pub fn builder<A: Send + Sync, B: Send + Sync>(
        parents: Collection<A>,
        children: Collection<B>,
    ) -> SubsetRepositoryBuilder<P, C> {
        SubsetRepositoryBuilder::new(parents.clone_with_type(), children.clone_with_type())
    }

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
                locks: Arc::default(),
                known: Known::default(),
                consistency: OnceCell::new(),
                indexes: OnceCell::new(),
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The collection of the parents: to insert them, and to change all but their subset and its version.
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

    /// The collection of the children, for what this crate does not do.
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

    /// How many children are embedded, at most.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # fn f(products: SubsetRepository<Document, Document>) {
    /// println!("the {} newest reviews", products.subset_size());
    /// # }
    /// ```
    pub fn subset_size(&self) -> u32 {
        self.shared.settings.size
    }

    /// The indexes of the children that the repository relies on: one on the parent and the order, and a unique one on
    /// the parent and the child's id. The parents need none but `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// println!("{}", products.indexes()); // the calls of createIndex, for a shell
    /// products.indexes().check(products.children_collection()).await?; // an error where one is missing
    /// # Ok(())
    /// # }
    /// ```
    pub fn indexes(&self) -> IndexPlan {
        let Shared { children, settings, .. } = &*self.shared;
        settings.index_plan(children.name())
    }
}

impl<P, C> Clone for SubsetRepository<P, C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            types: PhantomData,
        }
    }
}

impl<P, C> fmt::Debug for SubsetRepository<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubsetRepository")
            .field("collection", &self.shared.parents.namespace())
            .field("children_collection", &self.shared.children.namespace())
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
