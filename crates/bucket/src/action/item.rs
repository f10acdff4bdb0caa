use crate::action::prelude::*;
use crate::form::document::read_item;
use crate::query::item::only_item;
use crate::write::one_item::OneItem;

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Returns the item of a key with this id, if it exists. Requires an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// if let Some(order) = orders.item(&123, "A-1007").await? {
    ///     println!("{order}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, in which the server examines one document, and sends the one item.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`Configuration`] without an item id field, [`InvalidKey`], [`InvalidItemId`] for an id of an unsupported type,
    /// [`IndexMissing`], and [`Decode`].
    pub fn item<Q: EncodeKey + ?Sized>(&self, key: &Q, id: impl IntoId) -> FindItem<'_, T>
    where
        K: Borrow<Q>,
    {
        let shared = self.shared();
        FindItem {
            shared,
            item: OneItem::new(&shared.settings, key, id),
            types: PhantomData,
            session: None,
            max_time: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Reads one item; returned by [`BucketRepository::item`].
    pub struct FindItem<'a, T> {
        shared: &'a Shared,
        item: Result<OneItem>,
        types: PhantomData<fn() -> T>,
    }
    with session, max_time;
    "item" => Option<T> where T: DeserializeOwned + 'a
}

impl<T: DeserializeOwned> FindItem<'_, T> {
    async fn execute(self) -> Result<Option<T>> {
        let item = self.item?;
        let (collection, settings) = self.shared.parts();
        let options = FindOneOptions::builder()
            .projection(only_item(settings, &item.field, &item.id))
            .hint(item.hint())
            .build();
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = send::find_one(&mut conn, collection, item.filter(settings), options).await;
        let found = found.map_err(|error| item.failed(self.shared, error).with_key(item.key.text()))?;
        found.map_or(Ok(None), |bucket| {
            read_item(settings, &bucket).map_err(|error| error.with_key(item.key.text()))
        })
    }
}
