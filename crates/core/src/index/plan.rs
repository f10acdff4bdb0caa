//! The indexes of one collection: compared with those that exist, and created.

use std::fmt;

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Namespace};

use super::{PlannedIndex, collection};
use crate::action::ActionFuture;
use crate::conn::Conn;
use crate::error::{self, Error, ErrorKind, Remedy, Result};
use crate::retry::busy::{Busy, is_busy};
use crate::send::Step;
use crate::value::same::{same_document, same_fields, without_version};

const CHECK: &str = "check the indexes";
const DUPLICATE_KEY: i32 = 11000;
const INDEX_NOT_FOUND: i32 = 27;
/// An equal index has another name, or one of that name has other options.
const INDEX_CONFLICT: [i32; 2] = [85, 86];

/// The indexes of a repository's collection. Its text is the `createIndex` calls for a shell.
#[derive(Clone)]
pub struct IndexPlan {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(super) indexes: Vec<PlannedIndex>,
    /// The start of the names of indexes that exist for one setting only. Refuses an unplanned one.
    pub(super) family: Option<String>,
}

crate::redacted_debug!(
    IndexPlan,
    |plan| "collection" = plan.collection.namespace(),
    "indexes" = plan.indexes
);

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
    /// The names of indexes of an earlier version that no call needs any more. Drop them when no process of that version
    /// runs.
    pub unused: Vec<String>,
}

impl IndexPlan {
    /// Creates a plan for a collection.
    #[doc(hidden)]
    pub fn new(collection: &Collection<RawDocumentBuf>, indexes: Vec<PlannedIndex>) -> Self {
        Self {
            collection: collection.clone(),
            indexes,
            family: None,
        }
    }

    /// Returns the database and the collection.
    pub fn namespace(&self) -> Namespace {
        self.collection.namespace()
    }

    /// Returns the indexes, to create them by other means.
    ///
    /// ```
    /// # use mongo_patterns::index::IndexPlan;
    /// # fn f(plan: IndexPlan) {
    /// let names: Vec<&str> = plan.indexes().iter().map(|index| index.name.as_str()).collect();
    /// # }
    /// ```
    pub fn indexes(&self) -> &[PlannedIndex] {
        &self.indexes
    }

    /// Creates the missing indexes of a collection outside of a repository. Up to three round trips. A plan does not find
    /// documents that violate an index.
    #[doc(hidden)]
    pub async fn ensure(&self, conn: &mut Conn<'_>) -> Result<EnsuredIndexes> {
        collection::check(conn, &[&self.collection]).await?;
        let present = self.list("look for the indexes", conn).await?;
        self.create_missing(conn, &present).await
    }

    pub(crate) async fn list(&self, purpose: &'static str, conn: &mut Conn<'_>) -> Result<Vec<Document>> {
        conn.list_indexes(purpose, &self.collection).await
    }

    /// Checks that no index conflicts with the plan.
    pub(crate) fn check_conflicts(&self, present: &[Document]) -> Result<()> {
        self.compare(present).map(drop)
    }

    /// Creates the indexes that the server has not listed. While another client shards the collection or builds its indexes,
    /// waits, and lists them again.
    pub(crate) async fn create_missing(&self, conn: &mut Conn<'_>, present: &[Document]) -> Result<EnsuredIndexes> {
        let (mut busy, mut listed) = (Busy::start(), None);
        loop {
            let present = listed.as_deref().unwrap_or(present);
            let (mut ensured, missing) = self.compare(present)?;
            if missing.is_empty() {
                return Ok(ensured);
            }
            let models = missing.iter().map(|planned| planned.to_model()).collect();
            let Err(error) = conn.write(Step::create_indexes(&self.collection, models)).await else {
                ensured.created = missing.iter().map(|planned| planned.name.clone()).collect();
                return Ok(ensured);
            };
            if !is_busy(&error) || conn.is_in_transaction() {
                return Err(self.not_created(error, present, &missing));
            }
            busy.wait(error).await?;
            listed = Some(self.list("look for the indexes", conn).await?);
        }
    }

