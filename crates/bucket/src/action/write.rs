//! The calls that write.

use std::borrow::Borrow;

use mongo_patterns_core::ErrorKind::InvalidTime;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    Configuration, Contention, Corrupt, InvalidArgument, NotFound, TooLarge, Unsupported,
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
    /// It never deletes a bucket of another key. A bucket whose `_id` or key field does not name the key stays.
    /// [`verify`](Self::verify) finds it, and after a [`repair`](Self::repair) it is deleted too.
    ///
    /// # Guarantees
    /// - Idempotent: a second call deletes what is left, and `found` is `false` if nothing is.
    /// - When it returns, all buckets that existed at the call are deleted, also if another process moved items between
    ///   them.
    /// - An item that is appended concurrently is deleted, or stored in a new bucket.
    /// - A batch of this process is deleted or stored as a whole. A batch of several commands, by another process or in a
    ///   session, can lose the items of its first commands.
    /// - Outside of a transaction, readers can see a part of the buckets.
    ///
    /// # Cost
    /// Two round trips: `deleteMany`, and a read that finds no bucket any more. Both are repeated while the read finds one.
    /// One round trip in a transaction. The server examines the buckets of the key.
    ///
    /// # Sessions and transactions
    /// All buckets are deleted in one round trip. The server ends a transaction after 60 seconds. A concurrent append to the
    /// open bucket conflicts.
    ///
    /// # Cancel safety
    /// All, some or no buckets are deleted. Call it again.
    ///
    /// # Errors
    /// - [`Contention`]: other writers append to the key for as long as the [retry
    ///   policy](crate::BucketRepositoryBuilder::retry) allows. Some buckets can be deleted: call it again.
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
    /// Every page but the last stays full: the items after it move up, in one transaction. The pages keep their ids, and
    /// page tokens stay valid. A removed item can be appended again.
    ///
    /// # Cost
    /// Two round trips when the item is in the open bucket, one if it does not exist. Otherwise about six: all pages from
    /// its page to the last are read and rewritten. So use another schema if old items of long histories are often removed.
    ///
    /// # Cancel safety
    /// The item is removed or not. Call it again: [`found`](Removed::found) is `false` if it is removed.
    ///
    /// # Errors
    /// - [`Configuration`]: the repository has no item id field.
    /// - [`Corrupt`]: a bucket violates the invariants.
    /// - [`Unsupported`]: the page of the item is full, and the server is a standalone. Or a bucket with fields of your own
    ///   would be removed.
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
    /// One round trip, in which the server examines one document. Two if the item does not exist.
    ///
    /// # Cancel safety
    /// The item is replaced or not. Call it again.
    ///
    /// # Errors
    /// - [`NotFound`]: the key has no item with this id.
    /// - [`InvalidTime`]: the new time is in another window: remove the item and append it.
    /// - [`Configuration`]: the repository has no item id field.
    /// - The errors of [`append`](Self::append).
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
    /// Updates the item of a key with this id by [operators](#operators), and leaves its other fields as they are. Requires
    /// an [item id field](crate::BucketRepositoryBuilder::item_id_field).
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
    /// [All calls](mongo_patterns_core::action#operators) have the same operators. Paths are relative to the item, such as
    /// `price.amount`.
    ///
    /// Also refused, with nothing sent:
    ///
    /// - a pipeline,
    /// - positional operators in paths (`$`, `$[]`, `$[x]`), and two paths if one contains the other,
    /// - a change of the item's id,
    /// - a change of its time, except `$set`, `$min` and `$max` to a date, and, without windows, `$currentDate`.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one if the item does not exist, or to compute the
    /// [figures](crate::BucketRepositoryBuilder::sum) of its bucket from the items. If the second one fails, the item is
    /// changed, and [`totals`](Self::totals) read the items until the figures are computed.
    ///
    /// # Cancel safety
    /// All of the operators are applied, or none. Call an idempotent update again. Otherwise read the item first.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a refused update, an invalid value in a field with figures, or an update that does not suit
    ///   the item, such as `$inc` of a text.
    /// - [`InvalidTime`]: the item could have no valid time, or a time in another window: remove the item and append it.
    /// - [`Configuration`]: the repository has no item id field.
    /// - [`NotFound`]: the key has no item with this id.
    /// - [`TooLarge`]: its page would exceed 16 MiB.
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
