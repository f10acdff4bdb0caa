//! Items of several versions: in the arrays of documents, or documents themselves.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::options::FindOptions;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Convert, Steps, check_distinct, convert, converting, in_commands, literal_of, of_versions, version_of};
use crate::conn::Conn;
use crate::document_id::by_ids;
use crate::error::{Error, ErrorKind, Result};
use crate::field::FieldName;
use crate::index::Ensure;
use crate::migration::{MigrateOptions, Step, Walk};
use crate::progress::Reporter;
use crate::retry::RetryPolicy;
use crate::settings::configuration;
use crate::stored::id_of;
use crate::transaction;

type Raw = Collection<RawDocumentBuf>;

/// The steps that convert the items of a pattern, which `migrate_items` of its repository takes.
///
/// An item has its version in a field, `schemaVersion` by default. One without the field, or with null, has version 1. New items
/// have it if their type has the field.
///
/// ```
/// use mongo_patterns::ItemSteps;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct TradeV1 {
///     ticker: String,
///     qty: i32,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Trade {
///     ticker: String,
///     amount: i64,
/// }
///
/// let steps = ItemSteps::new().step(1, |old: TradeV1| Ok(Trade { ticker: old.ticker, amount: old.qty.into() }));
/// # let _ = steps;
/// ```
///
/// # A migration of items
///
/// It converts the items of older versions while services read and write. The items of a chunk of documents are converted in
/// a transaction, as a whole or not at all, so no concurrent write is lost: a transaction that conflicts with one runs again.
/// It is idempotent: after an interruption, call it again. Order, numbers of items and figures stay as they are.
///
/// It is one pass. Items of older versions that other programs add concurrently are left: run it when these have ended. Until then,
/// readers find items of both versions, so deploy the reader of both before. A program that updates fields of older items writes
/// them into converted ones: do not run it beside one.
///
/// A [plan](crate::PlannedCommand) runs the steps on all items and writes nothing, so it finds the items that a step refuses. It
/// lists the commands of the first chunk.
///
/// Errors with nothing changed: [`Configuration`](ErrorKind::Configuration) for invalid steps,
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for a number that is 0, [`SettingsMismatch`](ErrorKind::SettingsMismatch), also
/// when the catalog has no entry, and [`Unsupported`](ErrorKind::Unsupported) on a standalone, which has no transactions.
///
/// With the chunks before converted: the error of a step, with its [version](Error::step), the
/// [document](Error::document_id) and the [field](Error::field); [`InvalidArgument`](ErrorKind::InvalidArgument) for a step that
/// changes a field by which the pattern finds or counts items, [`Contention`](ErrorKind::Contention),
/// [`TooLarge`](ErrorKind::TooLarge), and those of the driver.
#[derive(Clone)]
pub struct ItemSteps {
    version: String,
    steps: Vec<(u32, Convert)>,
}

crate::redacted_debug!(ItemSteps);

impl Default for ItemSteps {
    fn default() -> Self {
        Self::new()
    }
}

impl ItemSteps {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self {
            version: "schemaVersion".to_owned(),
            steps: Vec::new(),
        }
    }

    crate::setters! {
        /// Sets the field with the version of an item, `schemaVersion` by default.
        #[must_use]
        version_field(name: impl Into<String>) => version = name.into();
    }

    /// Adds the step that converts items of the version `from` to the next version, by a function of the program.
    ///
    /// Sets the version field of the converted item. Fields of a stored item that `Old` does not have stay where they are, and one
    /// in an array refuses the item, as it would be lost. The function can run again after a conflict with a writer, so it must
    /// return the same for the same item. Its error, such as one of [`Error::new`], stops the migration.
    #[must_use]
    pub fn step<Old, New>(mut self, from: u32, convert: impl Fn(Old) -> Result<New> + Send + Sync + 'static) -> Self
    where
        Old: Serialize + DeserializeOwned,
        New: Serialize,
    {
        self.steps.push((from, converting(convert)));
        self
    }

    /// Checks the steps.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration) when there is none, they have a gap, two of them are for one version, a
    /// version is 0 or above `i32::MAX`, or the version field is no plain name.
    #[doc(hidden)]
    pub fn check(self) -> Result<CheckedSteps> {
        if self.steps.is_empty() {
            return Err(configuration(
                "there is no step, nothing was migrated: give at least one",
            ));
        }
        Ok(CheckedSteps {
            version: FieldName::in_array(self.version)?,
            steps: Steps::new(self.steps, None)?,
        })
    }
}

