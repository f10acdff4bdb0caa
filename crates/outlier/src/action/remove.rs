use super::prelude::*;
use crate::read::check_compared;
use crate::write::remove::remove;

impl<D, E> OutlierRepository<D, E> {
    /// Removes every element of a list that is equal to this one, as MongoDB compares values. Returns whether there
    /// [was one](Removed::found).
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let removed = books.remove(2, "user00").await?;
    /// if !removed.found {
    ///     println!("user00 has not bought the book");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Afterwards, the array can have room although there are overflow documents. Pushes do not fill it, so that no
    /// element moves while others read. [`rebalance`](Self::rebalance) fills it, and clears the flag if no overflow
    /// documents are left. It is idempotent.
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier. Three more if an outlier has no such element: a read
    /// in one snapshot, because a rebalance may move elements concurrently. The server examines all overflow documents of
    /// the list, or one where elements are [unique](crate::OutlierRepositoryBuilder::unique_elements).
    ///
    /// # Cancel safety
    /// Equal elements may be removed from the array, and not yet from the overflow documents. Call it again: it removes
    /// the rest. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`] when the document does not exist, [`InvalidArgument`] for an invalid `_id` and for undefined, and
    /// [`Encode`].
    pub fn remove<Q>(&self, id: impl IntoId, element: &Q) -> Remove<'_>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        Remove::create(self.shared(), DocumentId::new(id), Encoded::one(element))
    }
}

action! {
    /// Removes an element; returned by [`OutlierRepository::remove`].
    pub struct Remove<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        element: Result<Encoded>,
    }
    with session;
    "remove" => Removed
}

impl Remove<'_> {
    async fn execute(self) -> Result<Removed> {
        let (id, element) = (self.id?.into_bson(), self.element?.to_bson()?);
        check_compared(&element)?;
        let mut conn = self.shared.enter(&id, self.session).await?;
        let found = remove(self.shared, &id, &element, &mut conn).await?;
        Ok(Removed::new(found))
    }
}
