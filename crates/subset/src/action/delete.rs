use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::ClientSession;

use crate::SubsetRepository;
use crate::repository::Shared;
use crate::write::{Change, Write};

impl<P, C> SubsetRepository<P, C> {
    /// Deletes a child, and writes its parent: where the child was in the subset, the next one comes in.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let deleted = products.delete(1, 786).await?;
    /// if !deleted.found {
    ///     println!("the product has no such review");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): both in one transaction.
    /// - [`Eventual`](crate::Consistency::Eventual): the child first. Where it is deleted and its parent could not be
    ///   written, the error says so: its [`stored`](mongo_patterns_core::Error::stored_count) is 1.
    ///
    /// Where there is no such child the parent is written all the same, so where the outcome is unknown, call it again.
    ///
    /// # Cost
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// - [`Transactional`](crate::Consistency::Transactional): it has no effect, unless its commit had begun; then it
    ///   is done as a whole.
    /// - [`Eventual`](crate::Consistency::Eventual): the child may be deleted, and its parent still show it. The subset
    ///   is stale then until the next write to the parent, or until [`rebuild`](Self::rebuild) or
    ///   [`repair`](Self::repair); [`verify`](Self::verify) finds it.
    ///
    /// Call it again: it writes the parent in any case. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when there is no such parent,
    /// [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated) when it holds children that were never
    /// [moved](Self::migrate_from_embedded),
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an id, and
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing).
    pub fn delete(&self, parent: impl IntoId, child_id: impl IntoId) -> Delete<'_> {
        Delete {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: DocumentId::new(child_id),
            session: None,
        }
    }
}

/// Deletes a child; made by [`SubsetRepository::delete`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// products.delete(1, 786).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Delete<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Delete<'_>);

/// What was deleted.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let deleted = products.delete(1, 786).await?;
/// println!("there was one: {}", deleted.found);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// Whether there was such a child.
    pub found: bool,
}

impl<'a> Delete<'a> {
    /// Deletes in the caller's session. Where a transaction is under way in it, all happens in that transaction, whatever
    /// the consistency.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for Delete<'a> {
    type Output = Result<Deleted>;
    type IntoFuture = ActionFuture<'a, Deleted>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            parent,
            child,
            session,
        } = self;
        run(shared.operation("delete"), move |_| async move {
            let write = Write {
                shared,
                parents: &[parent?.into_bson()],
                child: Some(&child?.into_bson()),
                change: Change::Delete,
            };
            let mut session = Session::of_caller(session).await?;
            let found = write.run(session.as_mut()).await?.found;
            Ok(Deleted { found })
        })
    }
}
