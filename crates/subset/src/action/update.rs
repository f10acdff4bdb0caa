use std::fmt;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::Document;

use crate::SubsetRepository;
use crate::form::child::checked_update;
use crate::repository::Shared;
use crate::write::{Change, Write, Written};

impl<P, C> SubsetRepository<P, C> {
    /// Changes fields of a child, and writes its parent. Where a field of the order changes, the child may enter the subset,
    /// or leave it to the next one.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::doc;
    /// # async fn f(products: SubsetRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// products.update(1, 786, doc! { "review_text": "Still amazing." }).unset(["draft"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The names are those of plain fields, and the values are stored as they are. A child cannot get another parent or id: delete it, and insert it anew.
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): both in one transaction.
    /// - [`Eventual`](crate::Consistency::Eventual): the child first. Where it is written and its parent could not be, the
    ///   error says so: its [`stored`](mongo_patterns_core::Error::stored_count) is 1.
    ///
    /// # Cost
    /// Four round trips, and up to seven more where others write to the parent meanwhile. In a transaction five. Each
    /// examines one document, and the read of the first children as many as are embedded.
    ///
    /// # Cancel safety
    /// - [`Transactional`](crate::Consistency::Transactional): it has no effect, unless its commit had begun; then it
    ///   is done as a whole.
    /// - [`Eventual`](crate::Consistency::Eventual): the child may be changed, and its parent not be written. The
    ///   subset is stale then until the next write to the parent, or until [`rebuild`](Self::rebuild) or
    ///   [`repair`](Self::repair); [`verify`](Self::verify) finds it.
    ///
    /// Call it again: it is idempotent, and writes the parent in any case. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when there is no such parent,
    /// [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated) when it holds children that were never
    /// [moved](Self::migrate_from_embedded),
    /// [`ChildNotFound`](mongo_patterns_core::ErrorKind::ChildNotFound) when it has no such child,
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) when there is nothing to change, a field
    /// cannot be changed or is named twice, one of the order would become an array, or an id cannot be one, and
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing). Where the outcome is unknown, call it again.
    pub fn update(&self, parent: impl IntoId, child_id: impl IntoId, set: Document) -> Update<'_> {
        let shared = self.shared();
        Update {
            shared,
            parent: DocumentId::new(parent),
            child: DocumentId::new(child_id),
            set,
            unset: Vec::new(),
            session: None,
        }
    }
}

/// Changes fields of a child; made by [`SubsetRepository::update`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let set = doc! { "review_text": "Still amazing." };
/// products.update(1, 786, set).unset(["draft"]).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Update<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<DocumentId>,
    set: Document,
    unset: Vec<String>,
    session: Option<&'a mut ClientSession>,
}

/// What a change or a replacement of a child did.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let updated = products.update(1, 786, doc! { "review_text": "Still amazing." }).await?;
/// println!("other than before: {}, shown: {}", updated.modified, updated.in_subset);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// Whether anything of the child is other than before. A [`replace`](SubsetRepository::replace) by a child without
    /// `_id` always says so, unless a name in it starts with `$`: the server does not compare it.
    pub modified: bool,
    /// Whether the child is in the subset of its parent now.
    pub in_subset: bool,
}

impl From<Written> for Updated {
    fn from(written: Written) -> Self {
        Self {
            modified: written.modified,
            in_subset: written.in_subset,
        }
    }
}

impl<'a> Update<'a> {
    /// Removes these fields of the child.
    pub fn unset<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.unset.extend(fields.into_iter().map(Into::into));
        self
    }

    /// Updates in the caller's session. Where a transaction is under way in it, all happens in that transaction, whatever
    /// the consistency.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for Update<'a> {
    type Output = Result<Updated>;
    type IntoFuture = ActionFuture<'a, Updated>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            parent,
            child,
            set,
            unset,
            session,
        } = self;
        run(shared.operation("update"), move |_| async move {
            let write = Write {
                shared,
                parents: &[parent?.into_bson()],
                child: Some(&child?.into_bson()),
                change: Change::Update(checked_update(&shared.settings, set, unset)?.into()),
            };
            let mut session = Session::of_caller(session).await?;
            write.run(session.as_mut()).await.map(Updated::from)
        })
    }
}

/// Does not show the fields and values.
impl fmt::Debug for Update<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