/// The result of a migration of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MigratedItems {
    /// How many documents had items of an older version.
    pub documents: u64,
    /// How many items were converted.
    pub items: u64,
}

/// Steps that were checked.
#[doc(hidden)]
pub struct CheckedSteps {
    version: FieldName,
    steps: Steps<Convert>,
}

crate::redacted_debug!(CheckedSteps);

impl CheckedSteps {
    /// Matches the items that a step converts.
    pub fn older(&self) -> Document {
        of_versions(&self.version, self.steps.older())
    }

    /// Converts an item. `None` if it is of the newest version, or of one that has no step.
    fn convert(&self, item: &RawDocument, fixed: &[&str]) -> Result<Option<RawDocumentBuf>> {
        let version = version_of(&self.version, item);
        let Some(mut version) = version.filter(|version| self.steps.older().contains(version)) else {
            return Ok(None);
        };
        let mut converted = item.to_owned();
        while let Some(step) = self.steps.from(version) {
            converted = convert(&self.version, step, version, &converted)?;
            let value = |item: &RawDocument, field: &str| {
                item.get(field)
                    .ok()
                    .flatten()
                    .and_then(|value| Bson::try_from(value).ok())
            };
            if let Some(field) = fixed
                .iter()
                .find(|field| value(item, field) != value(&converted, field))
            {
                let text = "a step changes a field by which the pattern finds or counts items, nothing was changed: keep its value";
                let error = Error::new(ErrorKind::InvalidArgument, text).at(id_of(item), *field);
                return Err(error.with_step(version.to_string()));
            }
            version += 1;
        }
        Ok(Some(converted))
    }
}

/// Checks the arguments of a migration of items, and its settings. One round trip.
///
/// # Errors
/// Those of [`MigrateOptions::check_numbers`], [`ItemSteps::check`] and [`Ensure::require`].
#[doc(hidden)]
pub async fn check_items(
    options: &MigrateOptions,
    steps: ItemSteps,
    ensure: Ensure<'_>,
    conn: &mut Conn<'_>,
) -> Result<CheckedSteps> {
    options.check_numbers()?;
    let steps = steps.check()?;
    ensure.require(conn).await?;
    Ok(steps)
}

/// Converts the items of some collections.
///
/// # Errors
/// Those of the steps and of a transaction.
#[doc(hidden)]
pub async fn migrate_items(
    parts: &[Items<'_>],
    chunk: u64,
    options: &MigrateOptions,
    conn: &mut Conn<'_>,
    reporter: &mut Reporter<'_>,
) -> Result<MigratedItems> {
    if reporter.is_asked() {
        let mut total = 0;
        for items in parts {
            total += Conn::new()
                .count_documents(items.collection, items.older(), None)
                .await?;
        }
        reporter.begin(total);
    }
    let mut migrated = MigratedItems::default();
    for items in parts {
        items.migrate(chunk, options, conn, reporter, &mut migrated).await?;
    }
    Ok(migrated)
}

/// The items of a collection, and their steps.
#[doc(hidden)]
pub struct Items<'a> {
    pub collection: &'a Raw,
    /// The array of a document that has the items. `None` for documents that are items.
    pub array: Option<&'a str>,
    /// The fields of an item that no step may change.
    pub fixed: Vec<&'a str>,
    pub steps: &'a CheckedSteps,
    /// A further stage of the update, which computes what depends on the items.
    pub then: Option<Document>,
    pub retry: &'a RetryPolicy,
}

