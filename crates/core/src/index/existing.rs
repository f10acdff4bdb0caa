//! The indexes that a collection has.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::conn::Conn;
use crate::error::{self, Result};
use crate::migration::{Reply, Step};
use crate::value::same::without_version;

const NAMESPACE_NOT_FOUND: i32 = 26;
const NOT_ON_VIEW: i32 = 166;

/// Returns the indexes as the server lists them. A collection has at most 64, so one batch has them all. A missing
/// collection and a view have none.
#[doc(hidden)]
pub async fn list_indexes<T: Send + Sync>(collection: &Collection<T>) -> Result<Vec<Document>> {
    let collection = collection.clone_with_type();
    Conn::new().list_indexes("list the indexes", &collection).await
}

impl Conn<'_> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::same::same_document;

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