    /// Checks that all indexes of the plan exist. One round trip. Creates nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns::Repository;
    /// # async fn f(repository: &dyn Repository) {
    /// for plan in repository.indexes() {
    ///     let is_ready = plan.check().await.is_ok();
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`IndexMissing`](ErrorKind::IndexMissing): an index does not exist.
    /// - [`IndexMismatch`](ErrorKind::IndexMismatch): an index of that name has another definition.
    /// - [`Configuration`](ErrorKind::Configuration): the collection is clustered.
    pub fn check(&self) -> ActionFuture<'_, ()> {
        Box::pin(async move { self.check_in(&mut Conn::new()).await })
    }

    /// Does what [`check`](Self::check) does, as a step of a run. A plan only lists it, because the indexes may not exist
    /// yet.
    #[doc(hidden)]
    pub async fn check_in(&self, conn: &mut Conn<'_>) -> Result<()> {
        match conn.list_written_indexes(CHECK, &self.collection).await? {
            Some(present) => self.check_present(&present),
            None => Ok(()),
        }
    }

    /// Does what [`check`](Self::check) does, in a plan too, of a call that creates no indexes.
    pub(super) async fn check_before(&self, conn: &mut Conn<'_>) -> Result<()> {
        self.check_present(&self.list(CHECK, conn).await?)
    }

    fn check_present(&self, present: &[Document]) -> Result<()> {
        collection::check_indexes(&self.namespace(), present)?;
        match self.compare(present)?.1.first() {
            None => Ok(()),
            Some(missing) => Err(error::index_missing(&missing.name)),
        }
    }

    /// Returns the indexes of the plan that do not exist. One round trip. Creates nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns::Repository;
    /// # async fn f(repository: &dyn Repository) -> mongo_patterns::Result<()> {
    /// for plan in repository.indexes() {
    ///     let missing = plan.missing().await?;
    ///     if !missing.is_empty() {
    ///         println!("would send {}", plan.create_command(&missing));
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`IndexMismatch`](ErrorKind::IndexMismatch): an index of a planned name has another definition.
    pub fn missing(&self) -> ActionFuture<'_, Vec<PlannedIndex>> {
        Box::pin(async move {
            let present = self.list("list the indexes", &mut Conn::new()).await?;
            Ok(self.compare(&present)?.1.into_iter().cloned().collect())
        })
    }

    /// Returns the command that creates some indexes of the plan, as `runCommand` takes it.
    ///
    /// ```
    /// # use mongo_patterns::index::IndexPlan;
    /// # fn f(plan: IndexPlan) {
    /// let command = plan.create_command(plan.indexes());
    /// # }
    /// ```
    pub fn create_command(&self, indexes: &[PlannedIndex]) -> Document {
        let indexes: Vec<Document> = indexes.iter().map(PlannedIndex::definition).collect();
        doc! { "createIndexes": self.collection.name(), "indexes": indexes }
    }

    /// Returns the indexes of the plan that do not exist.
    pub(super) fn missing_in(&self, present: &[Document]) -> Result<Vec<&PlannedIndex>> {
        Ok(self.compare(present)?.1)
    }

    /// Splits the plan into indexes that exist and indexes that are missing.
    fn compare(&self, present: &[Document]) -> Result<(EnsuredIndexes, Vec<&PlannedIndex>)> {
        self.check_family(present)?;
        let mut ensured = EnsuredIndexes::default();
        let mut missing = Vec::new();
        for planned in &self.indexes {
            let mut names = present.iter().filter_map(|index| index.get_str("name").ok());
            let replaced = planned.replaces.as_deref().filter(|old| names.any(|name| name == *old));
            ensured.unused.extend(replaced.map(str::to_owned));
            let longer = present.iter().find_map(|index| planned.name_of_longer(index));
            match exists(present, planned)? {
                true => ensured.existing.push(planned.name.clone()),
                false => match longer {
                    Some(longer) => ensured.existing.push(longer.to_owned()),
                    None => missing.push(planned),
                },
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
                    self.collection.name()
                ),
            )
            .with_remedy(Remedy::CheckSettings)),
        }
    }

    /// Returns why an index of the plan cannot be created.
    pub(super) fn is_violated(&self) -> String {
        format!(
            "stored documents violate the unique index of the plan, so it was not created: call verify(), which names them, and correct them; a repair needs settings, which ensure_indexes().replace_settings() stores although it refuses the index again. Planned: {self}"
        )
    }

    fn not_created(&self, error: error::CommandError, present: &[Document], missing: &[&PlannedIndex]) -> Error {
        match error::code(&error) {
            Some(DUPLICATE_KEY) => {
                Error::from_driver(ErrorKind::Corrupt, self.is_violated(), error).with_remedy(Remedy::Verify)
            }
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
                self.collection.name(),
                Bson::Document(options)
            )?;
        }
        Ok(())
    }
}

/// Drops an index of an old layout, if it exists. Returns whether it did. Two round trips.
///
/// # Errors
/// - [`IndexMismatch`](ErrorKind::IndexMismatch): the index of that name has another definition: it is not dropped.
#[doc(hidden)]
pub async fn drop_old_index(
    conn: &mut Conn<'_>,
    collection: &Collection<RawDocumentBuf>,
    index: &PlannedIndex,
) -> Result<bool> {
    let present = conn.list_indexes("look for the old index", collection).await?;
    if !exists(&present, index)? {
        return Ok(false);
    }
    match conn.write(Step::drop_index(collection, index.name.clone())).await {
        Ok(_) => Ok(true),
        Err(error) if error::code(&error) == Some(INDEX_NOT_FOUND) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline;

    #[test]
    fn the_indexes_of_a_plan_are_created_by_one_command() {
        let open = PlannedIndex::new("open", doc! { "customerId": 1 }).unique();
        let other = PlannedIndex::new("other", doc! { "a": 1 });
        let plan = IndexPlan::new(&offline::collection("trades"), vec![open.clone(), other]);
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
        let plan = IndexPlan::new(&offline::collection("trades"), vec![open]);
        assert_eq!(
            plan.to_string(),
            r#"db.getCollection("trades").createIndex({ "customerId": 1 }, { "name": "open", "unique": true, "partialFilterExpression": { "count": { "$lt": 10 } } })"#
        );
    }
}
