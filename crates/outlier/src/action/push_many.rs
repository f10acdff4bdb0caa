use super::prelude::*;
use crate::write::push::{check_elements, push_many, refuse_unique};

impl<D, E: Serialize> OutlierRepository<D, E> {
    /// Pushes elements to a list, in order: to the array of the main document, then to overflow documents.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let customers = ["user49".to_owned(), "user50".to_owned()];
    /// let pushed = books.push_many(2, &customers).await?;
    /// println!("{} customers in the book, {} in overflow documents", pushed.inline, pushed.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, every element is stored once. After an error, a prefix of the elements is stored, and the error
    /// has [their number](Error::stored_count). Elements of other writers can be between them.
    ///
    /// # Cost
    /// One round trip if the array has room for all, two if the newest overflow document has room for the rest, and one for
    /// that in a [known outlier](crate#known-outliers). Else four more for each 100 new overflow documents or 16 MiB.
    ///
    /// # Cancel safety
    /// A prefix of the elements is stored. The flag may be set without overflow documents, as by [`push`](Self::push).
    /// A second call may store elements twice: read the list first. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn push_many(&self, id: impl IntoId, elements: &[E]) -> PushMany<'_> {
        PushMany::create(self.shared(), DocumentId::new(id), Encoded::all(elements.iter()))
    }
}

action! {
    /// Pushes elements; returned by [`OutlierRepository::push_many`].
    pub struct PushMany<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        elements: Result<Vec<Encoded>>,
    }
    with session;
    "push_many" => PushedMany
}

impl PushMany<'_> {
    async fn execute(self) -> Result<PushedMany> {
        refuse_unique(&self.shared.settings)?;
        let (id, elements) = (self.id?.into_bson(), self.elements?);
        check_elements(self.shared, &elements)?;
        if elements.is_empty() {
            return Ok(PushedMany::default());
        }
        let mut conn = self.shared.enter(&id, self.session).await?;
        push_many(self.shared, &id, &elements, &mut conn).await
    }
}
