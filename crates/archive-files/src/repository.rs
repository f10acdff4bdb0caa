//! The archive in files, and what its calls share.

use std::time::Duration;

use mongo_patterns_core::age::{self, AgeLimit};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Ensure, Managed, PlannedIndex};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{Repository, Result, RetryPolicy, Validator};
use mongodb::Collection;
use mongodb::bson::{RawDocumentBuf, doc};

use crate::store::Store;

mongo_patterns_core::repository! {
    /// A collection whose old documents are in files.
    ///
    /// `D` is the type of the documents. A clone is cheap, and shares everything. The [crate documentation](crate) has the
    /// form of the files and the guarantees.
    pub struct FileArchive<D>;
    "archive": |shared| shared.current, max_time: shared.max_time
}

/// The part that does not depend on the type of the documents.
pub(crate) struct Shared {
    pub(crate) current: Collection<RawDocumentBuf>,
    /// The catalog.
    pub(crate) records: Collection<RawDocumentBuf>,
    pub(crate) store: Store,
    pub(crate) limit: AgeLimit,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// In a process, one call moves at a time, also after it was dropped.
    pub(crate) lanes: Lanes,
}

impl Shared {
    /// Begins a move, when no other one of this process is on its way.
    pub(crate) async fn enter(&self) -> Result<Conn<'static>> {
        Conn::enter(None, &self.lanes, "").await
    }

    pub(crate) fn age_field(&self) -> &str {
        self.limit.field.as_str()
    }

    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let field = self.age_field();
        let index = PlannedIndex::new(format!("{field}_1__id_1"), age::index(field));
        let mut settings = doc! { "age": field, "files": true };
        self.limit.add_settings(&mut settings);
        Ensure::new(
            self.operation("ensure_indexes"),
            None,
            settings,
            vec![Managed::by_id(&self.current).indexes(vec![index])],
        )
        .fields(vec![("age", field)])
        .in_transactions()
    }
}

impl<D: Send + Sync> FileArchive<D> {
    /// Returns the collection of the documents that are not archived, for all calls of a service.
    pub fn collection(&self) -> Collection<D> {
        self.shared.current.clone_with_type()
    }
}

/// The index `{ date: 1, _id: 1 }`, with the name of the age field, finds documents by their age. There are no validators.
impl<D> Repository for FileArchive<D> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        Vec::new()
    }
}
