//! The rows of a file.

use mongodb::bson::Document;

use super::problem::Problem;
use crate::failure::Failure;

/// The most bytes of a row or a document in a file. The largest document of MongoDB has 16 MiB, and its text can be
/// longer.
pub(super) const MAX_BYTES: usize = 256 * 1024 * 1024;

/// A document, with the line at which it begins.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) document: Document,
    /// The text of the row, if a file of rejected rows may need it.
    pub(super) raw: Option<String>,
}

/// A row that cannot be stored.
#[derive(Debug)]
pub(super) struct BadRow {
    pub(super) line: u64,
    pub(super) problem: Problem,
    pub(super) raw: Option<String>,
}

/// Why the next row is not returned.
#[derive(Debug)]
pub(super) enum Stop {
    /// The row is invalid. The next row follows.
    Row(BadRow),
    /// The file cannot be read further.
    End(Failure),
}

pub(super) type Rows = Box<dyn Iterator<Item = Result<Row, Stop>> + Send>;

/// Returns the text of a row, if it is needed.
pub(super) fn raw(bytes: &[u8], keep: bool) -> Option<String> {
    keep.then(|| String::from_utf8_lossy(bytes).trim_end_matches(['\r', '\n']).to_owned())
}
