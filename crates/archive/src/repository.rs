//! The archive, and what its calls share.

use std::time::Duration;

use futures::future::BoxFuture;
use mongo_patterns_core::age::{self, AgeLimit};
use mongo_patterns_core::catalog::Owned;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Checks, Ensure, Fits, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::stored::decode;
use mongo_patterns_core::{FieldName, Repository, Result, RetryPolicy, Validator};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use serde::de::DeserializeOwned;

use crate::related::Related;
use crate::results::{Found, NOT_DECODED};
use crate::transfer::Transfer;

mongo_patterns_core::repository! {
    /// A collection whose old documents are in a second one.
    ///
    /// `D` is the type of the documents. A clone is cheap, and shares everything. The [crate documentation](crate) has the
    /// stored documents and the guarantees.
    pub struct Archive<D>;
    "archive": |shared| shared.current, max_time: shared.max_time, "archive" = shared.archived.namespace()
}

/// The part that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Collection<RawDocumentBuf>,
    pub(crate) archived: Collection<RawDocumentBuf>,
    pub(crate) limit: AgeLimit,
    /// The field of whose values the newest old document is never archived.
    pub(crate) newest_by: Option<FieldName>,
    pub(crate) related: Related,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// The lanes of the restores of one document.
    pub(crate) lanes: Lanes,
    pub(crate) checks: Checks,
}

impl Shared {
    pub(crate) fn age_field(&self) -> &str {
        self.limit.field.as_str()
    }

    /// Returns the name of the index on the age, in both collections.
    pub(crate) fn index_name(&self) -> String {
        format!("{}_1__id_1", self.age_field())
    }

    /// Returns one of the two collections.
    pub(crate) fn collection(&self, is_archived: bool) -> &Collection<RawDocumentBuf> {
        match is_archived {
            true => &self.archived,
            false => &self.current,
        }
    }

    /// Decodes a document of one of the two collections.
    pub(crate) fn decode<D: DeserializeOwned>(&self, document: &RawDocument, is_archived: bool) -> Result<Found<D>> {
        let decoded = decode(document, NOT_DECODED);
        let decoded = decoded.map_err(|error| error.of_collection(self.collection(is_archived)))?;
        Ok(Found::new(decoded, is_archived))
    }

    /// Returns what moves documents, in a direction.
    pub(crate) fn transfer<'a>(&'a self, filter: &'a Document, restores: bool) -> Transfer<'a> {
        Transfer {
            from: self.collection(restores),
            to: self.collection(!restores),
            filter,
            restores,
            replaces: false,
            newest: None,
            through: &[],
            related: &self.related,
            retry: &self.retry,
            age_field: self.age_field(),
        }
    }

    /// Checks the indexes, once. An index of a planned name with another definition would hide documents from a read that
    /// names it.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        self.checks.indexes(|| self.ensure()).await
    }

    /// Refuses documents whose parts would be left behind. At most one round trip.
    pub(crate) async fn check_parts(&self) -> Result<()> {
        let others = self.checks.others(|| self.ensure()).await?;
        others.check_move(|collection| self.related.has(collection))
    }

    /// Returns what checks the collections, creates the indexes, stores the entry, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (related, age) = (&self.related, self.age_field());
        let by_age = || PlannedIndex::new(self.index_name(), age::index(age));
        let mut of_current = vec![by_age()];
        let mut settings = doc! {
            "age": age,
            "archive_database": self.archived.namespace().db,
            "archive_collection": self.archived.name(),
        };
        if let Some(by) = &self.newest_by {
            let name = format!("{by}_1_{age}_1");
            of_current.push(PlannedIndex::new(name, doc! { by.as_str(): 1, age: 1 }).or_longer());
            settings.insert("keep_newest_by", by.as_str());
        }
        self.limit.add_settings(&mut settings);
        related.add_settings(&mut settings);
        let mut collections: Vec<Managed> = vec![related.managed(&self.archived, vec![by_age()])];
        collections.extend(related.managed_related(true));
        collections.push(related.managed(&self.current, of_current));
        collections.extend(related.managed_related(false));
        let mut owned = vec![Owned::collection(&self.archived)];
        owned.extend(related.owned());
        Ensure::new(self.operation("ensure_indexes"), None, settings, collections)
            .fields(vec![("age", age)])
            .owns(owned)
            .others_in(&self.current, &self.checks)
            .fits(self)
            .remembered_in(self.checks.indexes_exist())
    }
}

impl Fits for Shared {
    fn check_documents<'a>(&'a self, _: bool, _: &'a mut Conn<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.check_parts())
    }
}

impl<D: Send + Sync> Archive<D> {
    /// Returns the collection of the documents that are not archived, for all calls of a service.
    pub fn collection(&self) -> Collection<D> {
        self.shared.current.clone_with_type()
    }

    /// Returns the collection of the archived documents, for reads that this crate does not offer.
    pub fn archived_collection(&self) -> Collection<D> {
        self.shared.archived.clone_with_type()
    }
}

/// The index `{ date: 1, _id: 1 }`, with the name of the age field, finds documents by their age, in both collections.
/// Related documents need an index that begins with their field: call the `ensure_indexes` of their own pattern first, for
/// the archived collections too. With an [id field](crate::ArchiveBuilder::id_field) there is a unique index on it, and with
/// [`keep_newest_by`](crate::ArchiveBuilder::keep_newest_by) one on its field and the age.
///
/// Where the catalog has no settings, `ensure_indexes()` refuses documents if another pattern has parts of them in a
/// collection that is not [related](crate::ArchiveBuilder::related). There are no validators.
impl<D> Repository for Archive<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        Vec::new()
    }
}
