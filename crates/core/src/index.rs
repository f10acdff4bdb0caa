//! The indexes of a pattern: created where they are missing, never changed or dropped.

mod begin_chunks;
mod checks;
mod collection;
mod duplicates;
mod ensure;
mod existing;
mod managed;
mod plan;
mod violations;

use std::time::Duration;

use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;

use crate::value::same::same_fields;

#[doc(hidden)]
#[doc(hidden)]
pub use checks::Checks;
pub use duplicates::{Duplicates, FindDuplicates};
#[doc(hidden)]
pub use ensure::Ensure;
pub use ensure::EnsureIndexes;
pub use existing::{list_indexes, serves};
#[doc(hidden)]
pub use managed::{Fits, Managed, State};
pub use plan::{EnsuredIndexes, IndexPlan, drop_old_index};

/// An index that a pattern relies on.
///
/// ```
/// # use mongo_patterns::index::PlannedIndex;
/// # use mongo_patterns::mongodb::bson::doc;
/// let index = PlannedIndex::new("book_id_1_seq_1", doc! { "book_id": 1, "seq": 1 }).unique();
/// assert!(index.unique && index.partial_filter.is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlannedIndex {
    /// Its name, which is unique to its definition: writes name it in their hint.
    pub name: String,
    /// Its fields and directions.
    pub keys: Document,
    /// Whether it is unique.
    pub unique: bool,
    /// The documents that it holds, if not all.
    pub partial_filter: Option<Document>,
    /// How many seconds after the date in its field the server removes a document, if it does.
    pub expire_after_seconds: Option<u32>,
    /// Whether an index with another name and further fields does as well, which another pattern may have created.
    or_longer: bool,
    /// The name of the one that it replaces, which an earlier version has created.
    replaces: Option<String>,
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
            expire_after_seconds: None,
            or_longer: false,
            replaces: None,
        }
    }

    /// Names the index that it replaces.
    #[doc(hidden)]
    #[must_use]
    pub fn replaces(mut self, name: impl Into<String>) -> Self {
        self.replaces = Some(name.into());
        self
    }

    /// Takes an index of all documents whose fields begin with these for it.
    #[doc(hidden)]
    #[must_use]
    pub fn or_longer(mut self) -> Self {
        self.or_longer = true;
        self
    }

    /// Returns the name of the index, as the server lists it, if it is taken for this one.
    pub(crate) fn name_of_longer<'i>(&self, index: &'i Document) -> Option<&'i str> {
        let (first, keys) = (self.keys.keys().next()?, index.get_document("key").ok()?);
        let begin: Document = keys.clone().into_iter().take(self.keys.len()).collect();
        let is_longer = self.or_longer && serves(index, first) && same_fields(&begin, &self.keys);
        index.get_str("name").ok().filter(|_| is_longer)
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

    /// Makes it a TTL index.
    #[doc(hidden)]
    #[must_use]
    pub fn expiring(mut self, seconds: u32) -> Self {
        self.expire_after_seconds = Some(seconds);
        self
    }

    /// Returns whether it supports a shard key: it has all documents, each once, and starts with the key.
    pub(crate) fn supports(&self, key: &Document) -> bool {
        let is_path = |field: &String| field.contains('.');
        self.unique
            && self.partial_filter.is_none()
            && !self.keys.keys().any(is_path)
            && self.keys.iter().take(key.len()).eq(key)
    }

    /// Returns the driver's form of it.
    ///
    /// ```no_run
    /// # use mongo_patterns::index::IndexPlan;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # async fn f(plan: IndexPlan, trades: Collection<Document>) -> mongo_patterns::mongodb::error::Result<()> {
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
            .expire_after(
                self.expire_after_seconds
                    .map(|seconds| Duration::from_secs(seconds.into())),
            )
            .build();
        IndexModel::builder().keys(self.keys.clone()).options(options).build()
    }

    /// Returns what the server lists for such an index, without its version.
    pub(crate) fn definition(&self) -> Document {
        let mut definition = doc! { "key": self.keys.clone(), "name": &self.name };
        if self.unique {
            definition.insert("unique", true);
        }
        if let Some(filter) = &self.partial_filter {
            definition.insert("partialFilterExpression", filter.clone());
        }
        if let Some(seconds) = self.expire_after_seconds {
            definition.insert("expireAfterSeconds", i32::try_from(seconds).unwrap_or(i32::MAX));
        }
        definition
    }
}
