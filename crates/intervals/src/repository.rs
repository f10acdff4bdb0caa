//! The repository, and what its actions share.

use std::sync::Arc;

use mongo_patterns_core::catalog::{Others, Owned};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Checks, Ensure, Managed};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{FieldName, Repository, Result, Validator, document_id};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::settings::Settings;

mongo_patterns_core::repository! {
    /// A collection in which each document has the interval of time in which it is valid.
    ///
    /// `D` is the type of a document. Build one repository for the collection and clone it, which is cheap: the clones share
    /// the [lanes](crate#lanes). See the [crate](crate) for the stored documents and the guarantees.
    pub struct IntervalRepository<D>;
    "intervals": |shared| shared.collection, max_time: shared.settings.max_time, "settings" = shared.settings
}

/// The part of a repository that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    lanes: Lanes,
    checks: Checks,
}

impl Shared {
    /// Returns what creates the indexes and the entry, and shards the collection.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (settings, call) = (&self.settings, self.operation("ensure_indexes"));
        let reason =
            "every command for a document has its id, so it reaches one shard, and every unique index starts with it";
        let managed = Managed::new(&self.collection, settings.id.as_str(), reason)
            .limit("The intervals of an id are in one chunk, which cannot be split: more data than the chunk size is a jumbo chunk, which the balancer does not move.")
            .indexes(settings.indexes());
        Ensure::new(call, None, settings.stored_form(), vec![managed])
            .fields(settings.fields())
            .owns(vec![
                Owned::documents(&self.collection, "intervals"),
                Owned::field(&self.collection, settings.from.as_str(), "valid_from_field"),
                Owned::field(&self.collection, settings.to.as_str(), "valid_to_field"),
                Owned::field(&self.collection, settings.valid.as_str(), "valid_field"),
            ])
            .others_in(&self.collection, &self.checks)
            .in_transactions()
    }

    /// Returns what other repositories own in the documents, for a replacement. See [`Checks::others`].
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

    /// Checks the deployment and the indexes: two round trips, once. Without the indexes, two documents could become valid.
    pub(crate) async fn check_write(&self) -> Result<()> {
        self.checks.topology(&self.collection).await?.check_transactions()?;
        self.checks.indexes(|| self.ensure()).await
    }

    /// Sends the commands of a write in the lane of its id, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::canonical(id)).await
    }
}

impl<D> IntervalRepository<D> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        Self::of(Shared {
            lanes: Lanes::new(&collection),
            collection,
            settings,
            checks: Checks::default(),
        })
    }
}

impl<D: Send + Sync> IntervalRepository<D> {
    /// Returns the collection, for reads that this crate does not offer, such as all valid documents.
    ///
    /// ```no_run
    /// # use mongo_patterns::intervals::IntervalRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(prices: IntervalRepository<Document>) -> mongo_patterns::Result<()> {
    /// println!("{} prices", prices.collection().count_documents(doc! { "isValid": true }).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<D> {
        self.shared.collection.clone_with_type()
    }
}

/// Where the catalog has no settings, `ensure_indexes()` refuses a collection in which no document has one of the fields: call
/// [`migrate_existing`](Self::migrate_existing). It is `Corrupt` if several documents of an id are valid, or start at one time.
///
/// The validator is a `$jsonSchema`: a document has an id, its interval, and whether it is valid.
impl<D> Repository for IntervalRepository<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let Settings {
            id, from, to, valid, ..
        } = &self.shared.settings;
        let [id, from, to, valid] = [id, from, to, valid].map(FieldName::as_str);
        let schema = doc! {
            "bsonType": "object",
            "required": [id, from, to, valid],
            "properties": {
                id: { "bsonType": document_id::TYPES.to_vec() },
                from: { "bsonType": "date" },
                to: { "bsonType": "date" },
                valid: { "bsonType": "bool" },
            },
        };
        vec![Validator::new(
            self.shared.collection.namespace(),
            doc! { "$jsonSchema": schema },
        )]
    }
}
