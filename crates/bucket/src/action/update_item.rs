use mongo_patterns_core::FieldChange;

use crate::action::prelude::*;
use crate::form::id;
use crate::settings::Settings;
use crate::write::one_item::OneItem;

impl<K: Key, T> BucketRepository<K, T> {
    /// Sets fields of the item of a key with this id, and leaves its other fields as they are, also those that other
    /// writers change concurrently. Requires an [item id field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// orders.update_item(&123, "A-1007", doc! { "state": "sent" }).unset(["draft"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The names are those of plain fields of the item, never paths or operators, and the values are stored as they
    /// are. The item keeps its position in the history, also if its time changes. The call is idempotent.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one if the item does not exist.
    ///
    /// # Cancel safety
    /// All of the fields are changed, or none. Call it again: it is idempotent. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`InvalidArgument`] when there is no field to change, a name is not that of a plain field,
    /// occurs twice, or is that of the item's id; [`InvalidTime`] when the item would have no valid time,
    /// [`Configuration`] without an item id field, [`InvalidKey`] and [`InvalidItemId`].
    ///
    /// With nothing changed: [`NotFound`] when the key has no item with this id, [`IndexMissing`], [`TooLarge`] when
    /// its page would exceed 16 MiB, [`DuplicateKey`] by a unique index that is not of the pattern, and [`Contention`].
    pub fn update_item<Q: EncodeKey + ?Sized>(&self, key: &Q, id: impl IntoId, set: Document) -> UpdateItem<'_>
    where
        K: Borrow<Q>,
    {
        let shared = self.shared();
        UpdateItem {
            shared,
            item: OneItem::new(&shared.settings, key, id),
            set,
            unset: Vec::new(),
            session: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Sets fields of one item; returned by [`BucketRepository::update_item`].
    pub struct UpdateItem<'a> {
        shared: &'a Shared,
        item: Result<OneItem>,
        set: Document,
        unset: Vec<String>,
    }
    with session;
    "update_item" => Updated
}

impl UpdateItem<'_> {
    /// Removes these fields of the item.
    pub fn unset<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.unset.extend(fields.into_iter().map(Into::into));
        self
    }

    async fn execute(self) -> Result<Updated> {
        let item = self.item?;
        let settings = &self.shared.settings;
        let with_key = |error: Error| error.with_key(item.key.text());
        check_time(settings, &self.set, &self.unset).map_err(with_key)?;
        let fixed = "the id of an item cannot be changed, nothing was sent: remove the item and append another one";
        let change = FieldChange::new(self.set, self.unset, &[(item.field.as_str(), fixed)]).map_err(with_key)?;
        let update = change.update(&format!("{}.$.", settings.items));
        let mut session = Session::of_caller(self.session).await?;
        let updated = item.update(self.shared, update, session.as_mut()).await;
        updated.map_err(with_key)
    }
}

/// Refuses an update that leaves the item without a time with which it could be appended.
fn check_time(settings: &Settings, set: &Document, unset: &[String]) -> Result<()> {
    let Some(field) = settings.time.as_ref().map(FieldName::as_str) else {
        return Ok(());
    };
    match set.get(field) {
        Some(Bson::DateTime(time)) => id::second(*time).map(drop),
        None if unset.iter().all(|name| name != field) => Ok(()),
        _ => Err(Error::new(
            InvalidTime,
            format!(
                "the update would leave the item without a BSON date in its time field `{field}`, nothing was sent: set one"
            ),
        )),
    }
}
