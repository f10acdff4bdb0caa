//! What a target stores of a row.

use mongo_patterns_core::size::MAX_BYTES;
use mongodb::bson::{Bson, Document, RawBson, RawDocumentBuf};

use super::problem::{Problem, Reason};
use super::row::Row;
use super::types::Type;

/// A field that every row must have.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(super) field: String,
    /// Its purpose, such as `is the key`.
    pub(super) text: &'static str,
    /// The type of its column, if it is not inferred.
    pub(super) of: Option<Type>,
}

/// The data of a row that is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared {
    /// The key, or the `_id` of the document or the parent. Rows with the same one are stored in their order. Null if
    /// each row is a document.
    pub(super) owner: Bson,
    pub(super) body: RawBson,
    /// Whether a second run recognizes the row and does not store it again.
    pub(super) has_id: bool,
}

/// A row that a target can store.
#[derive(Debug)]
pub(crate) struct Item {
    pub(super) line: u64,
    pub(super) owner: Bson,
    pub(super) body: RawBson,
    pub(super) has_id: bool,
    pub(super) raw: Option<String>,
}

impl Item {
    /// Returns about the number of bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        const OVERHEAD: usize = 64;
        let body = match &self.body {
            RawBson::Document(document) => document.as_bytes().len(),
            RawBson::Array(array) => array.as_bytes().len(),
            RawBson::String(text) => text.len(),
            RawBson::Binary(binary) => binary.bytes.len(),
            _ => 0,
        };
        OVERHEAD + body + self.raw.as_ref().map_or(0, String::len)
    }

    /// Returns the document. Targets whose bodies are documents call this.
    pub(super) fn document(&self) -> RawDocumentBuf {
        match &self.body {
            RawBson::Document(document) => document.clone(),
            _ => RawDocumentBuf::new(),
        }
    }
}

/// How rows become what a target stores. It is pure, and runs in the thread that reads.
pub(crate) trait Shape: Send + Sync {
    fn roles(&self) -> Vec<Role>;

    fn prepare(&self, document: Document) -> Result<Prepared, Problem>;
}

/// Prepares a row.
pub(super) fn item(shape: &dyn Shape, row: Row) -> Result<Item, (Problem, Option<String>)> {
    let Row { line, document, raw } = row;
    match shape.prepare(document) {
        Ok(prepared) => Ok(Item {
            line,
            owner: prepared.owner,
            body: prepared.body,
            has_id: prepared.has_id,
            raw,
        }),
        Err(problem) => Err((problem, raw)),
    }
}

/// Encodes a document that is stored with this number of bytes around it.
pub(super) fn encode(document: &Document, around: usize) -> Result<RawDocumentBuf, Problem> {
    let encoded = RawDocumentBuf::try_from(document).map_err(|_| {
        Problem::new(
            Reason::Invalid,
            "it cannot be written as BSON: a field name contains NUL",
        )
    })?;
    if encoded.as_bytes().len() + around > MAX_BYTES {
        return Err(Problem::too_large());
    }
    Ok(encoded)
}

/// Removes the field that names the owner of a row.
pub(super) fn remove(document: &mut Document, role: &Role) -> Result<Bson, Problem> {
    match document.remove(&role.field) {
        None | Some(Bson::Null) => Err(Problem::missing(&role.field, role.text)),
        Some(value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_document_is_too_large_with_what_is_around_it() {
        let document = doc! { "a": "x".repeat(MAX_BYTES - 100) };
        assert!(encode(&document, 0).is_ok());
        assert_eq!(encode(&document, 100).unwrap_err().reason, Reason::TooLarge);
    }
}
