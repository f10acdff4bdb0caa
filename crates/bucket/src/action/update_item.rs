use std::borrow::Borrow;
use std::fmt;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodeKey, Error, ErrorKind, FieldChange, FieldName, IntoId, Key, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document};

use crate::BucketRepository;
use crate::form::id;
use crate::form::item_id::ItemId;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::one_item::OneItem;

impl<K: Key, T> BucketRepository<K, T> {
    /// Changes fields of the item of a key that has this id, and leaves its others as they are, whoever changes those at
    /// the same time. Needs an [item id field](crate::BucketRepositoryBuilder::item_id_field).
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
    /// The names are those of plain fields of the item, never paths or operators, and the values are stored as they are.
    /// It keeps its place in the history, also where its time changes. It may be called again when its outcome was unknown.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one where there is no such item.
    ///
    /// # Cancel safety
    /// All of the fields are changed, or none. Call it again: it is idempotent. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`InvalidArgument`](ErrorKind::InvalidArgument) when there is nothing to change, a name is none
    /// of a plain field or comes twice, or it is that of the item's id, [`InvalidTime`](ErrorKind::InvalidTime) when the
    /// item would have no usable time, [`Configuration`](ErrorKind::Configuration) without an item id field,
    /// [`InvalidKey`](ErrorKind::InvalidKey) and [`InvalidItemId`](ErrorKind::InvalidItemId).
    ///
    /// With nothing changed: [`NotFound`](ErrorKind::NotFound) when the key has no item with this id,
    /// [`IndexMissing`](ErrorKind::IndexMissing), [`TooLarge`](ErrorKind::TooLarge) when its page would pass 16 MiB,
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) by a unique index of your own, and
    /// [`Contention`](ErrorKind::Contention).
    pub fn update_item<Q>(&self, key: &Q, id: impl IntoId, set: Document) -> UpdateItem<'_>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let shared = self.shared();
        let key = key.encode_key().map_err(Error::from);
        let id = id.into_id().and_then(ItemId::from_bson);
        UpdateItem {
            shared,
            item: key.and_then(|key| OneItem::new(&shared.settings, key, id)),
            set,
            unset: Vec::new(),
            session: None,
        }
    }
}

/// Changes fields of one item; made by [`BucketRepository::update_item`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let sent = doc! { "state": "sent" };
/// trades.update_item(&123, "A-1007", sent).unset(["draft"]).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct UpdateItem<'a> {
    shared: &'a Shared,
    item: Result<OneItem>,
    set: Document,
    unset: Vec<String>,
    session: Option<&'a mut ClientSession>,
}

/// What a change or a replacement of an item did.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let updated = trades.update_item(&123, "A-1007", doc! { "state": "sent" }).await?;
/// println!("it was not sent before: {}", updated.modified);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// Whether anything is other than before.
    pub modified: bool,
}

impl<'a> UpdateItem<'a> {
    /// Removes these fields of the item.
    pub fn unset<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.unset.extend(fields.into_iter().map(Into::into));
        self
    }

    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Updated> {
        let item = self.item?;
        let settings = &self.shared.settings;
        let with_key = |error: Error| error.with_key(item.key.text());
        check_time(settings, &self.set, &self.unset).map_err(with_key)?;
        let fixed = "the id of an item cannot be changed, and nothing was sent: remove it and append another";
        let change = FieldChange::new(self.set, self.unset, &[(item.field.as_str(), fixed)]).map_err(with_key)?;
        let update = change.update(&format!("{}.$.", settings.items));
        let mut session = Session::of_caller(self.session).await?;
        let updated = item.change(self.shared, update, session.as_mut()).await;
        updated.map_err(with_key)
    }
}

/// Refuses what would leave the item without a time that it could be appended with.
fn check_time(settings: &Settings, set: &Document, unset: &[String]) -> Result<()> {
    let Some(field) = settings.time.as_ref().map(FieldName::as_str) else {
        return Ok(());
    };
    match set.get(field) {
        Some(Bson::DateTime(time)) => id::second(*time).map(drop),
        None if unset.iter().all(|name| name != field) => Ok(()),
        _ => Err(Error::new(
            ErrorKind::InvalidTime,
            format!("the item would have no BSON date in its time field `{field}`, nothing was sent: set one"),
        )),
    }
}

impl<'a> IntoFuture for UpdateItem<'a> {
    type Output = Result<Updated>;
    type IntoFuture = ActionFuture<'a, Updated>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("update_item"), |_| self.execute())
    }
}

/// Does not show the fields and values.
impl fmt::Debug for UpdateItem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateItem")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
