use mongo_patterns_core::update::{self, Operator, Operators};
use mongodb::options::UpdateModifications;

use crate::action::prelude::*;
use crate::form::id;
use crate::form::window::start;
use crate::settings::Settings;
use crate::write::one_item::OneItem;

impl<K: Key, T> BucketRepository<K, T> {
    /// Updates the item of a key with this id by [operators](#operators), and leaves its other fields as they are, also those
    /// that other writers change concurrently. Requires an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
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
    /// again. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
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
    ) -> UpdateItem<'_>
    where
        K: Borrow<Q>,
    {
        let shared = self.shared();
        UpdateItem::create(shared, OneItem::new(&shared.settings, key, id), update.into())
    }
}

mongo_patterns_core::action! {
    /// Updates one item; returned by [`BucketRepository::update_item`].
    pub struct UpdateItem<'a> {
        shared: &'a Shared,
        item: Result<OneItem>,
        update: UpdateModifications,
    }
    with session;
    "update_item" => Updated
}

impl UpdateItem<'_> {
    async fn execute(self) -> Result<Updated> {
        let mut item = self.item?;
        let settings = &self.shared.settings;
        let key = item.key.clone();
        let with_key = |error: Error| error.with_key(key.text());
        let fixed = "the id of an item cannot be changed, nothing was sent: remove the item and append another one";
        let operators = Operators::of_element(self.update, &[(item.field.as_str(), fixed)]).map_err(with_key)?;
        item.stays_in = check_time(settings, &operators).map_err(with_key)?;
        let change = operators.under(&format!("{}.$.", settings.items));
        let mut conn = self.shared.enter(&key, self.session).await?;
        let updated = item.update(self.shared, change, &mut conn).await;
        updated.map_err(|error| with_key(update::failed(error)))
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
