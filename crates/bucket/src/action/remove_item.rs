use crate::action::prelude::*;
use crate::write::one_item::OneItem;
use crate::write::removal::Removal;

impl<K: Key, T> BucketRepository<K, T> {
    /// Removes the item of a key with this id, if it exists. Requires an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let removed = orders.remove_item(&123, "A-1007").await?;
    /// if !removed.found {
    ///     println!("the customer has no such order");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Every page but the last stays full: if the page of the item is full, the items after it move up, in one
    /// transaction. The pages keep their ids, and page tokens stay valid. A removed item can be appended again.
    ///
    /// # Cost
    /// Two round trips when the item is in the open bucket. Otherwise about six, in which all pages from the item's to
    /// the last are read and rewritten at once. Use another schema where old items of long histories are removed all
    /// the time. One round trip if the item does not exist.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, everything runs in it. In a session without one, it works as without a session.
    ///
    /// # Cancel safety
    /// The item is removed or not, and the items after it move up with the removal or not at all. Call it again:
    /// [`found`](Removed::found) is `false` if the item is removed. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`Configuration`] without an item id field, [`InvalidKey`], [`InvalidItemId`],
    /// [`IndexMissing`], [`Contention`], and [`Corrupt`] when a bucket violates the invariants. [`Unsupported`] on a
    /// standalone, which has no transactions, when the page of the item is full. [`Unsupported`] also when a bucket
    /// with fields that are not of the pattern would be removed.
    pub fn remove_item<Q: EncodeKey + ?Sized>(&self, key: &Q, id: impl IntoId) -> RemoveItem<'_>
    where
        K: Borrow<Q>,
    {
        let shared = self.shared();
        RemoveItem {
            shared,
            item: OneItem::new(&shared.settings, key, id),
            session: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Removes one item; returned by [`BucketRepository::remove_item`].
    pub struct RemoveItem<'a> {
        shared: &'a Shared,
        item: Result<OneItem>,
    }
    with session;
    "remove_item" => Removed
}

impl RemoveItem<'_> {
    async fn execute(self) -> Result<Removed> {
        let item = self.item?;
        let removal = Removal {
            shared: self.shared,
            item: &item,
        };
        let mut conn = self.shared.enter(&item.key, self.session).await?;
        let found = removal.run(&mut conn).await;
        found.map(Removed::new).map_err(|error| error.with_key(item.key.text()))
    }
}
