//! The indexes of one collection: compared with those that exist, and created.

use std::fmt;

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Namespace};

use super::{PlannedIndex, collection, existing};
use crate::busy::{Busy, is_busy};
use crate::error::{self, CommandError, Error, ErrorKind, Remedy, Result, is_bad_hint};
use crate::migration::{Step, Steps};
use crate::same::{same_document, same_fields, without_version};

const DUPLICATE_KEY: i32 = 11000;
const INDEX_NOT_FOUND: i32 = 27;
/// An equal index has another name, or one of that name has other options.
const INDEX_CONFLICT: [i32; 2] = [85, 86];

/// The indexes of a repository's collection. Its text is the `createIndex` calls for a shell.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexPlan {
    collection: String,
    indexes: Vec<PlannedIndex>,
    /// The start of the names of indexes that exist for one setting only.
    family: Option<String>,
}

/// A created index: its collection, and its name.
pub(crate) type Created = (Namespace, String);

/// The result of `ensure_indexes()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsuredIndexes {
    /// The names of the created indexes.
    pub created: Vec<String>,
    /// The names of the indexes that existed already, as planned.
    pub existing: Vec<String>,
}

impl IndexPlan {
    /// Creates a plan for a collection.
    #[doc(hidden)]
    pub fn new(collection: impl Into<String>, indexes: Vec<PlannedIndex>) -> Self {
        Self {
            collection: collection.into(),
            indexes,
            family: None,
        }
    }

    /// Refuses an index that is not in the plan and whose name begins like this: that of another setting.
    #[doc(hidden)]
    #[must_use]
    pub fn only_one_of(mut self, family: Option<String>) -> Self {
        self.family = family;
        self
    }

    /// Returns the indexes, to create them by other means.
    ///
    /// ```
    /// # use mongo_patterns_core::index::IndexPlan;
    /// # fn f(plan: IndexPlan) {
    /// let names: Vec<&str> = plan.indexes().iter().map(|index| index.name.as_str()).collect();
    /// # }
    /// ```
    pub fn indexes(&self) -> &[PlannedIndex] {
        &self.indexes
    }

    /// Creates the missing indexes. Up to three round trips: the collection's options, its indexes, and their creation.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::index::IndexPlan;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(plan: IndexPlan, trades: Collection<Document>) -> mongo_patterns_core::Result<()> {
    /// println!("{plan}");
    /// let ensured = plan.ensure(&trades).await?;
    /// println!("created {:?}, found {:?}", ensured.created, ensured.existing);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// With no index created: [`UnsupportedCollation`](ErrorKind::UnsupportedCollation) when the collation of the
    /// collection is not the simple one, [`Configuration`](ErrorKind::Configuration) when it is a view, a time series,
    /// capped or clustered, [`IndexMismatch`](ErrorKind::IndexMismatch) when an index conflicts, with its definition and
    /// the planned one, and [`Corrupt`](ErrorKind::Corrupt) when stored documents violate a unique index.
    pub async fn ensure<T: Send + Sync>(&self, collection: &Collection<T>) -> Result<EnsuredIndexes> {
        self.ensure_in(&mut Steps::run(), &collection.clone_with_type(), None)
            .await
    }

    /// Does what [`ensure`](Self::ensure) does, as steps of a run or a plan. A pattern of two collections checks the
    /// other one too, which needs no index: no further round trip, or one where they are in two databases.
    ///
    /// # Errors
    /// Those of [`ensure`](Self::ensure), for either collection. A plan does not find documents that violate an index.
    #[doc(hidden)]
    pub async fn ensure_in(
        &self,
        steps: &mut Steps<'_, '_>,
        collection: &Collection<RawDocumentBuf>,
        other: Option<&Collection<RawDocumentBuf>>,
    ) -> Result<EnsuredIndexes> {
        collection::check(steps, collection, other).await?;
        let present = steps.list_indexes("look for the indexes", collection).await?;
        self.create_missing(steps, collection, &present).await
    }

    /// Creates the missing indexes of this collection and of another one. Creates none if one of them conflicts.
    pub(super) async fn ensure_both(
        &self,
        steps: &mut Steps<'_, '_>,
        collection: &Collection<RawDocumentBuf>,
        (other, of_other): (&Collection<RawDocumentBuf>, &Self),
    ) -> Result<EnsuredIndexes> {
        let present = steps.list_indexes("look for the indexes", collection).await?;
        let in_other = steps.list_indexes("look for the indexes", other).await?;
        of_other.check_conflicts(&in_other)?;
        let mut ensured = self.create_missing(steps, collection, &present).await?;
        let created = of_other.create_missing(steps, other, &in_other).await?;
        ensured.created.extend(created.created);
        ensured.existing.extend(created.existing);
        Ok(ensured)
    }

    /// Returns the same plan without the indexes that are created in its collection already.
    pub(super) fn without(&self, created: &[Created], collection: &Collection<RawDocumentBuf>) -> Self {
        let (mut rest, on) = (self.clone(), collection.namespace());
        let is_created = |name: &str| created.iter().any(|(there, one)| *there == on && one == name);
        rest.indexes.retain(|planned| !is_created(&planned.name));
        rest
    }

