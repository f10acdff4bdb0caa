use super::prelude::*;
use crate::write::push::push_one;

impl<D, E> OutlierRepository<D, E> {
    /// Pushes an element to a list, unless the list has an equal one, in its array or in overflow documents. Needs
    /// [unique elements](crate::OutlierRepositoryBuilder::unique_elements).
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::{OutlierRepository, Pushed};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let pushed = books.push_unique(2, "user00").await?;
    /// if pushed == Pushed::AlreadyThere {
    ///     println!("user00 has bought the book before");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the list has the element once, however many writers push it concurrently. It is idempotent:
    /// call it again after an [unknown outcome](Error::is_outcome_unknown). Elements are equal as MongoDB compares
    /// values: 1 and 1.0 are, and documents with their fields in another order are not.
    ///
    /// If an error has a [number of stored elements](Error::stored_count), the last check failed: whether a rebalance
    /// moved an equal element concurrently. Then call it again, too.
    ///
    /// # Cost
    /// That of [`push`](Self::push), and one round trip more for an element in an overflow document: two for a [known
    /// outlier](crate#known-outliers), three for another one. After a rebalance that filled the array, the next push takes
    /// one more.
    ///
    /// # Cancel safety
    /// The element is stored or not: call it again. If a rebalance moved an equal element at that moment, the list
    /// may have both until the next [`rebalance`](Self::rebalance); [`verify`](Self::verify) finds it. The flag may be
    /// set without overflow documents, as by [`push`](Self::push). A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`push`](Self::push). [`Configuration`] where elements are not unique, and [`InvalidArgument`] for an
    /// element that is an array: the server would index its values one by one.
    pub fn push_unique<Q>(&self, id: impl IntoId, element: &Q) -> PushUnique<'_>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        PushUnique::create(self.shared(), DocumentId::new(id), Encoded::one(element))
    }
}

action! {
    /// Pushes an element once; returned by [`OutlierRepository::push_unique`].
    pub struct PushUnique<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        element: Result<Encoded>,
    }
    with session;
    "push_unique" => Pushed
}

impl PushUnique<'_> {
    async fn execute(self) -> Result<Pushed> {
        if !self.shared.settings.unique {
            return Err(configuration(
                "a unique push needs the index of the elements, nothing was stored: call unique_elements() on the builder",
            ));
        }
        let (id, element) = (self.id?.into_bson(), self.element?);
        let mut conn = self.shared.enter(&id, self.session).await?;
        push_one(self.shared, &id, &element, true, &mut conn).await
    }
}
