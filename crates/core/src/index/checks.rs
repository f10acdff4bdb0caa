//! What a repository checks once: that its indexes exist, what the deployment is, and what others own in its documents.

use std::sync::Arc;

use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use tokio::sync::OnceCell;

use super::Ensure;
use crate::catalog::{Known, Others};
use crate::conn::Conn;
use crate::error::{ErrorKind, Result};
use crate::topology::Topology;

/// The checks of a repository that have succeeded. A clone has the earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    topology: OnceCell<Topology>,
    indexes: OnceCell<()>,
    others: Known,
}

impl Checks {
    /// Returns what the deployment is. One round trip, once.
    pub async fn topology(&self, on: &Collection<RawDocumentBuf>) -> Result<Topology> {
        let read = async || Topology::read(on, &mut Conn::new()).await;
        self.topology.get_or_try_init(read).await.copied()
    }

    /// Checks that the indexes exist: a round trip for each collection with indexes, once, outside of any session. A hint
    /// would check only one of the indexes, and not every command has a hint.
    ///
    /// # Errors
    /// - [`Unsupported`](ErrorKind::Unsupported): on a standalone, where nothing creates the indexes of a pattern that needs
    ///   transactions.
    pub async fn indexes<'e>(&self, ensure: impl FnOnce() -> Ensure<'e> + Send) -> Result<()> {
        let check = async || {
            let ensure = ensure();
            let checked = ensure.check_indexes(&mut Conn::new()).await;
            match &checked {
                Err(error) if error.kind() == ErrorKind::IndexMissing && ensure.needs_transactions() => {
                    self.topology(ensure.call.collection).await?.check_transactions()?;
                    checked
                }
                _ => checked,
            }
        };
        self.indexes.get_or_try_init(check).await.copied()
    }

    /// Does what [`indexes`](Self::indexes) does, as a step of a run. A plan only lists it.
    pub async fn indexes_in<'e>(&self, ensure: impl FnOnce() -> Ensure<'e> + Send, conn: &mut Conn<'_>) -> Result<()> {
        match conn.is_plan() {
            true => ensure().check_indexes(conn).await,
            false => self.indexes(ensure).await,
        }
    }

    /// Returns what other repositories own in the documents, for a call that replaces, restores or deletes one. At most one
    /// round trip, outside of any session, and before the first command of the call.
    pub async fn others<'e>(&self, ensure: impl FnOnce() -> Ensure<'e> + Send) -> Result<Arc<Others>> {
        if let Some(others) = self.others.current() {
            return Ok(others);
        }
        ensure().entry.read_others(&mut Conn::new()).await?;
        Ok(self.known_others())
    }

    /// Does what [`others`](Self::others) does if `ensure_indexes()` was called before, for an update that names fields.
    /// Otherwise it sends nothing.
    pub async fn others_if_known<'e>(&self, ensure: impl FnOnce() -> Ensure<'e> + Send) -> Result<Arc<Others>> {
        match self.others.last() {
            Some(_) => self.others(ensure).await,
            None => Ok(Arc::default()),
        }
    }

    /// Returns what [`others`](Self::others) returned last, also in the middle of a transaction.
    pub fn known_others(&self) -> Arc<Others> {
        self.others.last().unwrap_or_default()
    }

    /// Returns what remembers that the indexes exist, for [`Ensure::remembered_in`].
    pub fn indexes_exist(&self) -> &OnceCell<()> {
        &self.indexes
    }
}

impl Ensure<'_> {
    /// Adds a collection in which other repositories can own fields, and the checks that remember them.
    #[must_use]
    pub fn others_in(mut self, collection: &Collection<RawDocumentBuf>, checks: &Checks) -> Self {
        self.entry.others.push((collection.namespace(), checks.others.clone()));
        self
    }
}
