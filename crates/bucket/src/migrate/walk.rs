//! A collection in ranges of one field, ascending, each of about as many documents.

use mongo_patterns_core::Result;
use mongo_patterns_core::index::{list_indexes, serves};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern};

use super::run::{primary, simple_collation};

/// A server takes no more than an int64.
const LARGEST_STEP: u64 = 1 << 62;

/// The way through a collection.
pub(crate) struct Walk<'a> {
    collection: &'a Collection<RawDocumentBuf>,
    field: &'a str,
    /// Its name. Without an index, there is one range, of all documents.
    index: Option<String>,
    step: u64,
}

/// The documents whose field is above a value, and not above another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Range {
    pub(crate) after: Option<Bson>,
    /// `None` for the last range.
    pub(crate) through: Option<Bson>,
}

impl Range {
    pub(crate) fn filter(&self, field: &str) -> Document {
        let mut bounds = Document::new();
        if let Some(after) = &self.after {
            bounds.insert("$gt", after);
        }
        if let Some(through) = &self.through {
            bounds.insert("$lte", through);
        }
        if bounds.is_empty() {
            bounds
        } else {
            doc! { field: bounds }
        }
    }
}

impl<'a> Walk<'a> {
    pub(crate) async fn new(collection: &'a Collection<RawDocumentBuf>, field: &'a str, step: u64) -> Result<Self> {
        let indexes = list_indexes(collection).await?;
        let index = indexes.iter().find(|index| serves(index, field));
        let index = index.and_then(|index| index.get_str("name").ok().map(str::to_owned));
        Ok(Self {
            collection,
            field,
            index,
            step: step.min(LARGEST_STEP),
        })
    }

    /// The hint for reads of a range.
    pub(crate) fn hint(&self) -> Option<Hint> {
        self.index.clone().map(Hint::Name)
    }

    /// Its name.
    pub(crate) fn index(&self) -> Option<&str> {
        self.index.as_deref()
    }

    /// What [`next`](Self::next) sends, if anything.
    pub(crate) fn next_command(&self, after: Option<Bson>) -> Option<Document> {
        let range = Range { after, through: None };
        Some(doc! {
            "find": self.collection.name(),
            "filter": range.filter(self.field),
            "sort": { self.field: 1 },
            "skip": i64::try_from(self.step - 1).unwrap_or(i64::MAX),
            "limit": 1,
            "singleBatch": true,
            "projection": self.projection(),
            "hint": self.index()?,
            "collation": { "locale": "simple" },
            "readConcern": { "level": "local" },
        })
    }

    fn projection(&self) -> Document {
        doc! { "_id": i32::from(self.field == "_id"), self.field: 1 }
    }

    /// The range that follows this value, with all documents of its last value.
    pub(crate) async fn next(&self, after: Option<Bson>) -> Result<Range> {
        let Some(hint) = self.hint() else {
            return Ok(Range::default());
        };
        let mut range = Range { after, through: None };
        let last = self
            .collection
            .clone_with_type::<Document>()
            .find_one(range.filter(self.field))
            .sort(doc! { self.field: 1 })
            .skip(self.step - 1)
            .projection(self.projection())
            .hint(hint)
            .collation(simple_collation())
            .read_concern(ReadConcern::local())
            .selection_criteria(primary())
            .await?;
        range.through = last.and_then(|mut last| last.remove(self.field));
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_without_a_gap() {
        let range = |after: Option<i32>, through: Option<i32>| Range {
            after: after.map(Bson::Int32),
            through: through.map(Bson::Int32),
        };
        assert_eq!(range(None, None).filter("k"), doc! {});
        assert_eq!(range(None, Some(5)).filter("k"), doc! { "k": { "$lte": 5 } });
        assert_eq!(
            range(Some(5), Some(9)).filter("k"),
            doc! { "k": { "$gt": 5, "$lte": 9 } }
        );
        assert_eq!(range(Some(9), None).filter("k"), doc! { "k": { "$gt": 9 } });
    }
}
