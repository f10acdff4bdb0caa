use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::doc;
use serde::Serialize;

use crate::BucketRepository;
use crate::batch::Item;
use crate::one_item::{OneItem, no_field};
use crate::repository::Shared;

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Puts an item in the place of the one of the key that has the same id, and says whether there was one. Needs an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let order = doc! { "orderId": "A-1007", "qty": 29, "date": DateTime::now() };
    /// if !orders.replace_item(&123, &order).await? {
    ///     println!("the customer has no such order");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It keeps its place in the history, whatever its time. It may be called again when its outcome was unknown.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document.
    ///
    /// # Errors
    /// With nothing changed: [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) without an item id field,
    /// and those of [`append`](Self::append).
    pub fn replace_item<'a, Q>(&'a self, key: &Q, item: &'a T) -> ReplaceItem<'a, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        ReplaceItem {
            shared: self.shared(),
            key: key.encode_key().map_err(Error::from),
            item,
            session: None,
        }
    }
}

/// Replaces one item; made by [`BucketRepository::replace_item`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ReplaceItem<'a, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    item: &'a T,
    session: Option<&'a mut ClientSession>,
}

impl<'a, T> ReplaceItem<'a, T> {
    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, T: Serialize> IntoFuture for ReplaceItem<'a, T> {
    type Output = Result<bool>;
    type IntoFuture = ActionFuture<'a, bool>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            key,
            item,
            session,
        } = self;
        let item = Item::encode(&shared.settings, item, None);
        run(shared.operation("replace_item"), |_| async move {
            let (key, item) = (key?, item?);
            let settings = &shared.settings;
            let place = OneItem::new(settings, key, item.id.clone().ok_or_else(no_field)?)?;
            let _gate = match session {
                None => Some(shared.gates.pass(place.key.text()).await),
                Some(_) => None,
            };
            // The position is that of the element which the filter's path matched.
            let set = doc! { "$set": { format!("{}.$", settings.items): item.to_bson()? } };
            let mut update = shared
                .collection
                .update_one(place.filter(settings), set)
                .hint(place.hint());
            if let Some(session) = session {
                update = update.session(session);
            }
            match update.await {
                Ok(updated) => Ok(updated.matched_count > 0),
                Err(error) => Err(place.failed(shared, error).with_key(place.key.text())),
            }
        })
    }
}
