//! The archive, and what its calls share.

use mongo_patterns_core::index::{Ensure, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{Repository, Validator};

use crate::prelude::*;
use crate::query;
use crate::transfer::Transfer;
use crate::wholes::{Moving, Wholes};

mongo_patterns_core::repository! {
    /// A collection whose old documents are in a second one.
    ///
    /// `D` is the type of the documents. A clone is cheap, and shares everything. The [crate documentation](crate) has the stored
    /// documents and the guarantees.
    pub struct Archive<D>;
    "archive": |shared| shared.current, max_time: shared.settings.max_time, "archive" = shared.archived.namespace()
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
    pub(crate) wholes: Wholes,
}

impl Shared {
    /// Returns what moves documents, in a direction.
    pub(crate) fn transfer<'a>(&'a self, filter: &'a Document, restores: bool) -> Transfer<'a> {
        let (from, to) = match restores {
            true => (&self.archived, &self.current),
            false => (&self.current, &self.archived),
        };
        Transfer {
            from,
            to,
            filter,
            replaces: false,
            newest: None,
            wholes: self.moving(restores),
            retry: &self.settings.retry,
            age: self.settings.age.as_str(),
        }
    }

    pub(crate) fn moving(&self, restores: bool) -> Moving<'_> {
        Moving {
            wholes: &self.wholes,
            restores,
        }
    }

    /// Returns what checks the collections, creates the indexes, stores the entry, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (settings, wholes, age) = (&self.settings, &self.wholes, self.settings.age.as_str());
        let by_age = || PlannedIndex::new(self.index.clone(), query::index(age));
        let mut of_current = vec![by_age()];
        if let Some(by) = &settings.newest_by {
            let name = format!("{by}_1_{age}_1");
            of_current.push(PlannedIndex::new(name, doc! { by.as_str(): 1, age: 1 }).or_longer());
        }
        let mut collections: Vec<Managed> = vec![wholes.managed(&self.archived, vec![by_age()])];
        collections.extend(wholes.managed_related(true));
        collections.push(wholes.managed(&self.current, of_current));
        collections.extend(wholes.managed_related(false));
        let mut form = settings.stored_form(&self.archived);
        wholes.add_settings(&mut form);
        Ensure::new(self.operation("ensure_indexes"), None, form, collections).fields(vec![("age", age)])
    }
}

impl<D> Archive<D> {
    pub(crate) fn new([current, archived]: [Raw; 2], settings: Settings, wholes: Wholes) -> Self {
        Self::of(Shared {
            index: format!("{}_1__id_1", settings.age),
            lanes: Lanes::new(&current),
            current,
            archived,
            settings,
            wholes,
        })
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

/// The index `{ date: 1, _id: 1 }`, with the name of the age field, finds documents by their age, in both collections. Related
/// documents need one that begins with their field: that of their own pattern does, so call its `ensure_indexes` first, for the
/// archived collections too. With an [id field](crate::ArchiveBuilder::id_field) there is a unique index on it in both
/// collections, and with [`keep_newest_by`](crate::ArchiveBuilder::keep_newest_by) one on its field and the age.
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
