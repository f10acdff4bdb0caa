use std::sync::Arc;

use super::prelude::*;
use crate::form::child::Child;

impl<P, C: Serialize> SubsetRepository<P, C> {
    /// Inserts a child and writes its parent, in one transaction.
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
    /// # Cost
    /// Four round trips, if this repository has written the parent before, without a conflict. Otherwise five, and with a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or [computed
    /// fields](crate::SubsetRepositoryBuilder#computed-fields) also. If the first attempt then finds a child with this
    /// id, or a parent without a version, a second attempt follows, with at most eight more. The first write of a
    /// repository has one more.
    ///
    /// Concurrent inserts of one repository for one parent share transactions: see [lanes](crate#lanes).
    ///
    /// Each round trip examines one document, except the read of the first children, which examines as many as are
    /// embedded.
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes, or its transaction also inserts children of other
    /// calls.
    ///
    /// Call it again: `AlreadyExists` means that the child is stored. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
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
    /// - [`Encode`], and [`TooLarge`] when the child exceeds 16 MiB, or the parent would with its new subset.
    /// - [`IndexMissing`], and [`Unsupported`] on a standalone.
    ///
    /// If the outcome is unknown, call it again.
    pub fn insert(&self, child: &C) -> Insert<'_> {
        let shared = self.shared();
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