crate::redacted_debug!(Items<'_>, |items| "collection" = items.collection.namespace());

impl Items<'_> {
    /// Matches the documents with items that a step converts.
    pub fn older(&self) -> Document {
        match self.array {
            Some(array) => doc! { array: { "$elemMatch": self.steps.older() } },
            None => self.steps.older(),
        }
    }

    /// Converts all items, a chunk of documents in each transaction.
    async fn migrate(
        &self,
        chunk: u64,
        options: &MigrateOptions,
        conn: &mut Conn<'_>,
        reporter: &mut Reporter<'_>,
        migrated: &mut MigratedItems,
    ) -> Result<()> {
        let mut pace = options.pace();
        let walk = Walk::by_bytes(self.older(), chunk);
        let mut chunks = conn
            .chunks("walk through the documents with older items", walk, self.collection)
            .await?;
        let mut is_first = true;
        while let Some(chunk) = chunks.next_chunk().await? {
            let documents = chunk.ids.len() as u64;
            migrated.items += match (conn.is_plan(), is_first) {
                (true, true) => self.convert(&chunk.ids, conn).await?,
                (true, false) => self.convert(&chunk.ids, &mut Conn::plan()).await?,
                (false, _) => {
                    let context = (self, chunk.ids.as_slice());
                    let converted =
                        transaction::run(self.collection, self.retry, conn, context, |conn, (items, ids)| {
                            Box::pin(items.convert(ids, conn))
                        });
                    converted.await?
                }
            };
            is_first = false;
            migrated.documents += documents;
            conn.count_migrated(documents);
            reporter.advance(documents);
            pace.pause(conn, documents).await;
        }
        Ok(())
    }

    /// Converts the items of a chunk. Returns how many.
    async fn convert(&self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<u64> {
        let mut filter = by_ids(ids);
        filter.extend(self.older());
        let find = Step::find(
            "read documents with older items",
            self.collection,
            filter,
            FindOptions::default(),
        );
        let found = conn.read(find).await?.documents;
        let (mut values, mut items) = (Vec::with_capacity(found.len()), 0);
        for document in &found {
            let id = id_of(document);
            let (value, converted) = match self.array {
                Some(array) => self.array_of(document, array)?,
                None => match self.steps.convert(document, &self.fixed)? {
                    Some(converted) => (decoded(&converted)?, 1),
                    None => continue,
                },
            };
            items += converted;
            values.push((id, value, document.as_bytes().len()));
        }
        check_distinct(values.iter().map(|(id, _, _)| id))?;
        for together in in_commands(values, |(_, _, bytes)| *bytes) {
            let (ids, values): (Vec<Bson>, Vec<Bson>) = together.into_iter().map(|(id, value, _)| (id, value)).unzip();
            let mut filter = by_ids(&ids);
            filter.extend(self.older());
            let new = literal_of(&ids, values);
            let stage = match self.array {
                Some(array) => doc! { "$set": { array: new } },
                None => doc! { "$replaceWith": new },
            };
            let stages: Vec<Document> = [stage].into_iter().chain(self.then.clone()).collect();
            let update = Step::update_many("replace converted items", self.collection, filter, stages);
            conn.write(update).await?;
        }
        Ok(items)
    }

    /// Returns the array of a document with the converted items, and how many these are.
    fn array_of(&self, document: &RawDocument, array: &str) -> Result<(Bson, u64)> {
        let (mut all, mut converted) = (Vec::new(), 0);
        let stored = document.get_array(array).map_err(|_| {
            Error::corrupt(
                id_of(document),
                array,
                "the items of a document are not an array, nothing was changed: correct it by hand",
            )
        })?;
        for (position, item) in stored.into_iter().enumerate() {
            let item = item.map_err(mongodb::error::Error::from)?;
            let new = match item {
                RawBsonRef::Document(item) => self.steps.convert(item, &self.fixed).map_err(|error| {
                    let field = error.field().map(|field| format!(".{field}")).unwrap_or_default();
                    error.at(id_of(document), format!("{array}.{position}{field}"))
                })?,
                _ => None,
            };
            all.push(match new {
                Some(new) => {
                    converted += 1;
                    decoded(&new)?
                }
                None => Bson::try_from(item).map_err(mongodb::error::Error::from)?,
            });
        }
        Ok((all.into(), converted))
    }
}

fn decoded(document: &RawDocument) -> Result<Bson> {
    Ok(Document::try_from(document)
        .map_err(mongodb::error::Error::from)?
        .into())
}
