//! Index plans: created where they are missing, never changed or dropped.

mod collection;
mod existing;

use std::fmt;

use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

use crate::error::{self, Error, ErrorKind, Result};
use crate::plan::{PlannedCommand, list_indexes as list_command};
use crate::session::Session;

pub use existing::{list_indexes, serves};

const DUPLICATE_KEY: i32 = 11000;
const INDEX_NOT_FOUND: i32 = 27;
/// An equal index has another name, or one of that name has other options.
const INDEX_CONFLICT: [i32; 2] = [85, 86];

/// An index that a pattern relies on.
///
/// ```
/// # use mongo_patterns_core::index::PlannedIndex;
/// # use mongodb::bson::doc;
/// let index = PlannedIndex::new("book_id_1_seq_1", doc! { "book_id": 1, "seq": 1 }).unique();
/// assert!(index.unique && index.partial_filter.is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlannedIndex {
    /// Its name, which tells its definition apart from others: writes name it in their hint.
    pub name: String,
    /// Its fields and directions.
    pub keys: Document,
    /// Whether it is unique.
    pub unique: bool,
    /// Which documents it holds, if not all.
    pub partial_filter: Option<Document>,
}

impl PlannedIndex {
    /// An index that is not unique and holds all documents.
    #[doc(hidden)]
    pub fn new(name: impl Into<String>, keys: Document) -> Self {
        Self {
            name: name.into(),
            keys,
            unique: false,
            partial_filter: None,
        }
    }

    /// Makes it unique.
    #[doc(hidden)]
    #[must_use]
    pub fn unique(mut self) -> Self {
        self.unique = true;
        self
    }

    /// Restricts it to the documents that match the filter.
    #[doc(hidden)]
    #[must_use]
    pub fn partial(mut self, filter: Document) -> Self {
        self.partial_filter = Some(filter);
        self
    }

    /// The driver's form of it.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::index::IndexPlan;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(plan: IndexPlan, trades: Collection<Document>) -> mongodb::error::Result<()> {
    /// for index in plan.indexes() {
    ///     trades.create_index(index.to_model()).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_model(&self) -> IndexModel {
        let options = IndexOptions::builder()
            .name(self.name.clone())
            .unique(self.unique.then_some(true))
            .partial_filter_expression(self.partial_filter.clone())
            .build();
        IndexModel::builder().keys(self.keys.clone()).options(options).build()
    }

    /// What the server lists for such an index, less its version.
    fn definition(&self) -> Document {
        let mut definition = doc! { "key": self.keys.clone(), "name": &self.name };
        if self.unique {
            definition.insert("unique", true);
        }
        if let Some(filter) = &self.partial_filter {
            definition.insert("partialFilterExpression", filter.clone());
        }
        definition
    }
}

