use crate::action::prelude::*;
use crate::form::item::Item;
use crate::form::window::start;
use crate::query::item::replace;
use crate::write::one_item::{OneItem, no_item_id_field};

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Replaces the item of the key that has the same id. Requires an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let order = doc! { "orderId": "A-1007", "qty": 29, "date": DateTime::now() };
    /// let replaced = orders.replace_item(&123, &order).await?;
    /// println!("the order is changed: {}", replaced.modified);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The item keeps its position in the history, whatever its time. With
    /// [windows](crate::BucketRepositoryBuilder::window) the new time must be in its window. The call is idempotent.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one if the item does not exist.
    ///
    /// # Cancel safety
    /// The item is replaced or not, as a whole. Call it again: it is idempotent. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when the key has no item with this id, [`InvalidTime`] when the new time is in
    /// another window: remove the item and append it, [`Configuration`] without an item id field, and those of
    /// [`append`](Self::append).
    pub fn replace_item<Q: EncodeKey + ?Sized>(&self, key: &Q, item: &T) -> ReplaceItem<'_>
    where
        K: Borrow<Q>,
    {
        ReplaceItem {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            item: Encoded::one(item),
            session: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Replaces one item; returned by [`BucketRepository::replace_item`].
    pub struct ReplaceItem<'a> {
        shared: &'a Shared,
        key: Result<EncodedKey>,
        item: Result<Encoded>,
    }
    with session;
    "replace_item" => Updated
}

impl ReplaceItem<'_> {
    async fn execute(self) -> Result<Updated> {
        let (shared, key) = (self.shared, self.key?);
        let settings = &shared.settings;
        let item = self.item.and_then(|item| Item::new(settings, item, None));
        let item = item.map_err(|error| error.with_key(key.text()))?;
        let mut stored = OneItem::of_key(settings, key, item.id.clone().ok_or_else(no_item_id_field))?;
        stored.stays_in = item.window.map(|window| ("$eq", start(window)));
        let update = replace(settings, &stored.field, &stored.id, item.to_bson()?);
        let mut conn = shared.enter(&stored.key, self.session).await?;
        let replaced = stored.update(shared, update, &mut conn).await;
        replaced.map_err(|error| error.with_key(stored.key.text()))
    }
}
