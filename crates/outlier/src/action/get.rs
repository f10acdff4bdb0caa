use super::prelude::*;
use crate::form::document::{decode_main, is_flagged};

impl<D: DeserializeOwned, E> OutlierRepository<D, E> {
    /// Reads a document with at most the threshold of its elements, and whether there are more. `None` when the
    /// document does not exist.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<i32, String>) -> mongo_patterns_core::Result<()> {
    /// if let Some(book) = books.get(2).await? {
    ///     let more = if book.has_extras { "and more" } else { "all of them" };
    ///     println!("{}: {more}", book.document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and one document, however long the list is.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`, and [`Decode`].
    pub fn get(&self, id: impl IntoId) -> Get<'_, D> {
        Get::create(self.shared(), DocumentId::new(id), PhantomData)
    }
}

action! {
    /// Reads a document; returned by [`OutlierRepository::get`].
    pub struct Get<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;
    "get" => Option<StoredDocument<D>> where D: DeserializeOwned + 'a
}

impl<D: DeserializeOwned> Get<'_, D> {
    async fn execute(self) -> Result<Option<StoredDocument<D>>> {
        let settings = &self.shared.settings;
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let filter = query::by_id(&self.id?.into_bson());
        let main = send::find_one(&mut conn, &self.shared.main, filter, None).await?;
        let stored = main.map(|main| {
            Ok(StoredDocument {
                has_extras: is_flagged(settings, &main),
                document: decode_main(settings, &main)?,
            })
        });
        stored.transpose()
    }
}
