//! The archive, and what its calls share.

use std::sync::Arc;

use mongo_patterns_core::action::Call;
use mongo_patterns_core::index::{Ensure, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{Repository, Validator};

use crate::link::Link;
use crate::prelude::*;
use crate::query;
use crate::transfer::Linked;

/// A collection whose old documents are in a second one.
///
/// `D` is the type of the documents. A clone is cheap, and shares everything. The [crate documentation](crate) has the stored
/// documents and the guarantees.
pub struct Archive<D> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> D>,
}

/// The part that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Raw,
    pub(crate) archived: Raw,
    pub(crate) settings: Settings,
    /// Those of the restores of one document.
    pub(crate) lanes: Lanes,
    /// The name of the index on the age, in both.
    pub(crate) index: String,
    /// If the archive is in another cluster.
    pub(crate) link: Option<Link>,
}

mongo_patterns_core::redacted_debug!(Shared, |shared| "collection" = shared.current.namespace());

impl Shared {
    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call::new("archive", operation, &self.current)
    }

    /// Returns the link to another cluster, in a direction.
    pub(crate) fn linked(&self, restores: bool) -> Option<Linked<'_>> {
        self.link.as_ref().map(|link| Linked {
            link,
            lanes: &self.lanes,
            restores,
        })
    }

    /// Returns what checks the collections, creates the indexes, stores the entry, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (settings, age) = (&self.settings, self.settings.age.as_str());
        let managed = |collection| {
            let index = PlannedIndex::new(self.index.clone(), query::index(age));
            Managed::by_id(collection).indexes(vec![index])
        };
        let archived = match self.link {
            None => managed(&self.archived),
            Some(_) => managed(&self.archived).not_sharded(),
        };
        Ensure::new(
            self.operation("ensure_indexes"),
            None,
            settings.stored_form(&self.archived, self.link.is_some()),
            vec![archived, managed(&self.current)],
        )
        .fields(vec![("age", age)])
    }
}

impl<D> Archive<D> {
    pub(crate) fn new(current: Raw, archived: Raw, settings: Settings, link: Option<Link>) -> Self {
        Self {
            shared: Arc::new(Shared {
                index: format!("{}_1__id_1", settings.age),
                lanes: Lanes::new(&current),
                current,
                archived,
                settings,
                link,
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl<D: Send + Sync> Archive<D> {
    /// Returns the collection of the documents that are not archived, for all calls of a service.
    pub fn collection(&self) -> Collection<D> {
        self.shared.current.clone_with_type()
    }

    /// Returns the collection of the archived documents, for what this crate does not do.
    pub fn archived_collection(&self) -> Collection<D> {
        self.shared.archived.clone_with_type()
    }
}

/// The index `{ date: 1, _id: 1 }`, with the name of the age field, finds documents by their age, in both collections.
/// [`ensure_sharded`](Repository::ensure_sharded) does not shard an archive in another cluster.
///
/// There are no validators: the documents are those of the application.
impl<D> Repository for Archive<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        Vec::new()
    }
}

mongo_patterns_core::clone_fields!(Archive<D>, shared, types);

mongo_patterns_core::redacted_debug!(
    Archive<D>,
    |this| "collection" = this.shared.current.namespace(),
    "archive" = this.shared.archived.namespace()
);
