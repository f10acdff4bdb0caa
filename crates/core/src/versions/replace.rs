//! Updates of many documents, each with a value of its own, by one command.
//!
//! # Design
//!
//! ## How does one command write a value of its own into each document?
//!
//! It has the values in an array, and looks up the position of each `_id` in another array. The server compares each
//! document with up to all ids of the command, which takes less time than the round trips of single updates.

use std::collections::HashSet;

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::document_id::bytes;
#[allow(unused_imports)] // the links of the documentation use it
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::value::stored::id_of;

/// About the most bytes of the values of one command, which has at most 16 MiB.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Splits values of these sizes into commands, each with at least one.
pub fn in_commands<T>(values: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut all, mut bytes) = (Vec::<Vec<T>>::new(), 0);
    for value in values {
        let more = size(&value);
        bytes += more;
        match all.last_mut() {
            Some(together) if bytes <= MOST_BYTES => together.push(value),
            _ => {
                bytes = more;
                all.push(vec![value]);
            }
        }
    }
    all
}

/// Refuses two documents with the same `_id`, which a cluster allows on two shards: both would get the value of one.
pub fn check_distinct<'i>(mut ids: impl Iterator<Item = &'i Bson>) -> Result<()> {
    let mut seen = HashSet::new();
    match ids.find(|id| !seen.insert(bytes(id))) {
        None => Ok(()),
        Some(twice) => Err(Error::corrupt(
            twice.clone(),
            "_id",
            "two documents on different shards have the same `_id`, nothing was changed: give one of them another",
        )),
    }
}

/// Returns an expression of the value that belongs to the `_id` of a document. At least one.
fn literal_of(ids: &[Bson], mut values: Vec<Bson>) -> Document {
    match values.len() {
        1 => doc! { "$literal": values.remove(0) },
        _ => {
            let position = doc! { "$indexOfArray": [{ "$literal": ids }, "$_id"] };
            doc! { "$arrayElemAt": [{ "$literal": values }, position] }
        }
    }
}

/// Replaces documents by these, which are found by their `_id`s. At least one. A stage of an update or an aggregation.
pub fn replace(documents: &[RawDocumentBuf]) -> Result<Document> {
    let ids: Vec<Bson> = documents.iter().map(|document| id_of(document)).collect();
    let values = documents
        .iter()
        .map(|document| Document::try_from(document.as_ref()).map(Bson::Document));
    let values = values
        .collect::<std::result::Result<_, _>>()
        .map_err(mongodb::error::Error::from)?;
    Ok(doc! { "$replaceWith": literal_of(&ids, values) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_literal() {
        let raw = |document: Document| RawDocumentBuf::try_from(&document).unwrap();
        let (one, two) = (
            doc! { "_id": "$a", "n": "$$ROOT" },
            doc! { "_id": 2, "n": { "$gt": 1 } },
        );
        assert_eq!(
            replace(&[raw(one.clone())]).unwrap(),
            doc! { "$replaceWith": { "$literal": &one } }
        );
        let position = doc! { "$indexOfArray": [{ "$literal": ["$a", 2] }, "$_id"] };
        assert_eq!(
            replace(&[raw(one.clone()), raw(two.clone())]).unwrap(),
            doc! { "$replaceWith": { "$arrayElemAt": [{ "$literal": [one, two] }, position] } }
        );
    }

    #[test]
    fn two_documents_with_one_id_are_refused() {
        let ids = |ids: &[i32]| ids.iter().map(|id| Bson::from(*id)).collect::<Vec<_>>();
        check_distinct(ids(&[1, 2, 3]).iter()).unwrap();
        let refused = check_distinct(ids(&[1, 2, 1]).iter()).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.document_id()),
            (ErrorKind::Corrupt, Some(&1.into()))
        );
    }

    #[test]
    fn a_command_has_a_part_of_the_values() {
        let sizes = |values: &[usize]| -> Vec<usize> {
            in_commands(values.to_vec(), |size| *size)
                .iter()
                .map(Vec::len)
                .collect()
        };
        let half = MOST_BYTES / 2;
        assert_eq!(sizes(&[half, half, 1, half, 3 * half, 1]), [2, 2, 1, 1]);
        assert_eq!(sizes(&[]), [0; 0]);
    }
}
