//! The calls that write.

use std::borrow::Borrow;

use mongo_patterns_core::ErrorKind::InvalidTime;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    Configuration, Contention, Corrupt, DuplicateKey, IndexMissing, InvalidArgument, InvalidItemId, InvalidKey,
    NotFound, TooLarge, Unsupported,
};
use mongo_patterns_core::action::Write;
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::update::{self, Operator, Operators};
use mongo_patterns_core::{Deleted, EncodeKey, Error, FieldName, IntoId, Key, Removed, Result, Updated};
use mongodb::bson::{Bson, DateTime};
use mongodb::options::UpdateModifications;
use serde::Serialize;

use crate::form::id;
use crate::form::item::Item;
use crate::form::window::start;
use crate::query::item::replace;
use crate::repository::BucketRepository;
use crate::settings::Settings;
use crate::write::delete::delete;
use crate::write::one_item::{OneItem, no_item_id_field};
use crate::write::removal::Removal;

impl<K: Key, T> BucketRepository<K, T> {
    /// Deletes all buckets of a key, with their items.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let deleted = trades.delete_key(&123).await?;
    /// println!("the key had a history: {}, of {} pages", deleted.found, deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It deletes by equality on the key field and by the `_id`, in the encoded and in a hand-written form. So it never
    /// deletes a bucket of another key. A bucket whose `_id` or key field does not name the key stays:
    /// [`verify`](Self::verify) finds it, and after a [`repair`](Self::repair) it is deleted too.
    ///
    /// # Guarantees
    /// - It is idempotent: a second call deletes what is left, and `found` is `false` if nothing is.
    /// - When it returns, all buckets that existed at the call are deleted, also if another process moved items between
    ///   them concurrently.
    /// - An item that is appended concurrently is deleted, or stored in a new bucket. An item is never left in part. A
    ///   batch of this process's clones of the repository is deleted or stored as a whole. A batch of several commands
    ///   of another process, or in a session, can lose the items of its first commands.
    /// - Outside of a transaction the buckets are deleted one after the other, and readers can see a part of them.
    ///
    /// # Cost
    /// Two round trips: `deleteMany`, and a read that finds no bucket any more. Both are repeated while it finds one.
    /// One round trip in a transaction. The server examines the buckets of the key.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller all buckets are deleted at once, in one round trip, or none. The server ends a
    /// transaction after 60 seconds. A concurrent append to the open bucket conflicts with it.
    ///
    /// # Cancel safety
    /// All, some or no buckets are deleted, each as a whole. Call it again: it deletes the rest.
    ///
    /// # Errors
    /// [`InvalidKey`] with nothing deleted, [`Contention`] when other writers append to the key for as long as the
    /// [retry policy](crate::BucketRepositoryBuilder::retry) allows, so that it still has buckets, and those of the
    /// driver. Some buckets can be deleted then: call it again.
    pub fn delete_key<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Write<'_, Deleted>
    where
        K: Borrow<Q>,
    {
        let (shared, key) = (self.shared(), key.encode_key().map_err(Error::from));
        Write::new(shared.operation("delete_key"), async move |session| {
            let key = key?;
            let mut conn = shared.enter(&key, session).await?;
            let deleted = delete(shared, &key, &mut conn).await;
            deleted.map_err(|error| error.with_key(key.text()))
        })
    }
}

impl<K: Key, T> BucketRepository<K, T> {
    /// Removes the item of a key with this id, if it exists. Requires an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
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
    pub fn remove_item<Q: EncodeKey + ?Sized>(&self, key: &Q, id: impl IntoId) -> Write<'_, Removed>
    where
        K: Borrow<Q>,
    {
        let shared = self.shared();
        let item = OneItem::new(&shared.settings, key, id);
        Write::new(shared.operation("remove_item"), async move |session| {
            let item = item?;
            let removal = Removal { shared, item: &item };
            let mut conn = shared.enter(&item.key, session).await?;
            let found = removal.remove(&mut conn).await;
            found.map(Removed::new).map_err(|error| error.with_key(item.key.text()))
        })
    }
}

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Replaces the item of the key that has the same id. Requires an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
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
    /// The item is replaced or not, as a whole. Call it again: it is idempotent.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when the key has no item with this id, [`InvalidTime`] when the new time is in
    /// another window: remove the item and append it, [`Configuration`] without an item id field, and those of
    /// [`append`](Self::append).
    pub fn replace_item<Q: EncodeKey + ?Sized>(&self, key: &Q, item: &T) -> Write<'_, Updated>
    where
        K: Borrow<Q>,
    {
        let (shared, key, item) = (self.shared(), key.encode_key().map_err(Error::from), Encoded::one(item));
        Write::new(shared.operation("replace_item"), async move |session| {
            let (shared, key) = (shared, key?);
            let settings = &shared.settings;
            let item = item.and_then(|item| Item::new(settings, item, None));
            let item = item.map_err(|error| error.with_key(key.text()))?;
            let mut stored = OneItem::of_key(settings, key, item.id.clone().ok_or_else(no_item_id_field))?;
            stored.stays_in = item.window.map(|window| ("$eq", start(window)));
            let update = replace(settings, &stored.field, &stored.id, item.to_bson()?);
            let mut conn = shared.enter(&stored.key, session).await?;
            let replaced = stored.update(shared, update, &mut conn).await;
            replaced.map_err(|error| error.with_key(stored.key.text()))
        })
    }
}

