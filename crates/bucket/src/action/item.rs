use std::borrow::Borrow;
use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, Error, IntoId, Key, Result, send};
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::BucketRepository;
use crate::form::document::read_item;
use crate::form::item_id::ItemId;
use crate::repository::Shared;
use crate::write::one_item::OneItem;

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// The item of a key that has this id, if there is one. Needs an
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
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) without an item id field,
    /// [`InvalidKey`](mongo_patterns_core::ErrorKind::InvalidKey),
    /// [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId) for an id of a type that ids cannot have,
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing), and
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode).
    pub fn item<Q>(&self, key: &Q, id: impl IntoId) -> FindItem<'_, T>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let shared = self.shared();
        let key = key.encode_key().map_err(Error::from);
        let id = id.into_id().and_then(ItemId::from_bson);
        FindItem {
            shared,
            item: key.and_then(|key| OneItem::new(&shared.settings, key, id)),
            session: None,
            types: PhantomData,
        }
    }
}

/// Finds one item; made by [`BucketRepository::item`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let order: Option<Document> = trades.item(&123, "A-1007").session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct FindItem<'a, T> {
    shared: &'a Shared,
    item: Result<OneItem>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> T>,
}

mongo_patterns_core::redacted_debug!(FindItem<'_, T>);

impl<'a, T: DeserializeOwned> FindItem<'a, T> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Option<T>> {
        let item = self.item?;
        let Shared {
            collection, settings, ..
        } = self.shared;
        let only = doc! { "$elemMatch": { item.field.as_str(): item.id.to_bson() } };
        let options = FindOneOptions::builder()
            .projection(doc! { settings.items.as_str(): only })
            .hint(item.hint())
            .build();
        let mut session = Session::of_caller(self.session).await?;
        let found = send::find_one(session.as_mut(), collection, item.filter(settings), options).await;
        let found = found.map_err(|error| item.failed(self.shared, error).with_key(item.key.text()))?;
        found.map_or(Ok(None), |bucket| {
            read_item(settings, &bucket).map_err(|error| error.with_key(item.key.text()))
        })
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for FindItem<'a, T> {
    type Output = Result<Option<T>>;
    type IntoFuture = ActionFuture<'a, Option<T>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("item"), |_| self.execute())
    }
}
