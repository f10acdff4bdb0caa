use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongodb::ClientSession;
use serde::Serialize;

use crate::SubsetRepository;
use crate::form::child::Child;
use crate::repository::Shared;
use crate::write::{Change, Write};

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Inserts a child, and writes its parent where the child belongs to its subset.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let now = DateTime::now();
    /// let review = doc! { "review_id": 786, "product_id": 1, "review_text": "Amazing.", "published_date": now };
    /// let inserted = products.insert(&review).await?;
    /// println!("shown with the product: {}", inserted.in_subset);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): both in one transaction.
    /// - [`Eventual`](crate::Consistency::Eventual): the child first. A child that is not among the first writes nothing
    ///   to a parent whose subset is right. Where the child is stored and its parent could not be written, the error
    ///   says so: its [`stored`](mongo_patterns_core::Error::stored_count) is 1. Where the parent is gone but was there at the
    ///   last write of this repository, the child is stored for a moment, and taken back.
    ///
    /// # Cost
    /// Three round trips to a parent that only this repository and its clones write to, from the third write on, since it
    /// knows how it left it. Else four, or three for a child that is not among the first, and up to seven more where others
    /// write to the parent meanwhile. In a transaction five. Each examines one document, and the read of the first children
    /// as many as are embedded. The first write of a repository has one or two more.
    ///
    /// # Cancel safety
    /// - [`Transactional`](crate::Consistency::Transactional): it has no effect, unless its commit had begun; then it
    ///   is done as a whole.
    /// - [`Eventual`](crate::Consistency::Eventual): the child may be stored, and its parent not be written. The subset
    ///   is stale then until the next write to the parent, or until [`rebuild`](Self::rebuild) or
    ///   [`repair`](Self::repair); [`verify`](Self::verify) finds it. Where the parent is deleted at that moment, the
    ///   child may be left without one; `verify` finds it.
    ///
    /// Call it again: `AlreadyExists` says that the child is stored, and that its parent is right. A [transaction of
    /// the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when there is no such parent,
    /// [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated) when it holds children that were never
    /// [moved](Self::migrate_from_embedded),
    /// [`AlreadyExists`](mongo_patterns_core::ErrorKind::AlreadyExists) when it has a child with this id,
    /// [`DuplicateKey`](mongo_patterns_core::ErrorKind::DuplicateKey) of a unique index of yours,
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) when the child has no parent, a field of the
    /// order is an array, its `_id` cannot be one, or its parent or id cannot, such as `Timestamp(0, 0)`,
    /// [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId) when it has no id,
    /// [`Encode`](mongo_patterns_core::ErrorKind::Encode),
    /// [`TooLarge`](mongo_patterns_core::ErrorKind::TooLarge) when the child would exceed MongoDB's 16 MiB, and
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing).
    ///
    /// `TooLarge` when the parent would exceed 16 MiB with its new subset: a transaction stores nothing, and an eventual
    /// write has stored the child, so that its [`stored`](mongo_patterns_core::Error::stored_count) is 1.
    ///
    /// Where the outcome is unknown, call it again: `AlreadyExists` says that the child is stored, and by then its parent
    /// is right, too.
    pub fn insert<'a>(&'a self, child: &'a C) -> Insert<'a, C> {
        Insert {
            shared: self.shared(),
            child,
            session: None,
        }
    }
}

/// Inserts a child; made by [`SubsetRepository::insert`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let review = doc! { "review_id": 786, "product_id": 1, "review_text": "Amazing." };
/// products.insert(&review).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Insert<'a, C> {
    shared: &'a Shared,
    child: &'a C,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Insert<'_, C>);

/// What an insert did.
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::bson::Document;
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     review: Document,
/// # ) -> mongo_patterns_core::Result<()> {
/// let inserted = products.insert(&review).await?;
/// println!("shown with the product: {}", inserted.in_subset);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inserted {
    /// Whether the child is in the subset of its parent.
    pub in_subset: bool,
    /// Whether this call wrote the parent. Another writer may have done so for it.
    pub wrote_parent: bool,
}

impl<'a, C> Insert<'a, C> {
    /// Inserts in the caller's session. Where a transaction is under way in it, all happens in that transaction, whatever
    /// the consistency.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, C: Serialize> IntoFuture for Insert<'a, C> {
    type Output = Result<Inserted>;
    type IntoFuture = ActionFuture<'a, Inserted>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, child, session } = self;
        let child = Child::of(&shared.settings, child);
        run(shared.operation("insert"), move |_| async move {
            let Child { parent, id, document } = child?;
            let write = Write {
                shared,
                parents: &[parent],
                child: Some(&id),
                change: Change::Insert(vec![document]),
            };
            let mut session = Session::of_caller(session).await?;
            let written = write.run(session.as_mut()).await?;
            Ok(Inserted {
                in_subset: written.in_subset,
                wrote_parent: written.parents > 0,
            })
        })
    }
}
