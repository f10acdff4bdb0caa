//! The repository, and what its calls share.

use std::sync::Arc;

use mongo_patterns_core::catalog::{Others, OwnField, OwnFields, Owned};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Checks, Ensure, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{Repository, Result, Validator, document_id};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::query;
use crate::settings::Settings;

mongo_patterns_core::repository! {
    /// A repository of documents of several versions.
    ///
    /// `D` is the type of the newest version. A clone is cheap, and shares everything. The [crate documentation](crate) has
    /// the stored documents and the guarantees.
    pub struct SchemaRepository<D>;
    "schema": |shared| shared.collection, max_time: shared.settings.max_time, "newest" = shared.settings.steps.newest()
}

/// The part that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    /// The name of the index on the version.
    pub(crate) index: String,
    lanes: Lanes,
    checks: Checks,
}

impl Shared {
    /// Sends the commands of a write in the lane of its document, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::canonical(id)).await
    }

    /// Returns what checks the collection, creates the index, stores the entry, and shards the collection.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (collection, version) = (&self.collection, self.settings.version.as_str());
        let index = PlannedIndex::new(self.index.clone(), doc! { version: 1, "_id": 1 });
        let documents = Managed::by_id(collection).indexes(vec![index]);
        let field = OwnField {
            setting: "version",
            name: version,
            is_own: query::is_version(&self.settings),
        };
        Ensure::new(
            self.operation("ensure_indexes"),
            None,
            self.settings.stored_form(),
            vec![documents],
        )
        .own(OwnFields {
            collection,
            fields: vec![field],
        })
        .owns(vec![Owned::field(collection, version, "version_field").of_content()])
        .others_in(collection, &self.checks)
    }

    /// Returns what other repositories own in the documents, for a replacement or a deletion. See [`Checks::others`].
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
}

impl<D> SchemaRepository<D> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        Self::of(Shared {
            lanes: Lanes::new(&collection),
            checks: Checks::default(),
            index: format!("{}_1__id_1", settings.version),
            collection,
            settings,
        })
    }

    /// Returns the version of the documents of the type `D`: the version after the last step.
    pub fn newest(&self) -> u32 {
        self.shared.settings.steps.newest()
    }
}

impl<D: Send + Sync> SchemaRepository<D> {
    /// Returns the collection, for reads and writes that this crate does not offer.
    ///
    /// A write by it must name the newest version in its filter, as the calls of the repository do:
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::SchemaRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(contacts: SchemaRepository<Document>) -> mongo_patterns::Result<()> {
    /// let of_ireland = doc! { "schemaVersion": contacts.newest(), "address.country": "Ireland" };
    /// contacts.collection().update_many(of_ireland, doc! { "$set": { "address.zone": "EU" } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<D> {
        self.shared.collection.clone_with_type()
    }
}

/// The index `{ schemaVersion: 1, _id: 1 }`, with the name of the version field, finds the documents to migrate.
///
/// The validator is an `$expr` that the version field is a whole number from 1, null, or missing.
impl<D> Repository for SchemaRepository<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let shared = self.shared();
        vec![Validator::new(
            shared.collection.namespace(),
            doc! { "$expr": query::is_version(&shared.settings) },
        )]
    }
}