/// Drops an index that is no longer relied on, if it is there. Returns whether it was. Two round trips.
///
/// # Errors
/// [`IndexMismatch`](ErrorKind::IndexMismatch) when the index of that name has another definition: it is not dropped.
#[doc(hidden)]
pub async fn drop_exactly<T: Send + Sync>(collection: &Collection<T>, index: &PlannedIndex) -> Result<bool> {
    if !is_there(collection, index).await? {
        return Ok(false);
    }
    match collection.drop_index(index.name.as_str()).await {
        Ok(()) => Ok(true),
        Err(error) if error::code(&error) == Some(INDEX_NOT_FOUND) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What [`drop_exactly`] sends. One round trip.
///
/// # Errors
/// Those of [`drop_exactly`].
pub async fn drop_commands<T: Send + Sync>(
    collection: &Collection<T>,
    index: &PlannedIndex,
) -> Result<Vec<PlannedCommand>> {
    let name = collection.name();
    let mut commands = vec![PlannedCommand::read("look for the old index", list_command(name))];
    if is_there(collection, index).await? {
        let drop = doc! { "dropIndexes": name, "index": &index.name };
        commands.push(PlannedCommand::write("drop the old index", drop));
    }
    Ok(commands)
}

/// Whether there is an index of this name, which must have this definition.
async fn is_there<T: Send + Sync>(collection: &Collection<T>, index: &PlannedIndex) -> Result<bool> {
    let present = existing::list_indexes(collection, None).await?;
    let namesake = present
        .iter()
        .find(|present| present.get_str("name").ok() == Some(index.name.as_str()));
    match namesake {
        Some(namesake) if !existing::same_document(namesake, &index.definition()) => Err(mismatch(namesake, index)),
        namesake => Ok(namesake.is_some()),
    }
}

/// The indexes of a repository's collection. Its text is the `createIndex` calls for a shell.
///
/// ```no_run
/// # use mongo_patterns_core::index::IndexPlan;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(plan: IndexPlan, trades: Collection<Document>) -> mongo_patterns_core::Result<()> {
/// println!("{plan}");
/// let ensured = plan.ensure(&trades, None).await?;
/// println!("created {:?}, found {:?}", ensured.created, ensured.existing);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IndexPlan {
    collection: String,
    indexes: Vec<PlannedIndex>,
}

/// What [`IndexPlan::ensure`] found and did.
///
/// ```
/// # use mongo_patterns_core::index::EnsuredIndexes;
/// fn report(ensured: &EnsuredIndexes) {
///     println!("created {:?}, found {:?}", ensured.created, ensured.existing);
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsuredIndexes {
    /// The names of the indexes that it created.
    pub created: Vec<String>,
    /// The names of those that were there already, as planned.
    pub existing: Vec<String>,
}

impl IndexPlan {
    /// A plan for a collection.
    #[doc(hidden)]
    pub fn new(collection: impl Into<String>, indexes: Vec<PlannedIndex>) -> Self {
        Self {
            collection: collection.into(),
            indexes,
        }
    }

    /// The indexes, to create them by other means.
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

    /// Creates what is missing, in up to three round trips: the collection's options, its indexes, and their creation.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::index::IndexPlan;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(plan: IndexPlan, trades: Collection<Document>) -> mongo_patterns_core::Result<()> {
    /// plan.ensure(&trades, None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UnsupportedCollation`](ErrorKind::UnsupportedCollation) when the collection's collation is not the simple one,
    /// [`Configuration`](ErrorKind::Configuration) when it is a view, a time series, capped or clustered,
    /// [`IndexMismatch`](ErrorKind::IndexMismatch) when an index is in the way, which is named with its definition and
    /// the planned one, and [`Corrupt`](ErrorKind::Corrupt) when stored documents violate a unique index. Nothing is
    /// created then.
    pub async fn ensure<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        mut session: Option<&mut Session<'_>>,
    ) -> Result<EnsuredIndexes> {
        collection::check(collection, session.as_deref_mut()).await?;
        self.create_missing(collection, session).await
    }

    async fn create_missing<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        mut session: Option<&mut Session<'_>>,
    ) -> Result<EnsuredIndexes> {
        let present = existing::list_indexes(collection, session.as_deref_mut()).await?;
        let (mut ensured, missing) = self.compare(&present)?;
        if missing.is_empty() {
            return Ok(ensured);
        }
        let models: Vec<_> = missing.iter().map(|planned| planned.to_model()).collect();
        let created = match session {
            None => collection.create_indexes(models).await,
            Some(session) => {
                let collection = collection.clone_with_type::<Document>();
                session
                    .send(move |session| {
                        Box::pin(async move { collection.create_indexes(models).session(session).await })
                    })
                    .await
            }
        };
        match created {
            Ok(created) => ensured.created = created.index_names,
            Err(error) => return Err(self.not_created(error, &present, &missing)),
        }
        Ok(ensured)
    }

    /// Checks that all indexes of the plan exist, in one round trip, and creates nothing.
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
    /// [`IndexMismatch`](ErrorKind::IndexMismatch) when one of its name is another, and
    /// [`Configuration`](ErrorKind::Configuration) when the collection is clustered.
    pub async fn check<T: Send + Sync>(&self, collection: &Collection<T>) -> Result<()> {
        let present = existing::list_indexes(collection, None).await?;
        collection::check_indexes(&collection.namespace(), &present)?;
        match self.compare(&present)?.1.first() {
            None => Ok(()),
            Some(missing) => Err(index_missing(&missing.name)),
        }
    }

    /// The indexes of the plan that do not exist, in one round trip. Creates nothing.
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
    /// [`IndexMismatch`](ErrorKind::IndexMismatch) when one of a planned name is another.
    pub async fn missing<T: Send + Sync>(&self, collection: &Collection<T>) -> Result<Vec<PlannedIndex>> {
        let present = existing::list_indexes(collection, None).await?;
        Ok(self.compare(&present)?.1.into_iter().cloned().collect())
    }

    /// What [`ensure`](Self::ensure) sends. Two round trips.
    ///
    /// # Errors
    /// Those of [`ensure`](Self::ensure), but for documents that violate an index.
    pub async fn ensure_commands<T: Send + Sync>(&self, collection: &Collection<T>) -> Result<Vec<PlannedCommand>> {
        collection::check(collection, None).await?;
        self.commands_after(vec![collection::command(&[collection.name()])], collection)
            .await
    }

    /// The command that creates some indexes of the plan, as `runCommand` takes it.
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

    /// Which of the plan's indexes are there, and which are missing.
    fn compare(&self, present: &[Document]) -> Result<(EnsuredIndexes, Vec<&PlannedIndex>)> {
        let mut ensured = EnsuredIndexes::default();
        let mut missing = Vec::new();
        for planned in &self.indexes {
            let namesake = present
                .iter()
                .find(|index| index.get_str("name").ok() == Some(planned.name.as_str()));
            match namesake {
                None => missing.push(planned),
                Some(index) if existing::same_document(index, &planned.definition()) => {
                    ensured.existing.push(planned.name.clone());
                }
                Some(index) => return Err(mismatch(index, planned)),
            }
        }
        Ok((ensured, missing))
    }

    fn not_created(&self, error: mongodb::error::Error, present: &[Document], missing: &[&PlannedIndex]) -> Error {
        match error::code(&error) {
            Some(DUPLICATE_KEY) => Error::from_driver(
                ErrorKind::Corrupt,
                format!(
                    "stored documents violate the unique index of the plan, so it was not created: mend them first. Planned: {self}"
                ),
                error,
            ),
            Some(code) if INDEX_CONFLICT.contains(&code) => {
                let in_the_way = present.iter().find_map(|index| {
                    let keys = index.get_document("key").ok()?;
                    missing
                        .iter()
                        .find(|planned| existing::same_document(keys, &planned.keys))
                        .map(|planned| mismatch(index, planned))
                });
                in_the_way.unwrap_or_else(|| {
                    Error::from_driver(
                        ErrorKind::IndexMismatch,
                        format!("an index of the collection is in the way of the plan: {self}"),
                        error,
                    )
                })
            }
            _ => error.into(),
        }
    }
}

/// That a write relies on an index that does not exist.
#[doc(hidden)]
pub fn index_missing(name: &str) -> Error {
    Error::new(
        ErrorKind::IndexMissing,
        format!(
            "the index `{name}` is missing, so the write was not done: call ensure_indexes() once before the first write"
        ),
    )
}

fn mismatch(index: &Document, planned: &PlannedIndex) -> Error {
    let found = Bson::Document(existing::without_version(index));
    let planned = Bson::Document(planned.definition());
    Error::new(
        ErrorKind::IndexMismatch,
        format!("an index is in the way, drop it or rename it: found {found}, planned {planned}"),
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
