//! The indexes that a collection has.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::error::{self, Result};
use crate::migration::{Reply, Step, Steps};

const NAMESPACE_NOT_FOUND: i32 = 26;
const NOT_ON_VIEW: i32 = 166;

/// Returns the indexes as the server lists them. A collection has at most 64, so one batch has them all. One that does not
/// exist has none, and a view has none of its own.
#[doc(hidden)]
pub async fn list_indexes<T: Send + Sync>(collection: &Collection<T>) -> Result<Vec<Document>> {
    let collection = collection.clone_with_type();
    Steps::run().list_indexes("list the indexes", &collection).await
}

impl Steps<'_, '_> {
    /// Lists the indexes of a collection, as [`list_indexes`] does, in a run or a plan.
    pub async fn list_indexes(
        &mut self,
        purpose: &'static str,
        on: &Collection<RawDocumentBuf>,
    ) -> Result<Vec<Document>> {
        decoded(self.read(step(purpose, on)).await)
    }

    /// Lists the indexes after earlier steps may have created some. `None` in a plan.
    pub(super) async fn list_written_indexes(
        &mut self,
        purpose: &'static str,
        on: &Collection<RawDocumentBuf>,
    ) -> Result<Option<Vec<Document>>> {
        let reply = self.read_written(step(purpose, on)).await;
        reply.transpose().map(decoded).transpose()
    }
}

fn step(purpose: &'static str, collection: &Collection<RawDocumentBuf>) -> Step {
    let command = doc! { "listIndexes": collection.name(), "cursor": { "batchSize": 1000 } };
    Step::list(purpose, collection, command)
}

fn decoded(reply: crate::send::Result<Reply>) -> Result<Vec<Document>> {
    match reply {
        Ok(reply) => Ok(reply.decoded()?),
        Err(error) if matches!(error::code(&error), Some(NAMESPACE_NOT_FOUND | NOT_ON_VIEW)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether an index, as the server lists it, has every document in the order of the field, by the simple
/// collation.
#[doc(hidden)]
pub fn serves(index: &Document, field: &str) -> bool {
    const PARTIAL: [&str; 4] = ["partialFilterExpression", "sparse", "collation", "hidden"];
    let index = without_version(index);
    let first = index.get_document("key").ok().and_then(|keys| keys.iter().next());
    let ordered = matches!(first, Some((name, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_))) if name == field);
    ordered && !PARTIAL.iter().any(|option| index.contains_key(*option))
}

/// Returns the definition without what the server adds to each: the version, and since MongoDB 9.0 the simple collation
/// of an index that has no other.
pub(super) fn without_version(index: &Document) -> Document {
    let mut index = index.clone();
    index.remove("v");
    index.remove("ns");
    if has_simple_collation(&index) {
        index.remove("collation");
    }
    index
}

/// Returns whether a definition names the simple collation. It is the default of an index, and has no further options.
fn has_simple_collation(index: &Document) -> bool {
    let collation = index.get_document("collation");
    index.contains_key("key") && collation.is_ok_and(|collation| collation.get_str("locale").ok() == Some("simple"))
}

/// Returns whether two definitions mean the same: options in any order, `false` like absent, numbers by value, but fields of
/// the key in their order.
pub(super) fn same_document(a: &Document, b: &Document) -> bool {
    let (a, b) = (without_version(a), without_version(b));
    let options = |document: &Document| -> Vec<(String, Bson)> {
        let mut options: Vec<_> = document
            .iter()
            .filter(|(_, value)| **value != Bson::Boolean(false))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if document.contains_key("name") {
            options.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        options
    };
    let (a, b) = (options(&a), options(&b));
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|((name_a, a), (name_b, b))| name_a == name_b && same_value(a, b))
}

fn same_value(a: &Bson, b: &Bson) -> bool {
    let number = |value: &Bson| match value {
        Bson::Int32(value) => Some(f64::from(*value)),
        #[allow(clippy::cast_precision_loss)] // directions and page sizes are far below 2^53
        Bson::Int64(value) => Some(*value as f64),
        Bson::Double(value) => Some(*value),
        _ => None,
    };
    match (a, b) {
        (Bson::Document(a), Bson::Document(b)) => same_document(a, b),
        (Bson::Array(a), Bson::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_compared_by_meaning() {
        let planned = doc! { "key": { "a": 1 }, "name": "n", "unique": true, "partialFilterExpression": { "count": { "$lt": 10 } } };
        let same = [
            doc! { "v": 2, "key": { "a": 1.0 }, "name": "n", "unique": true, "partialFilterExpression": { "count": { "$lt": 10_i64 } } },
            doc! { "v": 2, "unique": true, "key": { "a": 1 }, "sparse": false, "name": "n", "partialFilterExpression": { "count": { "$lt": 10 } } },
        ];
        for index in same {
            assert!(same_document(&index, &planned), "{index}");
        }
        let mut other = vec![doc! { "v": 2, "key": { "a": 1 }, "name": "n", "unique": true }];
        for (option, value) in [
            ("unique", Bson::Boolean(false)),
            ("key", Bson::Document(doc! { "a": -1 })),
            ("key", Bson::Document(doc! { "a": 1, "b": 1 })),
            ("hidden", Bson::Boolean(true)),
            ("expireAfterSeconds", Bson::Int32(60)),
            (
                "partialFilterExpression",
                Bson::Document(doc! { "count": { "$lt": 20 } }),
            ),
        ] {
            let mut index = planned.clone();
            index.insert(option, value);
            other.push(index);
        }
        for index in other {
            assert!(!same_document(&index, &planned), "{index}");
        }
    }

    /// The reply of MongoDB 9.0 to `listIndexes`, after its source.
    #[test]
    fn the_simple_collation_that_a_server_lists_is_none() {
        let planned = doc! { "key": { "customerId": 1 }, "name": "open", "unique": true, "partialFilterExpression": { "count": { "$lt": 10 } } };
        let mut listed = planned.clone();
        listed.insert("v", 2);
        listed.insert("collation", doc! { "locale": "simple" });
        assert!(same_document(&listed, &planned));
        assert!(serves(
            &doc! { "v": 2, "key": { "k": 1 }, "name": "k", "collation": { "locale": "simple" } },
            "k"
        ));
        listed.insert("collation", doc! { "locale": "en", "strength": 2 });
        assert!(!same_document(&listed, &planned));
        // A field of the key may have the name.
        let by_collation = doc! { "key": { "collation": 1 }, "name": "by_collation" };
        assert!(!same_document(
            &by_collation,
            &doc! { "key": {}, "name": "by_collation" }
        ));
    }

    #[test]
    fn an_index_serves_when_it_has_all_documents_in_order() {
        let index = doc! { "v": 2, "key": { "k": -1.0, "date": 1 }, "name": "k" };
        assert!(serves(&index, "k"));
        assert!(!serves(&index, "date"));
        assert!(!serves(&doc! { "key": { "k": "hashed" } }, "k"));
        for option in ["partialFilterExpression", "sparse", "collation", "hidden"] {
            let mut index = index.clone();
            index.insert(option, true);
            assert!(!serves(&index, "k"), "{option}");
        }
    }
}
