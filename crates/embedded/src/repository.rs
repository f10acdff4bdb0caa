use mongo_patterns_core::catalog::Owned;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Ensure, Managed};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{Repository, Result, Validator, document_id};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::query::validator::validator;
use crate::settings::Settings;

mongo_patterns_core::repository! {
    /// A repository of parents, each with its children in an array.
    ///
    /// `P` is the type of a parent with its array, `C` the type of a child. A clone is cheap, and shares everything. The
    /// [crate documentation](crate) has the stored documents and the guarantees.
    pub struct EmbeddedRepository<P, C>;
    "embedded": |shared| shared.collection, max_time: shared.settings.max_time, "settings" = shared.settings
}

/// The part that does not depend on the types of parent and child.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    lanes: Lanes,
}

impl Shared {
    /// Sends the commands of a write in the lane of its parent, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, parent: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::canonical(parent)).await
    }

    /// Returns what checks the collection, stores the entry, and shards the collection.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (call, settings) = (self.operation("ensure_indexes"), &self.settings);
        let parents = Managed::by_id(&self.collection);
        Ensure::new(
            call,
            Some(settings.children.as_str()),
            settings.stored_form(),
            vec![parents],
        )
        .owns(vec![
            Owned::parents(&self.collection),
            Owned::field(&self.collection, settings.children.as_str(), "children_field").shared_as("children"),
        ])
    }
}

impl<P, C> EmbeddedRepository<P, C> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        Self::of(Shared {
            lanes: Lanes::new(&collection),
            collection,
            settings,
        })
    }

    /// Returns the most children that a parent may have.
    pub fn max_children(&self) -> u32 {
        self.shared.settings.max_children
    }
}

impl<P: Send + Sync, C> EmbeddedRepository<P, C> {
    /// Returns the collection, for what this crate does not do, such as to count, update or delete parents.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let of_boston = patrons.collection().count_documents(doc! { "addresses.city": "Boston" }).await?;
    /// patrons.collection().update_one(doc! { "_id": "joe" }, doc! { "$set": { "name": "Joe Reader" } }).await?;
    /// patrons.collection().delete_one(doc! { "_id": "joe" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<P> {
        self.shared.collection.clone_with_type()
    }
}

/// The pattern needs no index, because every call finds its parent by `_id`. To find parents by a field of their children,
/// create one of your own, such as `{ "addresses.zip": 1 }`.
///
/// The validator is a `$jsonSchema` for the form of a parent, with `max_children` as `maxItems`, and an `$expr` that no two
/// children have the same id. Set it after a [migration](Self::migrate_from_references), because parents without the array
/// violate it.
impl<P, C> Repository for EmbeddedRepository<P, C> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let document = validator(&self.shared.settings);
        vec![Validator::new(self.shared.collection.namespace(), document)]
    }
}
