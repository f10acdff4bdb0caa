use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, IntoId, Result, document_id, send, transaction};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document};
use mongodb::options::{DeleteOptions, Hint};

use crate::repository::Shared;
use crate::write::unmanaged as unwritten;
use crate::{Consistency, SubsetRepository, query};

impl<P, C> SubsetRepository<P, C> {
    /// Deletes a parent with all its children. Also children that were left without their parent.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let deleted = products.delete_parent(1).await?;
    /// if deleted.found {
    ///     println!("the product is gone, with {} reviews", deleted.children);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): in one transaction. The server ends it after 60 seconds,
    ///   which is enough for some hundred thousand children.
    /// - [`Eventual`](crate::Consistency::Eventual): the parent first, so that no read finds it with some of its children.
    ///   Where this process dies in between, children are left that belong to nobody: [`verify`](Self::verify) finds them,
    ///   and the same call deletes them. A child that is inserted meanwhile is taken back by its insert, or deleted
    ///   by this call.
    ///
    /// A parent that is inserted with the same `_id` while writes to the old one are under way may get their subset: do
    /// not use an `_id` again.
    ///
    /// # Cost
    /// Three round trips, in a transaction too, whatever the number of children: two where there are none. One more where
    /// there is no such parent.
    ///
    /// # Cancel safety
    /// - [`Transactional`](crate::Consistency::Transactional): it has no effect, unless its commit had begun; then it
    ///   is done as a whole.
    /// - [`Eventual`](crate::Consistency::Eventual): some or all of the children may be left after the parent is
    ///   deleted; [`verify`](Self::verify) finds them.
    ///
    /// Call it again: it deletes the rest. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated) when the parent holds children that were never
    /// [moved](Self::migrate_from_embedded), with nothing deleted,
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an id, and
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing). Where the outcome is unknown, call it again.
    pub fn delete_parent(&self, parent: impl IntoId) -> DeleteParent<'_> {
        DeleteParent {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            session: None,
        }
    }
}

/// Deletes a parent with its children; made by [`SubsetRepository::delete_parent`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// products.delete_parent(1).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct DeleteParent<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(DeleteParent<'_>);

/// What was deleted.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let deleted = products.delete_parent(1).await?;
/// println!("there was one: {}, with {} reviews", deleted.found, deleted.children);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedParent {
    /// Whether there was such a parent.
    pub found: bool,
    /// How many children went.
    pub children: u64,
}

impl<'a> DeleteParent<'a> {
    /// Deletes in the caller's session. Where a transaction is under way in it, all happens in that transaction, whatever
    /// the consistency.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for DeleteParent<'a> {
    type Output = Result<DeletedParent>;
    type IntoFuture = ActionFuture<'a, DeletedParent>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            parent,
            session,
        } = self;
        run(shared.operation("delete_parent"), move |_| async move {
            let parent = parent?.into_bson();
            shared.check_indexes().await?;
            let mut session = Session::of_caller(session).await?;
            if let Some(session) = session.as_mut().filter(|session| session.is_in_transaction()) {
                return delete(shared, &parent, true, Some(session)).await;
            }
            let consistency = shared.consistency().await?;
            let locked = shared.locks.exclusive(&document_id::text(&parent)).await;
            if consistency == Consistency::Eventual {
                return delete(shared, &parent, false, session.as_mut()).await;
            }
            let retry = &shared.settings.retry;
            transaction::run(
                &shared.parents,
                retry,
                session.as_mut(),
                locked,
                (shared, &parent),
                |session, (shared, parent)| Box::pin(delete(shared, parent, true, Some(session))),
            )
            .await
        })
    }
}

async fn delete(
    shared: &Shared,
    parent: &Bson,
    in_transaction: bool,
    mut session: Option<&mut Session<'_>>,
) -> Result<DeletedParent> {
    let Shared {
        children,
        settings,
        known,
        ..
    } = shared;
    known.forget(parent);
    let mut found = false;
    let mut as_seen = Some(query::written(settings, parent));
    while let Some(parent_as_seen) = as_seen {
        found = delete_one(shared, parent_as_seen, session.as_deref_mut()).await?;
        as_seen = match found {
            true => None,
            // A move that is under way would bring its children back, as those of no parent.
            false => unwritten::complete(shared, parent, in_transaction, session.as_deref_mut()).await?,
        };
    }
    let mut deleted = DeletedParent { found, children: 0 };
    loop {
        let of_parent = query::children_of(settings, parent);
        let options = DeleteOptions::builder()
            .hint(Hint::Name(settings.child_index.clone()))
            .build();
        let deletion = send::delete_many(session.as_deref_mut(), children, of_parent, options).await;
        let now = deletion.map_err(|error| match is_bad_hint(&error) {
            true if found && !in_transaction => index_missing(&settings.child_index).with_text(
                "the parent is deleted, but not all of its children, because an index is missing: call ensure_indexes(), then delete_parent(..) again",
            ),
            true => index_missing(&settings.child_index),
            false => Error::from(error),
        })?;
        deleted.children += now.deleted_count;
        // The server deletes in the order of the index. An insert that found the parent before it was deleted may put its
        // child behind that place, and find the first children still there, so that it does not look for the parent.
        if in_transaction || now.deleted_count == 0 {
            return Ok(deleted);
        }
    }
}

async fn delete_one(shared: &Shared, parent: Document, session: Option<&mut Session<'_>>) -> Result<bool> {
    let deleted = send::delete_one(session, &shared.parents, parent, None).await?;
    Ok(deleted.deleted_count > 0)
}
