//! The commands of a migration on one chunk of its source.

use mongodb::bson::{Bson, Document, doc};

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

pub(crate) fn only_field(field: &str) -> Document {
    doc! { "_id": i32::from(field == "_id"), field: 1 }
}

/// Migrates the documents of a filter: their stages, and the `$merge` into the target.
pub(crate) fn merge(filter: Document, stages: Vec<Document>, target: &str, when_matched: Bson) -> Vec<Document> {
    let mut pipeline = vec![doc! { "$match": filter }];
    pipeline.extend(stages);
    pipeline.push(doc! { "$merge": {
        "into": target,
        "whenMatched": when_matched,
        "whenNotMatched": "insert",
    } });
    pipeline
}

pub(crate) fn count(filter: Document, items_of_document: Bson) -> [Document; 2] {
    [
        doc! { "$match": filter },
        doc! { "$group": { "_id": null, "n": { "$sum": items_of_document } } },
    ]
}

/// Counts the documents of a collection, up to one.
pub(crate) fn any_document() -> [Document; 2] {
    [doc! { "$limit": 1 }, doc! { "$count": "n" }]
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
