//! Loads documents into a flat collection.

use mongo_patterns_core::Error;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf};
use mongodb::error::{ErrorKind as DriverKind, IndexedWriteError};

use super::item::{Item, Prepared, Role, Shape, encode, remove};
use super::problem::{Problem, Reason};
use super::store::{Store, Tally};
use crate::failure::Failure;

/// The documents of a batch.
const BATCH: usize = 1000;
/// The bytes of an `_id` that the driver adds.
const ID_BYTES: usize = 1 + 4 + 12;

/// Rows that are documents.
pub(crate) struct DocumentShape {
    id: Option<Role>,
    is_bounded: bool,
}

impl DocumentShape {
    /// The value of `id` becomes the `_id`.
    pub(crate) fn new(id: Option<&str>) -> Self {
        let id = id.filter(|field| *field != "_id").map(|field| Role {
            field: field.to_owned(),
            text: "becomes the `_id`",
            of: None,
        });
        Self { id, is_bounded: true }
    }

    /// Documents whose arrays the library splits, so that they may exceed 16 MiB.
    pub(super) fn of_any_size() -> Self {
        Self {
            is_bounded: false,
            ..Self::new(None)
        }
    }
}

impl Shape for DocumentShape {
    fn roles(&self) -> Vec<Role> {
        self.id.iter().cloned().collect()
    }

    fn prepare(&self, mut document: Document) -> Result<Prepared, Problem> {
        if let Some(role) = &self.id {
            let id = remove(&mut document, role)?;
            if document.contains_key("_id") {
                return Err(Problem::new(
                    Reason::Invalid,
                    format!(
                        "it has an `_id` beside the field `{}`, which becomes the `_id`",
                        role.field
                    ),
                ));
            }
            document = [("_id".to_owned(), id)].into_iter().chain(document).collect();
        }
        let has_id = document.contains_key("_id");
        if has_id
            && matches!(
                document.get("_id"),
                Some(Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined)
            )
        {
            let text = "its `_id` is an array, a regular expression or undefined: use another value";
            return Err(Problem::new(Reason::Invalid, text));
        }
        let body = match self.is_bounded {
            true => encode(&document, if has_id { 0 } else { ID_BYTES })?,
            false => RawDocumentBuf::try_from(&document).map_err(|_| {
                Problem::new(
                    Reason::Invalid,
                    "it cannot be written as BSON: a field name contains NUL",
                )
            })?,
        };
        Ok(Prepared {
            owner: Bson::Null,
            body: body.into(),
            has_id,
        })
    }
}

/// Splits rows into batches of one, which are stored concurrently.
pub(super) fn each(items: Vec<Item>) -> Vec<Vec<Item>> {
    items.into_iter().map(|item| vec![item]).collect()
}

/// The target of documents.
pub(crate) struct FlatDocuments(pub(crate) Collection<RawDocumentBuf>);

impl Store for FlatDocuments {
    const COMMANDS: [&'static str; 2] = ["load", "load --dry-run"];

    fn namespace(&self) -> String {
        self.0.namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "pass --id with the field that identifies a document"
    }

    async fn begin(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn batches(&self, items: Vec<Item>) -> Vec<Vec<Item>> {
        let mut items = items.into_iter().peekable();
        let mut batches = Vec::new();
        while items.peek().is_some() {
            batches.push(items.by_ref().take(BATCH).collect());
        }
        batches
    }

    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        let documents: Vec<RawDocumentBuf> = items.iter().map(Item::document).collect();
        let all = items.len() as u64;
        let error = match self.0.insert_many(&documents).ordered(false).await {
            Ok(_) => {
                return Ok(Tally {
                    items: all,
                    ..Tally::default()
                });
            }
            Err(error) => error,
        };
        let DriverKind::InsertMany(failed) = &*error.kind else {
            return Err(error.into());
        };
        let errors = failed.write_errors.as_deref().unwrap_or_default();
        if failed.write_concern_error.is_some() || errors.is_empty() {
            return Err(error.into());
        }
        let mut tally = Tally {
            items: all - errors.len() as u64,
            ..Tally::default()
        };
        for refused in errors {
            match problem(refused) {
                None => tally.stored_before += 1,
                Some(problem) => tally.refused.push((refused.index, problem)),
            }
        }
        tally.refused.sort_by_key(|(position, _)| *position);
        Ok(tally)
    }
}

/// Returns the problem of a refused document. `None` if a document with its `_id` exists.
fn problem(error: &IndexedWriteError) -> Option<Problem> {
    const DUPLICATE_KEY: i32 = 11000;
    const VALIDATION: i32 = 121;
    match error.code {
        DUPLICATE_KEY if error.message.contains(" index: _id_ ") => None,
        DUPLICATE_KEY => Some(Problem::new(
            Reason::DuplicateKey,
            "a unique index of the collection refused the document",
        )),
        VALIDATION => Some(Problem::new(
            Reason::Validation,
            "the validator of the collection refused the document",
        )),
        code => Some(Problem::new(
            Reason::Invalid,
            format!("the server refused the document with the code {code}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_field_becomes_the_id() {
        let prepare = |id: Option<&str>, row| DocumentShape::new(id).prepare(row);
        let prepared = prepare(Some("n"), doc! { "a": 1, "n": 7 }).unwrap();
        let stored: Document = prepared.body.as_document().unwrap().try_into().unwrap();
        assert_eq!((stored, prepared.has_id), (doc! { "_id": 7, "a": 1 }, true));
        assert!(!prepare(None, doc! { "a": 1 }).unwrap().has_id);
        assert!(prepare(None, doc! { "_id": 1 }).unwrap().has_id);
        let reason = |id, row| prepare(id, row).unwrap_err().reason;
        assert_eq!(reason(Some("n"), doc! { "a": 1 }), Reason::Missing);
        assert_eq!(reason(Some("n"), doc! { "_id": 1, "n": 7 }), Reason::Invalid);
        assert_eq!(reason(None, doc! { "_id": [1] }), Reason::Invalid);
    }
}
