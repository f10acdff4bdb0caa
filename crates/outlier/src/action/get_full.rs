use super::prelude::*;
use crate::form::document::{decode_main, elements_of, is_flagged, whole};

impl<D: DeserializeOwned, E> OutlierRepository<D, E> {
    /// Reads a document with all its elements in its array, in order. `None` when the document does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # #[derive(serde::Deserialize)]
    /// # struct Book { customers_purchased: Vec<String> }
    /// # async fn f(books: OutlierRepository<Book, String>) -> mongo_patterns_core::Result<()> {
    /// if let Some(book) = books.get_full(2).await? {
    ///     println!("{} customers", book.customers_purchased.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The document has every element whose push returned before the call. Main document and overflow documents are
    /// read one after another. If a [`rebalance`](Self::rebalance) or [`migrate_existing`](Self::migrate_existing)
    /// moves elements of this list concurrently, the result can have some of them twice, or not at all. Read in a
    /// transaction where that matters.
    ///
    /// # Cost
    /// One round trip for a typical document. For an outlier a second one, and one more for each 16 MB of overflow
    /// documents. The whole list is held in memory: [`elements`](Self::elements) streams.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`Corrupt`] when elements are not an array.
    pub fn get_full(&self, id: impl IntoId) -> GetFull<'_, D> {
        GetFull::create(self.shared(), DocumentId::new(id), PhantomData)
    }
}

action! {
    /// Reads a document with all its elements; returned by [`OutlierRepository::get_full`].
    pub struct GetFull<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;
    "get_full" => Option<D> where D: DeserializeOwned + 'a
}

impl<D: DeserializeOwned> GetFull<'_, D> {
    async fn execute(self) -> Result<Option<D>> {
        let (main, in_overflow, settings) = self.shared.parts();
        let id = self.id?.into_bson();
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let Some(main) = send::find_one(&mut conn, main, query::by_id(&id), None).await? else {
            return Ok(None);
        };
        drop(elements_of(&main, settings.array.as_str())?);
        if !is_flagged(settings, &main) {
            return decode_main(settings, &main).map(Some);
        }
        let in_order = FindOptions::builder().sort(query::by_position(settings)).build();
        let filter = query::overflow_of(settings, &id);
        let overflow = send::find_all(&mut conn, in_overflow, filter, in_order).await?;
        let whole = whole(settings, &main, &overflow).map_err(|error| error.of_collection(in_overflow))?;
        decode_main(settings, &whole).map(Some)
    }
}
