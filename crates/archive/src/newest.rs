//! The newest of the old documents of each value of a field, which stay.
//!
//! # Design
//!
//! ## Why is it no harm that the newest document is only read?
//!
//! Another transaction can insert a newer one, or move this one because it has seen a newer one. In both cases there is a
//! document that is newer than the moving ones.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::with_ids;
use mongo_patterns_core::field::no_array;
use mongo_patterns_core::migration::{Step, and};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::options::FindOptions;

use crate::related::distinct_ids;

#[derive(Clone, Copy)]
pub(crate) struct Newest<'a> {
    /// The field.
    pub(crate) by: &'a str,
    pub(crate) age: &'a str,
    /// Old documents are from before this time.
    pub(crate) before: DateTime,
}

impl Newest<'_> {
    /// Matches the documents of a filter, at most this number, that are older than the newest one of their value. `None` if
    /// none has a value.
    pub(crate) async fn leave_out(
        self,
        from: &Collection<RawDocumentBuf>,
        filter: Document,
        most: usize,
        conn: &mut Conn<'_>,
    ) -> Result<Option<Document>> {
        let Self { by, age, .. } = self;
        let options = FindOptions::builder().projection(doc! { "_id": 0, by: 1 }).build();
        let find = Step::find("look for their values", from, filter.clone(), options);
        let values = distinct_ids(&conn.read(find.up_to(most)).await?.documents, by);
        if values.is_empty() {
            return Ok(None);
        }
        let find = Step::aggregate("look for the newest of each value", from, self.stages(&values));
        let older = conn.read(find).await?.decoded()?.into_iter().map(|mut newest| {
            let [value, time] = ["_id", "newest"].map(|name| newest.remove(name).unwrap_or(Bson::Null));
            // An array matches by each of its elements.
            doc! { by: no_array(doc! { "$eq": value }), age: { "$lt": time } }
        });
        Ok(Some(and(filter, doc! { "$or": older.collect::<Vec<_>>() })))
    }

    /// Groups by the index. The server reads one key for each value.
    fn stages(self, values: &[Bson]) -> [Document; 3] {
        let Self { by, age, before } = self;
        [
            doc! { "$match": and(with_ids(by, values), doc! { age: { "$lt": before } }) },
            doc! { "$sort": { by: -1, age: -1 } },
            doc! { "$group": { "_id": format!("${by}"), "newest": { "$first": format!("${age}") } } },
        ]
    }
}
