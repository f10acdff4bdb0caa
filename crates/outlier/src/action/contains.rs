use super::prelude::*;
use crate::read::{check_compared, contains};

impl<D, E> OutlierRepository<D, E> {
    /// Returns whether a list has an element that is equal to this one, as MongoDB compares values.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// if books.contains(2, "user00").await? {
    ///     println!("user00 has bought the book");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip if the array has the element or there are no overflow documents, else two. The second one
    /// examines all overflow documents of the list, or one where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), by their index. No element is sent.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`] when the document does not exist, [`InvalidArgument`] for an invalid `_id` and for undefined, and
    /// [`Encode`].
    pub fn contains<Q>(&self, id: impl IntoId, element: &Q) -> Contains<'_>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        Contains::create(self.shared(), DocumentId::new(id), Encoded::one(element))
    }
}

action! {
    /// Looks for an element; returned by [`OutlierRepository::contains`].
    pub struct Contains<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        element: Result<Encoded>,
    }
    with session, max_time;
    "contains" => bool
}

impl Contains<'_> {
    async fn execute(self) -> Result<bool> {
        let element = self.element?.to_bson()?;
        check_compared(&element)?;
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        contains(self.shared, &self.id?.into_bson(), &element, &mut conn).await
    }
}
