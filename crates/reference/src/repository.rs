//! The repository, and what its actions share.

use std::sync::Arc;

use mongo_patterns_core::catalog::{Others, Owned};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::follow::with_majority;
use mongo_patterns_core::index::{Checks, Ensure, Managed};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::send::IsRouter;
use mongo_patterns_core::{Repository, Result, Validator, document_id};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::form::document::Encoded;
use crate::query::validator;
use crate::settings::{ReferenceField, Settings};

mongo_patterns_core::repository! {
    /// A collection of documents with copies of fields of the documents that they refer to, and the collection of these
    /// sources.
    ///
    /// `D` is the type of a referring document, such as an order, and `S` the type of a source, such as a customer. A clone
    /// is cheap. See the [crate](crate) for the stored documents and the guarantees.
    pub struct ReferenceRepository<D, S>;
    "reference": |shared| shared.documents(), max_time: shared.settings.max_time,
        "sources_collection" = shared.sources.namespace(), "settings" = shared.settings
}

/// The part of a repository that does not depend on the types of the documents.
pub(crate) struct Shared {
    /// The first is the collection of the repository's documents.
    pub(crate) referring: Vec<Collection<RawDocumentBuf>>,
    pub(crate) sources: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    lanes: Lanes,
    checks: Checks,
    pub(crate) is_router: IsRouter,
}

impl Shared {
    /// Returns the collection of the documents that the repository inserts and reads.
    pub(crate) fn documents(&self) -> &Collection<RawDocumentBuf> {
        &self.referring[0]
    }

    pub(crate) fn collection_of(&self, field: &ReferenceField) -> &Collection<RawDocumentBuf> {
        &self.referring[field.collection]
    }

    /// Returns what creates the indexes and the entry, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let of_referring = |(number, collection): (usize, &Collection<RawDocumentBuf>)| {
            Managed::by_id(collection)
                .limit("An update of the copies of a source is sent to all shards, because documents with references to one source are on any of them.")
                .indexes(self.settings.indexes(number))
        };
        let mut collections: Vec<Managed> = self.referring.iter().enumerate().map(of_referring).collect();
        let sources = Managed::by_id(&self.sources).indexes(self.settings.source_indexes());
        collections.push(match self.settings.key {
            None => sources,
            Some(_) => sources.not_sharded().limit(
                "Sources with a source key are not sharded, because its index could not be unique in all shards.",
            ),
        });
        let names: Vec<&str> = self.referring.iter().map(Collection::name).collect();
        let stored = self.settings.stored_form(self.sources.name(), &names);
        let field = self.settings.references[0].name.as_str();
        let references = self.settings.references.iter().enumerate();
        let mut owned: Vec<Owned> = references
            .map(|(number, reference)| {
                let method = if number == 0 {
                    "reference_field"
                } else {
                    "Reference::new"
                };
                Owned::field(self.collection_of(reference), reference.name.as_str(), method)
            })
            .collect();
        // Other references to the same sources use it too, and a history of the sources writes it.
        let version = Owned::field(&self.sources, self.settings.version.as_str(), "version_field").shared_as("version");
        let referring = (self.referring.len() == 1).then(|| self.documents());
        owned.push(version.with_dependents("delete_source", referring));
        // A document can be without a reference, so a sample of documents decides nothing.
        Ensure::new(self.operation("ensure_indexes"), Some(field), stored, collections)
            .owns(owned)
            .others_in(&self.sources, &self.checks)
            .fits(self)
    }

    /// Returns the same with the write concern `majority`.
    pub(crate) fn with_majority(&self) -> Self {
        Self {
            referring: self.referring.iter().map(with_majority).collect(),
            sources: with_majority(&self.sources),
            settings: self.settings.clone(),
            lanes: self.lanes.clone(),
            checks: self.checks.clone(),
            is_router: self.is_router.clone(),
        }
    }

    /// Returns reference fields, and then again the fields outside of the last collection. Otherwise a document that an
    /// archive moves from a later collection to an earlier one could be missed.
    pub(crate) fn again<'f>(
        &self,
        fields: impl Iterator<Item = &'f ReferenceField>,
        conn: &Conn<'_>,
    ) -> Vec<&'f ReferenceField> {
        let mut fields: Vec<&ReferenceField> = fields.collect();
        let collection = |field: &ReferenceField| self.collection_of(field).namespace();
        if let Some(last) = fields
            .last()
            .map(|field| collection(field))
            .filter(|_| !conn.is_in_transaction())
        {
            let again: Vec<_> = fields
                .iter()
                .copied()
                .filter(|field| collection(field) != last)
                .collect();
            fields.extend(again);
        }
        fields
    }

    /// Returns what other repositories own in the sources.
    pub(crate) async fn others(&self) -> Result<Arc<Others>> {
        self.checks.others(|| self.ensure()).await
    }

    /// Returns what other repositories own, for an update. See [`Checks::others_if_known`].
    pub(crate) async fn others_of_update(&self) -> Result<Arc<Others>> {
        self.checks.others_if_known(|| self.ensure()).await
    }

    /// Returns whether the version of the sources is the revision of a history, which alone writes it.
    pub(crate) async fn has_history(&self) -> Result<bool> {
        let others = self.others().await?;
        Ok(others.write_alone(self.settings.version.as_str()))
    }

    /// Sends the commands of a write in the lane of its document, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &lane_of_document(id)).await
    }

    /// Sends the commands of a write in the lane of its source.
    pub(crate) async fn enter_source<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &lane_of_source(id)).await
    }

    /// Sends the commands of a write in the lanes of its documents, and of the sources that it locks.
    pub(crate) async fn enter_all<'s>(
        &self,
        documents: &[Encoded],
        sources: &[Bson],
        session: Option<&'s mut ClientSession>,
    ) -> Result<Conn<'s>> {
        let documents = documents.iter().map(|document| lane_of_document(&document.id));
        let lanes = documents.chain(sources.iter().map(lane_of_source));
        Conn::enter_all(session, &self.lanes, lanes).await
    }

    /// Checks that the indexes exist: one round trip for each referring collection, once, before an update of a source.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        self.checks.indexes(|| self.ensure()).await
    }
}

