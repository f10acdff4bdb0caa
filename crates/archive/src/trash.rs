//! The trash, and what its calls share.

use std::time::Duration;

use mongo_patterns_core::index::{Ensure, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{Repository, RetryPolicy, Validator, document_id};
use mongodb::ClientSession;

use crate::entry::{DELETED_AT, EXPIRES_AT, ID};
use crate::prelude::*;
use crate::query;

/// The name of the index by which a restore finds the entries of a document.
pub(crate) const BY_DOCUMENT: &str = "document._id_1_deletedAt_-1__id_-1";
/// The name of the index in whose order the entries are listed.
pub(crate) const BY_TIME: &str = "deletedAt_1__id_1";

mongo_patterns_core::repository! {
    /// A collection whose deleted documents are kept in a second one.
    ///
    /// `D` is the type of the documents. A clone is cheap, and shares everything. The [crate documentation](crate#trash) has the
    /// stored form and the guarantees.
    pub struct Trash<D>;
    "trash": |shared| shared.current, max_time: shared.max_time, "trash" = shared.trash.namespace()
}

/// The part that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Raw,
    pub(crate) trash: Raw,
    pub(crate) expires_after: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    pub(crate) lanes: Lanes,
}

impl Shared {
    /// Begins a write of a document, in its lane.
    pub(crate) async fn enter<'s>(&self, session: Option<&'s mut ClientSession>, id: &DocumentId) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::text(id.value())).await
    }

    /// Returns what checks the collections, creates the indexes, stores the entry of the catalog, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let settings = doc! { "trash_database": self.trash.namespace().db, "trash_collection": self.trash.name() };
        let mut indexes = vec![
            PlannedIndex::new(BY_DOCUMENT, doc! { ID: 1, DELETED_AT: -1, "_id": -1 }),
            PlannedIndex::new(BY_TIME, query::index(DELETED_AT)),
        ];
        if self.expires_after.is_some() {
            let expiry = PlannedIndex::new(format!("{EXPIRES_AT}_1"), doc! { EXPIRES_AT: 1 });
            indexes.push(expiry.expiring(0));
        }
        let reason = "a deletion and a restore have the `_id` of the document, so they reach one shard";
        Ensure::new(
            self.operation("ensure_indexes"),
            None,
            settings,
            vec![
                Managed::new(&self.trash, ID, reason).indexes(indexes),
                Managed::by_id(&self.current),
            ],
        )
        .fields(vec![("trash_collection", ID)])
    }
}

/// The indexes are those of the trash. One finds the entries of a document, one lists them by time, and if they expire, a TTL
/// index deletes them.
///
/// There are no validators: the documents are those of the application.
impl<D> Repository for Trash<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        Vec::new()
    }
}
