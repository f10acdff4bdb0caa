use std::sync::Arc;

use mongo_patterns_core::Result;
use mongo_patterns_core::action::Call;
use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::document_id;
use mongo_patterns_core::index::{Ensure, IndexPlan};
use mongo_patterns_core::lanes::Lanes;
use mongodb::ClientSession;

use crate::prelude::*;
use crate::query::validator::validator;

/// A repository of parents, each with its children in an array.
///
/// `P` is the type of a parent with its array, `C` that of a child. A clone is cheap, and shares everything. The
/// [crate documentation](crate) has the stored documents and the guarantees.
pub struct EmbeddedRepository<P, C> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (P, C)>,
}

/// The part that does not depend on the types of parent and child.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    lanes: Lanes,
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

    /// Sends the commands of a write in the lane of its parent, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, parent: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::text(parent)).await
    }

    /// Returns the entry in the catalog.
    pub(crate) fn entry(&self) -> Entry {
        let (settings, children) = (self.settings.stored_form(), self.settings.children.as_str());
        Entry::new("embedded", &self.collection, Some(children), settings)
    }

    pub(crate) fn index_plan(&self) -> IndexPlan {
        IndexPlan::new(self.collection.name(), Vec::new())
    }

    /// Returns what checks the collection and stores the entry.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        Ensure {
            call: self.operation("ensure_indexes"),
            plan: self.index_plan(),
            collection: &self.collection,
            other: None,
            other_plan: None,
            further: Vec::new(),
            entry: self.entry(),
            fields: Vec::new(),
            own: None,
            fits: None,
            family: None,
            needs_transactions: false,
            has_indexes: None,
        }
    }
}

impl<P, C> EmbeddedRepository<P, C> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                lanes: Lanes::new(&collection),
                collection,
                settings,
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the collection, for what this crate does not do: to find parents by other fields, and to update or delete
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

    /// Returns the most children that a parent may have.
    pub fn max_children(&self) -> u32 {
        self.shared.settings.max_children
    }

    /// Returns the indexes that the repository needs: none. Every call finds its parent by `_id`.
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
        self.shared.index_plan()
    }

    /// Returns a validator for the collection: a `$jsonSchema` for the form of a parent, with `max_children` as
    /// `maxItems`, and an `$expr` that no two of its children have the same id.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Database, bson::doc};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, database: Database) -> mongo_patterns_core::Result<()> {
    /// // A new collection, or an existing one:
    /// database.create_collection("patron").validator(patrons.validator()).await?;
    /// database.run_command(doc! { "collMod": "patron", "validator": patrons.validator() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Pass it to `create_collection().validator(..)` or to the command `collMod`. Then no other program can store what
    /// [`verify`](Self::verify) reports. Parents without the array, as before a
    /// [migration](Self::migrate_from_references), violate it: set it afterwards.
    pub fn validator(&self) -> Document {
        validator(&self.shared.settings)
    }
}

mongo_patterns_core::clone_fields!(EmbeddedRepository<P, C>, shared, types);

mongo_patterns_core::redacted_debug!(
    EmbeddedRepository<P, C>,
    |this| "collection" = this.shared.collection.namespace(),
    "settings" = this.shared.settings
);