fn lane_of_document(id: &Bson) -> String {
    format!("document {}", document_id::canonical(id))
}

fn lane_of_source(id: &Bson) -> String {
    format!("source {}", document_id::canonical(id))
}

impl<D, S> ReferenceRepository<D, S> {
    pub(crate) fn new(
        referring: Vec<Collection<RawDocumentBuf>>,
        sources: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        Self::of(Shared {
            lanes: Lanes::new(&sources),
            referring,
            sources,
            settings,
            checks: Checks::default(),
            is_router: IsRouter::default(),
        })
    }
}

impl<D: Send + Sync, S> ReferenceRepository<D, S> {
    /// Returns the collection of the referring documents, for reads and writes that this crate does not offer. A write to it
    /// must not change a reference.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let of_customer = doc! { "customer._id": 456 };
    /// println!("{} orders", orders.collection().count_documents(of_customer).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<D> {
        self.shared.documents().clone_with_type()
    }
}

impl<D, S: Send + Sync> ReferenceRepository<D, S> {
    /// Returns the collection of the sources, to insert and read them. Update and delete them through the repository.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let customer = doc! { "_id": 456, "name": "Ann", "address": { "city": "Dublin" } };
    /// orders.sources_collection().insert_one(customer).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sources_collection(&self) -> Collection<S> {
        self.shared.sources.clone_with_type()
    }
}

/// Where the catalog has no settings, `ensure_indexes()` refuses sources with a number in the field of the version that no
/// copy has, unless another repository copies the sources.
///
/// The validators are `$jsonSchema`s: a reference is missing, null, or a document with an `_id`, and versions are integers.
impl<D, S> Repository for ReferenceRepository<D, S> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let (referring, sources, settings) = (&self.shared.referring, &self.shared.sources, &self.shared.settings);
        let of_documents = |(number, collection): (usize, &Collection<RawDocumentBuf>)| {
            Validator::new(collection.namespace(), validator::documents(settings, number))
        };
        let of_sources = Validator::new(sources.namespace(), validator::sources(settings));
        referring
            .iter()
            .enumerate()
            .map(of_documents)
            .chain([of_sources])
            .collect()
    }
}
