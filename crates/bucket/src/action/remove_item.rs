use std::borrow::Borrow;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::transaction::hold;
use mongo_patterns_core::{EncodeKey, Error, ErrorKind, IntoId, Key, Result, send, transaction};
use mongodb::ClientSession;
use mongodb::bson::{Bson, RawDocumentBuf, doc};

use crate::form::chain::Chain;
use crate::form::item_id::ItemId;
use crate::repository::Shared;
use crate::write::one_item::OneItem;
use crate::{BucketRepository, query};

impl<K: Key, T> BucketRepository<K, T> {
    /// Removes the item of a key that has this id, and says whether there was [one](Removed::found). Needs an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field).
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
    /// Every page but the last stays full: where the item's page is full, the items after it move up, in one transaction.
    /// The pages keep their names, and page tokens stay good. An item that was removed is new again, if it is appended.
    ///
    /// # Cost
    /// Two round trips when the item is in the open bucket. Else some six, in which all pages from the item's to the last
    /// are read, and written anew, all at once: use another schema where old items of long histories are removed all the
    /// time. Where there is no such item, one.
    ///
    /// # In a session
    /// In a transaction that is under way there, everything is done in it. Otherwise it is as without a session.
    ///
    /// # Cancel safety
    /// The item is removed or not, and the items after it move up with it or not at all. Call it again:
    /// [`found`](Removed::found) is `false` where the item is removed. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`Unsupported`](ErrorKind::Unsupported) on a standalone, when the item's page is full, as it
    /// has no transactions, and when a bucket with fields of your own would go away;
    /// [`Configuration`](ErrorKind::Configuration) without an item id field, [`InvalidKey`](ErrorKind::InvalidKey),
    /// [`InvalidItemId`](ErrorKind::InvalidItemId), [`IndexMissing`](ErrorKind::IndexMissing),
    /// [`Contention`](ErrorKind::Contention), and [`Corrupt`](ErrorKind::Corrupt) when a bucket breaks the rules.
    pub fn remove_item<Q>(&self, key: &Q, id: impl IntoId) -> RemoveItem<'_>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let shared = self.shared();
        let key = key.encode_key().map_err(Error::from);
        let id = id.into_id().and_then(ItemId::from_bson);
        RemoveItem {
            shared,
            item: key.and_then(|key| OneItem::new(&shared.settings, key, id)),
            session: None,
        }
    }
}

/// Removes one item; made by [`BucketRepository::remove_item`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// trades.remove_item(&123, "A-1007").session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct RemoveItem<'a> {
    shared: &'a Shared,
    item: Result<OneItem>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(RemoveItem<'_>);

/// What a removal did.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let removed = trades.remove_item(&123, "A-1007").await?;
/// println!("there was one: {}", removed.found);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Whether there was such an item.
    pub found: bool,
}

impl<'a> RemoveItem<'a> {
    /// Removes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Removed> {
        let item = self.item?;
        let removal = Removal {
            shared: self.shared,
            item: &item,
        };
        let mut session = Session::of_caller(self.session).await?;
        let found = removal.run(session.as_mut()).await;
        let found = found.map_err(|error| error.with_key(item.key.text()))?;
        Ok(Removed { found })
    }
}

impl<'a> IntoFuture for RemoveItem<'a> {
    type Output = Result<Removed>;
    type IntoFuture = ActionFuture<'a, Removed>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("remove_item"), |_| self.execute())
    }
}

/// Which bucket an item is in.
struct Place {
    bucket: Bson,
    /// How many items that has, where it can be known.
    count: Option<i64>,
}

#[derive(Clone, Copy)]
struct Removal<'a> {
    shared: &'a Shared,
    item: &'a OneItem,
}

