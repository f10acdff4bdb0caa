//! What a migration counts before it writes, and what it refuses.

use mongodb::bson::{Bson, Document, Timestamp, doc};

use crate::error::{CommandError, Error, ErrorKind, Result, code, duplicate_key};

/// Returns a number that an aggregation counted, or 0 if the field is missing.
pub fn number(found: &Document, field: &str) -> u64 {
    let number = match found.get(field) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        #[allow(clippy::cast_possible_truncation)] // a server adds large numbers up as doubles
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    };
    u64::try_from(number).unwrap_or(0)
}

/// Returns an expression of whether a stored document is what an insert of a given one stores. The server replaces a
/// `Timestamp(0, 0)` by the time of the insert.
pub fn is_inserted(stored: impl Into<Bson>, given: impl Into<Bson>) -> Document {
    let replaced = Timestamp { time: 0, increment: 0 };
    let fields = |of: &str| doc! { "$objectToArray": of };
    let only = |of: &str, other: &str| doc! { "$setDifference": [fields(of), fields(other)] };
    let all = |fields: &str, condition: Document| {
        doc! { "$allElementsTrue": [{ "$map": { "input": fields, "in": condition } }] }
    };
    let is_replaced = doc! { "$let": {
        "vars": { "stored": only("$$stored", "$$given"), "given": only("$$given", "$$stored") },
        "in": { "$and": [
            // Otherwise the fields are the same, in another order.
            { "$ne": ["$$given", []] },
            { "$setEquals": ["$$stored.k", "$$given.k"] },
            all("$$given", doc! { "$eq": ["$$this.v", replaced] }),
            all("$$stored", doc! { "$eq": [{ "$type": "$$this.v" }, "timestamp"] }),
        ] },
    } };
    doc! { "$let": {
        "vars": { "stored": stored, "given": given },
        "in": { "$or": [{ "$eq": ["$$stored", "$$given"] }, is_replaced] },
    } }
}

/// Fails when an aggregation counted documents that cannot be migrated. The error has one of these documents, from the field
/// with the suffix `One`.
pub fn refuse(found: &Document, numbers: &str, kind: ErrorKind, field: &str, what: &str) -> Result<()> {
    refuse_one(found, (numbers, &format!("{numbers}One")), kind, field, what)
}

/// Does what [`refuse`] does, with the names of the fields of the number and of the document.
pub fn refuse_one(
    found: &Document,
    (numbers, one): (&str, &str),
    kind: ErrorKind,
    field: &str,
    what: &str,
) -> Result<()> {
    let bad = number(found, numbers);
    if bad == 0 {
        return Ok(());
    }
    let error = Error::new(kind, format!("{bad} {what}; nothing was migrated"));
    match found.get(one) {
        None | Some(Bson::Null) => Err(error),
        Some(id) => Err(error.of_document(id.clone(), field)),
    }
}

/// The server's code of a `$lookup` whose result exceeds the limit of a document.
pub const LOOKUP_TOO_LARGE: i32 = 4568;

/// Explains the error of a command, if the server reports this code, or if a unique index refused a document.
pub fn explained(
    error: CommandError,
    (expected, kind, message): (i32, ErrorKind, &'static str),
    duplicate: &'static str,
) -> Error {
    if code(&error) == Some(expected) {
        return Error::from_driver(kind, message, error);
    }
    match duplicate_key(&error) {
        Some(_) => Error::from_driver(ErrorKind::DuplicateKey, duplicate, error),
        None => error.into(),
    }
}

/// Returns whether an aggregation failed because documents that the server can store are too large together.
pub fn exceeds_memory(error: &CommandError) -> bool {
    /// The documents of a `$lookup`; a document or its buffer between two stages; a stage, without or with files.
    const TOO_LARGE: [i32; 5] = [LOOKUP_TOO_LARGE, 10334, 13548, 146, 292];
    code(error).is_some_and(|code| TOO_LARGE.contains(&code))
}

/// Counts the rows that meet a condition, and names one, for [`refuse`].
pub fn count_if(group: &mut Document, name: &str, condition: Document, how_many: impl Into<Bson>, one: &str) {
    group.insert(
        name,
        doc! { "$sum": { "$cond": [condition.clone(), how_many.into(), 0] } },
    );
    group.insert(
        format!("{name}One"),
        doc! { "$max": { "$cond": [condition, one, null] } },
    );
}
