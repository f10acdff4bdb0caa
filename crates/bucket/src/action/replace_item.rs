use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::doc;
use serde::Serialize;

use super::Updated;
use crate::BucketRepository;
use crate::form::item::Item;
use crate::repository::Shared;
use crate::write::one_item::{OneItem, no_field};

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Puts an item in the place of the one of the key that has the same id. Needs an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let order = doc! { "orderId": "A-1007", "qty": 29, "date": DateTime::now() };
    /// let replaced = orders.replace_item(&123, &order).await?;
    /// println!("anything is other than before: {}", replaced.modified);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It keeps its place in the history, whatever its time. It may be called again when its outcome was unknown.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one where there is no such item.
    ///
    /// # Cancel safety
    /// The item is replaced or not, as a whole. Call it again: it is idempotent. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when the key has no item with this id,
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) without an item id field, and those of
    /// [`append`](Self::append).
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
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let order = doc! { "orderId": "A-1007", "qty": 29 };
/// trades.replace_item(&123, &order).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct ReplaceItem<'a, T> {
    shared: &'a Shared,
    key: Result<EncodedKey>,
    item: &'a T,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(ReplaceItem<'_, T>);

impl<'a, T> ReplaceItem<'a, T> {
    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, T: Serialize> IntoFuture for ReplaceItem<'a, T> {
    type Output = Result<Updated>;
    type IntoFuture = ActionFuture<'a, Updated>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            key,
            item,
            session,
        } = self;
        let item = Item::encode(&shared.settings, item, None);
        run(shared.operation("replace_item"), |_| async move {
            let key = key?;
            let item = item.map_err(|error| error.with_key(key.text()))?;
            let settings = &shared.settings;
            let place = OneItem::new(settings, key, item.id.clone().ok_or_else(no_field))?;
            // The position is that of the element which the filter's path matched.
            let set = doc! { "$set": { format!("{}.$", settings.items): item.to_bson()? } };
            let mut session = Session::of_caller(session).await?;
            let replaced = place.change(shared, set, session.as_mut()).await;
            replaced.map_err(|error| error.with_key(place.key.text()))
        })
    }
}