impl<K: Key, T> BucketRepository<K, T> {
    /// Updates the item of a key with this id by [operators](#operators), and leaves its other fields as they are, also those
    /// that other writers change concurrently. Requires an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
    /// let sent = doc! { "$set": { "state": "sent" }, "$unset": { "draft": "" }, "$inc": { "changes": 1 } };
    /// orders.update_item(&123, "A-1007", sent).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The item keeps its position in the history, also if its time changes. With
    /// [windows](crate::BucketRepositoryBuilder::window) its time stays in its window.
    ///
    /// # Operators
    /// `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$currentDate`, `$push`, `$pull` and `$addToSet`, with MongoDB's
    /// meanings. Their paths are relative to the item: fields, and fields inside them such as `price.amount`. The server
    /// applies them to the item with this id, in one atomic command: concurrent increments all count. As in the driver, a
    /// document with `$each` in a `$push` or `$addToSet` is a modifier, and the value of a `$pull` is a condition.
    ///
    /// Refused, with nothing sent: a document without operators, other operators, a pipeline, which the server applies to
    /// whole documents only, positional operators in paths (`$`, `$[]`, `$[x]`), two paths of which one contains the other,
    /// and the id of the item. A number in a path is the position of an element. The time of the item can be
    /// changed by `$set`, `$min` and `$max` to a date, and, without windows, by `$currentDate`.
    ///
    /// An update with `$inc`, `$mul` or `$push` is not idempotent. The others are, except `$currentDate`, which sets the time
    /// again.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one if the item does not exist, or to compute
    /// the [figures](crate::BucketRepositoryBuilder::sum) of its bucket from the changed items. If that one fails, the item
    /// is changed all the same, and [`totals`](Self::totals) take the items of the bucket until the figures are computed.
    ///
    /// # Cancel safety
    /// All of the operators are applied, or none. Call an idempotent update again; read the item before you call another one
    /// again.
    ///
    /// # Errors
    /// With nothing sent: [`InvalidArgument`] for the refused updates above, and when a field with figures could have no
    /// valid value, [`InvalidTime`] when the item could have no valid time, [`Configuration`] without an item id field,
    /// [`InvalidKey`] and [`InvalidItemId`].
    ///
    /// With nothing changed: [`NotFound`] when the key has no item with this id, [`InvalidTime`] when the new time is in
    /// another window: remove the item and append it, [`InvalidArgument`] when the update does not
    /// suit the stored item, such as `$inc` of a text, [`IndexMissing`], [`TooLarge`] when its page would exceed 16 MiB,
    /// [`DuplicateKey`] by a unique index that is not of the pattern, and [`Contention`].
    pub fn update_item<Q: EncodeKey + ?Sized>(
        &self,
        key: &Q,
        id: impl IntoId,
        update: impl Into<UpdateModifications>,
    ) -> Write<'_, Updated>
    where
        K: Borrow<Q>,
    {
        let shared = self.shared();
        let (item, update) = (OneItem::new(&shared.settings, key, id), update.into());
        Write::new(shared.operation("update_item"), async move |session| {
            let mut item = item?;
            let settings = &shared.settings;
            let key = item.key.clone();
            let with_key = |error: Error| error.with_key(key.text());
            let fixed = "the id of an item cannot be changed, nothing was sent: remove the item and append another one";
            let operators = Operators::of_element(update, &[(item.field.as_str(), fixed)]).map_err(with_key)?;
            item.stays_in = check_time(settings, &operators).map_err(with_key)?;
            let change = operators.under(&format!("{}.$.", settings.items));
            let mut conn = shared.enter(&key, session).await?;
            let updated = item.update(shared, change, &mut conn).await;
            updated.map_err(|error| with_key(update::failed(error)))
        })
    }
}

/// Refuses an update that can leave the item without a time with which it could be appended. Returns the windows in which
/// the item stays, if it changes the time and there are windows.
fn check_time(settings: &Settings, operators: &Operators) -> Result<Option<(&'static str, DateTime)>> {
    let Some(field) = settings.time.as_ref().map(FieldName::as_str) else {
        return Ok(None);
    };
    let mut stays_in = None;
    for change in operators.changes_of(field) {
        match (change.operator, change.value) {
            (Operator::Set | Operator::Min | Operator::Max, Bson::DateTime(time)) if change.is_whole => {
                id::second(*time)?;
                let operator = match change.operator {
                    Operator::Min => "$lte",
                    Operator::Max => "$gte",
                    _ => "$eq",
                };
                let window = settings.windows.as_ref().map(|windows| windows.of_time(*time));
                stays_in = window.map(|window| (operator, start(window)));
            }
            (Operator::CurrentDate, _) if settings.windows.is_some() => {
                return Err(Error::new(
                    InvalidTime,
                    "the time of the server can be in another window than the item, nothing was sent: use $set with a date",
                ));
            }
            (Operator::CurrentDate, date) if change.is_whole && !is_timestamp(date) => {}
            _ => {
                return Err(Error::new(
                    InvalidTime,
                    format!(
                        "the update could leave the item without a BSON date in its time field `{field}`, nothing was sent: use $set, $min or $max with a date, or $currentDate"
                    ),
                ));
            }
        }
    }
    Ok(stays_in)
}

fn is_timestamp(date: &Bson) -> bool {
    let kind = date.as_document().and_then(|date| date.get_str("$type").ok());
    kind == Some("timestamp")
}