    /// Checks that no index conflicts with the plan.
    pub(crate) fn check_conflicts(&self, present: &[Document]) -> Result<()> {
        self.compare(present).map(drop)
    }

    /// Creates the indexes that are not among those that the server has listed. While another client shards the
    /// collection or builds its indexes, waits, and lists them again.
    pub(crate) async fn create_missing(
        &self,
        steps: &mut Steps<'_, '_>,
        collection: &Collection<RawDocumentBuf>,
        present: &[Document],
    ) -> Result<EnsuredIndexes> {
        let (mut busy, mut listed) = (Busy::start(), None);
        loop {
            let present = listed.as_deref().unwrap_or(present);
            let (mut ensured, missing) = self.compare(present)?;
            if missing.is_empty() {
                return Ok(ensured);
            }
            let models = missing.iter().map(|planned| planned.to_model()).collect();
            let Err(error) = steps.write(Step::create_indexes(collection, models)).await else {
                ensured.created = missing.iter().map(|planned| planned.name.clone()).collect();
                return Ok(ensured);
            };
            if !is_busy(&error) || steps.is_in_transaction() {
                return Err(self.not_created(error, present, &missing));
            }
            busy.wait(error).await?;
            listed = Some(steps.list_indexes("look for the indexes", collection).await?);
        }
    }

    /// Checks that all indexes of the plan exist. One round trip. Creates nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::index::IndexPlan;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(plan: IndexPlan, trades: Collection<Document>) {
    /// let is_ready = plan.check(&trades).await.is_ok();
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`IndexMissing`](ErrorKind::IndexMissing) when one does not exist,
    /// [`IndexMismatch`](ErrorKind::IndexMismatch) when one of that name has another definition, and
    /// [`Configuration`](ErrorKind::Configuration) when the collection is clustered.
    pub async fn check<T: Send + Sync>(&self, collection: &Collection<T>) -> Result<()> {
        self.check_in(&mut Steps::run(), &collection.clone_with_type()).await
    }

    /// Does what [`check`](Self::check) does, as a step of a run. A plan only lists it, because the indexes may not exist
    /// yet.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    #[doc(hidden)]
    pub async fn check_in(&self, steps: &mut Steps<'_, '_>, collection: &Collection<RawDocumentBuf>) -> Result<()> {
        let Some(present) = steps.list_written_indexes("check the indexes", collection).await? else {
            return Ok(());
        };
        collection::check_indexes(&collection.namespace(), &present)?;
        match self.compare(&present)?.1.first() {
            None => Ok(()),
            Some(missing) => Err(index_missing(&missing.name)),
        }
    }

    /// Returns the indexes of the plan that do not exist. One round trip. Creates nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::index::IndexPlan;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(plan: IndexPlan, trades: Collection<Document>) -> mongo_patterns_core::Result<()> {
    /// let missing = plan.missing(&trades).await?;
    /// if !missing.is_empty() {
    ///     println!("would send {}", plan.create_command(&missing));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`IndexMismatch`](ErrorKind::IndexMismatch) when an index of a planned name has another definition.
    pub async fn missing<T: Send + Sync>(&self, collection: &Collection<T>) -> Result<Vec<PlannedIndex>> {
        let present = existing::list_indexes(collection).await?;
        Ok(self.compare(&present)?.1.into_iter().cloned().collect())
    }

    /// Returns the command that creates some indexes of the plan, as `runCommand` takes it.
    ///
    /// ```
    /// # use mongo_patterns_core::index::IndexPlan;
    /// # fn f(plan: IndexPlan) {
    /// let command = plan.create_command(plan.indexes());
    /// # }
    /// ```
    pub fn create_command(&self, indexes: &[PlannedIndex]) -> Document {
        let indexes: Vec<Document> = indexes.iter().map(PlannedIndex::definition).collect();
        doc! { "createIndexes": &self.collection, "indexes": indexes }
    }

    /// Splits the plan into indexes that exist and indexes that are missing.
    fn compare(&self, present: &[Document]) -> Result<(EnsuredIndexes, Vec<&PlannedIndex>)> {
        self.check_family(present)?;
        let mut ensured = EnsuredIndexes::default();
        let mut missing = Vec::new();
        for planned in &self.indexes {
            match exists(present, planned)? {
                true => ensured.existing.push(planned.name.clone()),
                false => missing.push(planned),
            }
        }
        Ok((ensured, missing))
    }

    fn check_family(&self, present: &[Document]) -> Result<()> {
        let Some(family) = &self.family else { return Ok(()) };
        let names = present.iter().filter_map(|index| index.get_str("name").ok());
        let is_planned = |name: &str| self.indexes.iter().any(|planned| planned.name == name);
        match names
            .into_iter()
            .find(|name| name.starts_with(family) && !is_planned(name))
        {
            None => Ok(()),
            Some(other) => Err(Error::new(
                ErrorKind::SettingsMismatch,
                format!(
                    "the collection `{}` has the index `{other}` of another setting: use that setting, or change it with a migration",
                    self.collection
                ),
            )
            .with_remedy(Remedy::CheckSettings)),
        }
    }

    fn not_created(&self, error: error::CommandError, present: &[Document], missing: &[&PlannedIndex]) -> Error {
        match error::code(&error) {
            Some(DUPLICATE_KEY) => Error::from_driver(
                ErrorKind::Corrupt,
                format!(
                    "stored documents violate the unique index of the plan, so it was not created: call verify(), which names them, and correct or repair them first. Planned: {self}"
                ),
                error,
            )
            .with_remedy(Remedy::Verify),
            Some(code) if INDEX_CONFLICT.contains(&code) => {
                let conflicting = present.iter().find_map(|index| {
                    let keys = index.get_document("key").ok()?;
                    missing
                        .iter()
                        .find(|planned| same_fields(keys, &planned.keys))
                        .map(|planned| mismatch(index, planned))
                });
                conflicting.unwrap_or_else(|| {
                    Error::from_driver(
                        ErrorKind::IndexMismatch,
                        format!("an index of the collection conflicts with the plan, no index was created: drop it or rename it. Planned: {self}"),
                        error,
                    )
                })
            }
            _ => error.into(),
        }
    }
}