impl Removal<'_> {
    async fn run(self, mut session: Option<&mut Session<'_>>) -> Result<bool> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let page_size = i64::from(settings.page_size);
        let Some(place) = self.find(session.as_deref_mut()).await? else {
            return Ok(false);
        };
        if place.count.is_some_and(|count| count < page_size || page_size == 1)
            && self.take(&place, session.as_deref_mut()).await?
        {
            return Ok(true);
        }
        let locked = match Session::locks_keys(session.as_deref()) {
            true => self.shared.locks.exclusive(self.item.key.text()).await,
            false => LockedKeys::default(),
        };
        let context = (self, false);
        transaction::run(
            collection,
            &settings.retry,
            session,
            locked,
            context,
            |session, (removal, is_again)| {
                Box::pin(async move {
                    if std::mem::replace(is_again, true) {
                        removal.hold(session).await?;
                    }
                    removal.move_up(session).await
                })
            },
        )
        .await
    }

    async fn find(self, session: Option<&mut Session<'_>>) -> Result<Option<Place>> {
        let settings = &self.shared.settings;
        let found = self.item.find(self.shared, session).await?;
        let place = |found: RawDocumentBuf| -> Option<Place> {
            let count = found.get(settings.count.as_str()).ok().flatten();
            Some(Place {
                bucket: found.get("_id").ok()??.try_into().ok()?,
                count: count.and_then(stored_integer),
            })
        };
        Ok(found.and_then(place))
    }

    /// Takes it out of a bucket that is open, and stays so, or goes away with its only item. Returns whether that was
    /// still so.
    async fn take(self, place: &Place, session: Option<&mut Session<'_>>) -> Result<bool> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let failed = |error| self.item.failed(self.shared, error);
        let _locked = match session {
            None => Some(self.shared.locks.shared(self.item.key.text()).await),
            Some(_) => None,
        };
        if place.count == Some(1) {
            let filter = self.item.filter_in(settings, &place.bucket, doc! { "$eq": 1 });
            let deleted = send::delete_one(session, collection, filter, None).await;
            return Ok(deleted.map_err(failed)?.deleted_count > 0);
        }
        let open = doc! { "$gt": 1, "$lt": settings.page_size_bson() };
        let filter = self.item.filter_in(settings, &place.bucket, open);
        let pull = doc! {
            "$pull": { settings.items.as_str(): { self.item.field.as_str(): self.item.id.to_bson() } },
            "$inc": { settings.count.as_str(): -1 },
        };
        let pulled = send::update_one(session, collection, filter, pull, None).await;
        Ok(pulled.map_err(failed)?.matched_count > 0)
    }

    /// In a transaction that was run before, when other writers were faster.
    async fn hold(self, session: &mut Session<'_>) -> Result<()> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        hold(collection, query::open_bucket(settings, &self.item.key), session).await
    }

    /// In a transaction: takes it out, and moves the items after it up.
    async fn move_up(self, session: &mut Session<'_>) -> Result<bool> {
        let Some(place) = self.find(Some(&mut *session)).await? else {
            return Ok(false);
        };
        let key = &self.item.key;
        let Some(tail) = place.bucket.as_str().and_then(|id| key.tail(id)) else {
            return Err(Error::corrupt(
                place.bucket,
                "_id",
                "the bucket of the item has an `_id` that is not of its key, nothing was changed: repair it",
            ));
        };
        let chain = Chain::load(self.shared, key, tail, session).await?;
        let mut items = chain.items()?;
        let is_item = |value: mongodb::bson::RawBsonRef<'_>| {
            let id = value
                .as_document()
                .and_then(|item| item.get(self.item.field.as_str()).ok().flatten());
            id.and_then(ItemId::from_stored).as_ref() == Some(&self.item.id)
        };
        let Some(at) = items.iter().position(|item| is_item(item.value)) else {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the item's id is stored in a form that this crate does not store, nothing was changed: replace it first",
            )
            .at(place.bucket, self.item.path.as_str()));
        };
        items.remove(at);
        chain.plan(&items)?.apply(&self.shared.collection, session).await?;
        Ok(true)
    }
}
