use std::sync::Arc;

use super::prelude::*;
use crate::form::child::Child;

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Inserts a child, and writes its parent if the child belongs to its subset.
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
    /// - [`Eventual`](crate::Consistency::Eventual): the child first. A child outside the subset writes nothing to a
    ///   parent whose subset is correct. If the child is stored and the write of its parent fails,
    ///   [`stored_count`](Error::stored_count) of the error is 1. If the parent was deleted since the last write of
    ///   this repository, the child is stored for a moment, and then deleted.
    ///
    /// # Cost
    /// Without a transaction, from the third write to a parent on, three round trips if no other process writes to it,
    /// since the repository knows its version. Two for a child outside the subset, if the fields of the order are
    /// embedded and of equal types. Otherwise four, or three for a child outside the subset, and up to seven more while
    /// other processes write to the parent. The first write of a repository has one or two more.
    ///
    /// In a transaction four, if this repository has written the parent in a transaction before, without a conflict.
    /// Otherwise five, and with a [total](crate::SubsetRepositoryBuilder::total_field) or [computed
    /// fields](crate::SubsetRepositoryBuilder#computed-fields) also. If the first attempt then finds a child with this id, or a parent without a version, a second attempt follows, with at most eight more.
    ///
    /// Without a total and computed fields, concurrent eventual inserts of one process for one parent share the read of the
    /// first children and the write of the parent: each waits for the current refresh and for the next one, whatever the number of writers.
    ///
    /// Concurrent inserts of one process for one parent in transactions share them: while a transaction writes the parent,
    /// further children wait, and are inserted by the next one together, up to 1000.
    ///
    /// Each round trip examines one document, except the read of the first children, which examines as many as are
    /// embedded.
    ///
    /// # Cancel safety
    /// - `Transactional`: it has no effect, unless its commit had begun, which completes. If another call of this process
    ///   was writing the parent, the child waits for the next transaction, and is inserted by it also if the future is
    ///   dropped.
    /// - `Eventual`: the child may be stored and its parent not be written. The subset is then stale until the next
    ///   write to the parent, or until [`rebuild`](Self::rebuild) or [`repair`](Self::repair). If the parent is deleted
    ///   at that moment, the child may remain without one. [`verify`](Self::verify) reports both.
    ///
    /// Call it again: `AlreadyExists` means that the child is stored, and that its parent is now correct. A
    /// [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored:
    ///
    /// - [`NotFound`] when the parent does not exist.
    /// - [`NotMigrated`] when the parent embeds children that are [not migrated](Self::migrate_from_embedded).
    /// - [`AlreadyExists`] when the parent has a child with this id.
    /// - [`DuplicateKey`] of a unique index of the application.
    /// - [`InvalidArgument`] when the child has no parent, its parent, id or `_id` is invalid, such as `Timestamp(0,
    ///   0)`, or a field of the order or of a computed field is an array.
    /// - [`InvalidItemId`] when the child has no id.
    /// - [`Encode`], and [`TooLarge`] when the child exceeds 16 MiB.
    /// - [`IndexMissing`].
    ///
    /// `TooLarge` when the parent would exceed 16 MiB with its new subset: a transaction stores nothing. An eventual
    /// write has stored the child, and its [`stored_count`](Error::stored_count) is 1.
    ///
    /// If the outcome is unknown, call it again.
    pub fn insert(&self, child: &C) -> Insert<'_> {
        let shared = self.shared_arc();
        Insert::create(shared, Child::of(&shared.settings, child))
    }
}

action! {
    /// Inserts a child; returned by [`SubsetRepository::insert`].
    pub struct Insert<'a> {
        shared: &'a Arc<Shared>,
        child: Result<Child>,
    }
    with session;
    "insert" => Inserted
}

impl Insert<'_> {
    async fn execute(self) -> Result<Inserted> {
        write::insert(self.shared, self.child?, self.session).await
    }
}