/// The error of a write that relies on an index that does not exist.
#[doc(hidden)]
pub fn index_missing(name: &str) -> Error {
    Error::new(
        ErrorKind::IndexMissing,
        format!(
            "the index `{name}` does not exist, and nothing was written: call ensure_indexes() once before the first write"
        ),
    )
    .with_remedy(Remedy::EnsureIndexes)
}

/// Converts the error of a command that names an index in its hint.
#[doc(hidden)]
pub fn hinted(error: CommandError, index: &str) -> Error {
    match is_bad_hint(&error) {
        true => index_missing(index).caused_by(error),
        false => error.into(),
    }
}

/// Returns whether an index exists. Refuses one of its name that has another definition.
fn exists(present: &[Document], planned: &PlannedIndex) -> Result<bool> {
    let has_name = |index: &&Document| index.get_str("name").ok() == Some(planned.name.as_str());
    match present.iter().find(has_name) {
        Some(index) if !same_document(index, &planned.definition()) => Err(mismatch(index, planned)),
        namesake => Ok(namesake.is_some()),
    }
}

fn mismatch(index: &Document, planned: &PlannedIndex) -> Error {
    let found = Bson::Document(without_version(index));
    let planned = Bson::Document(planned.definition());
    Error::new(
        ErrorKind::IndexMismatch,
        format!("an index conflicts with the planned one, drop it or rename it: found {found}, planned {planned}"),
    )
}

impl fmt::Display for IndexPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, index) in self.indexes.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            let keys = Bson::Document(index.keys.clone());
            let mut options = index.definition();
            options.remove("key");
            write!(
                f,
                "db.getCollection({:?}).createIndex({keys}, {})",
                self.collection,
                Bson::Document(options)
            )?;
        }
        Ok(())
    }
}

/// Drops an index of an old layout, if it exists. Returns whether it did. Two round trips.
///
/// # Errors
/// [`IndexMismatch`](ErrorKind::IndexMismatch) when the index of that name has another definition: it is not dropped.
#[doc(hidden)]
pub async fn drop_old_index(
    steps: &mut Steps<'_, '_>,
    collection: &Collection<RawDocumentBuf>,
    index: &PlannedIndex,
) -> Result<bool> {
    let present = steps.list_indexes("look for the old index", collection).await?;
    if !exists(&present, index)? {
        return Ok(false);
    }
    match steps.write(Step::drop_index(collection, index.name.clone())).await {
        Ok(_) => Ok(true),
        Err(error) if error::code(&error) == Some(INDEX_NOT_FOUND) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_a_plan_are_created_by_one_command() {
        let open = PlannedIndex::new("open", doc! { "customerId": 1 }).unique();
        let plan = IndexPlan::new(
            "trades",
            vec![open.clone(), PlannedIndex::new("other", doc! { "a": 1 })],
        );
        let index = doc! { "key": { "customerId": 1 }, "name": "open", "unique": true };
        assert_eq!(
            plan.create_command(&[open]),
            doc! { "createIndexes": "trades", "indexes": [index] }
        );
    }

    #[test]
    fn a_plan_reads_as_shell_commands() {
        let open = PlannedIndex::new("open", doc! { "customerId": 1 })
            .unique()
            .partial(doc! { "count": { "$lt": 10 } });
        let plan = IndexPlan::new("trades", vec![open]);
        assert_eq!(
            plan.to_string(),
            r#"db.getCollection("trades").createIndex({ "customerId": 1 }, { "name": "open", "unique": true, "partialFilterExpression": { "count": { "$lt": 10 } } })"#
        );
    }
}
