use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mongo_patterns_core::action::Call;
use mongo_patterns_core::index::IndexPlan;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use crate::settings::Settings;
use crate::{EmbeddedRepositoryBuilder, validator};

/// A collection of parents, each with its children in an array.
///
/// `P` is the parent with its array, and `C` one of the children. A clone is cheap. See the [crate](crate) for the
/// documents and the guarantees.
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let (home, work) = (doc! { "id": "home" }, doc! { "id": "work" });
/// let (by_one, by_another) = (patrons.clone(), patrons.clone()); // in tasks of their own, say
/// by_one.add_child("joe", &home).await?;
/// by_another.add_child("joe", &work).await?;
/// # Ok(())
/// # }
/// ```
pub struct EmbeddedRepository<P, C> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (P, C)>,
}

/// What does not depend on the types of parent and child.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
}

mongo_patterns_core::redacted_debug!(Shared, |shared| "collection" = shared.collection.namespace());

impl Shared {
    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call {
            pattern: "embedded",
            operation,
            collection: &self.collection,
        }
    }
}

impl<P, C> EmbeddedRepository<P, C> {
    /// Starts to build a repository over a collection. Its read preference, read concern and write concern are used.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Database, bson::Document};
    /// # struct Patron;
    /// # struct Address;
    /// # fn f(database: Database) -> mongo_patterns_core::Result<()> {
    /// let patrons = EmbeddedRepository::<Patron, Address>::builder(database.collection::<Document>("patron"))
    ///     .children_field("addresses")
    ///     .child_id_field("id")
    ///     .max_children(20)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn builder<D: Send + Sync>(collection: Collection<D>) -> EmbeddedRepositoryBuilder<P, C> {
        EmbeddedRepositoryBuilder::new(collection.clone_with_type())
    }

    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared { collection, settings }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The collection, for what this crate does not do: to find parents by other fields, to change these, to remove
    /// parents.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let of_boston = patrons.collection().count_documents(doc! { "addresses.city": "Boston" }).await?;
    /// patrons.collection().update_one(doc! { "_id": "joe" }, doc! { "$set": { "name": "Joe Reader" } }).await?;
    /// patrons.collection().delete_one(doc! { "_id": "joe" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.collection
    }

    /// How many children a parent may have.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::Document;
    /// # fn f(patrons: EmbeddedRepository<Document, Document>) {
    /// println!("up to {} addresses", patrons.max_children());
    /// # }
    /// ```
    pub fn max_children(&self) -> u32 {
        self.shared.settings.max_children
    }

    /// The indexes that the repository relies on: none. Every call finds its parent by `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{IndexModel, bson::{Document, doc}};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// assert!(patrons.indexes().indexes().is_empty());
    /// let by_zip = IndexModel::builder().keys(doc! { "addresses.zip": 1 }).build();
    /// patrons.collection().create_index(by_zip).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// To find parents by a field of their children, create an index of your own, such as `{ "addresses.zip": 1 }`.
    pub fn indexes(&self) -> IndexPlan {
        IndexPlan::new(self.shared.collection.name(), Vec::new())
    }

    /// A validator for the collection: a `$jsonSchema` for the form of a parent, with its bound as `maxItems`, and an
    /// `$expr` that no two of its children have the same id.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Database, bson::doc};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, database: Database) -> mongo_patterns_core::Result<()> {
    /// // A new collection, or one that is there.
    /// database.create_collection("patron").validator(patrons.validator()).await?;
    /// database.run_command(doc! { "collMod": "patron", "validator": patrons.validator() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is for `create_collection().validator(..)` or the command `collMod`. With it, no other program can store what
    /// [`verify`](Self::verify) would find fault with. Parents without the array, as before a
    /// [move](Self::migrate_from_references), break it: set it afterwards.
    pub fn validator(&self) -> Document {
        validator::validator(&self.shared.settings)
    }
}

impl<P, C> Clone for EmbeddedRepository<P, C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            types: PhantomData,
        }
    }
}

impl<P, C> fmt::Debug for EmbeddedRepository<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedRepository")
            .field("collection", &self.shared.collection.namespace())
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
