use std::sync::Arc;

use super::prelude::*;
use crate::write::joined::push;
use crate::write::push::{push_one, refuse_unique};

impl<D, E> OutlierRepository<D, E> {
    /// Pushes an element to a list: to the array of the main document, or, beyond the threshold, to an overflow
    /// document.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::{OutlierRepository, Pushed};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let pushed = books.push(2, "user50").await?;
    /// if pushed == Pushed::Overflow {
    ///     println!("the book is an outlier");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the element is stored once, to the collections' write concern, and every reader of this crate
    /// sees it. After an error it is not stored, unless [`is_outcome_unknown`](Error::is_outcome_unknown). A process
    /// that dies during a push can leave a flag without overflow documents, and never an element that no reader sees.
    ///
    /// Safe for concurrent writers: the array never exceeds the threshold, and an overflow document never exceeds its
    /// bound.
    ///
    /// # Cost
    /// One round trip for a typical document and for a [known outlier](crate#known-outliers), two for another outlier,
    /// however many overflow documents it has. The server examines one document in each. To open an overflow document
    /// takes four more, once for `max_extras_elements` elements: it is inserted in a transaction with the flag.
    /// Concurrent pushes to one list share commands: see [lanes](crate#lanes).
    ///
    /// # Sessions and transactions
    /// In a session, a push to an outlier takes two round trips. In a transaction of the caller, nothing is retried. In a
    /// session without a transaction, overflow documents are opened in a transaction of their own; later reads in the
    /// session see them. See [sessions and transactions](mongo_patterns_core::action#sessions-and-transactions).
    ///
    /// # Cancel safety
    /// The element is stored or not. If it is not, the flag may be set without overflow documents: readers see the
    /// same list, [`verify`](Self::verify) finds the flag, and [`rebalance`](Self::rebalance) clears it. A second call
    /// may store the element twice; [`push_unique`](Self::push_unique) does not. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`NotFound`] when the document does not exist, [`InvalidArgument`] for an invalid `_id` or
    /// element, [`Encode`], [`TooLarge`] for an element that does not fit, alone or with those of the array,
    /// [`Corrupt`] when the array field is not an array, [`IndexMissing`] for an outlier before
    /// [`ensure_indexes`](Self::ensure_indexes), [`Unsupported`] on a standalone when the array is full, and
    /// [`Configuration`] where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements): call [`push_unique`](Self::push_unique).
    pub fn push<Q>(&self, id: impl IntoId, element: &Q) -> Push<'_>
    where
        E: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        Push::create(self.shared(), DocumentId::new(id), Encoded::one(element))
    }
}

action! {
    /// Pushes an element; returned by [`OutlierRepository::push`].
    pub struct Push<'a> {
        shared: &'a Arc<Shared>,
        id: Result<DocumentId>,
        element: Result<Encoded>,
    }
    with session;
    "push" => Pushed
}

impl Push<'_> {
    async fn execute(self) -> Result<Pushed> {
        refuse_unique(&self.shared.settings)?;
        let (id, element) = (self.id?.into_bson(), self.element?);
        match self.session {
            None => push(self.shared, &id, element).await,
            session => {
                let mut conn = self.shared.enter(&id, session).await?;
                push_one(self.shared, &id, &element, false, &mut conn).await
            }
        }
    }
}
