//! What a migration counts before it writes, and what it refuses.

use mongodb::bson::{Bson, Document, Timestamp, doc};

use crate::error::{Error, ErrorKind, Result};

/// A number that an aggregation counted; 0 where it found nothing.
pub fn number(found: &Document, field: &str) -> u64 {
    let number = match found.get(field) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        #[allow(clippy::cast_possible_truncation)] // a server counts in doubles when it adds large numbers up
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    };
    u64::try_from(number).unwrap_or(0)
}

/// Whether a stored document is what an insert of a given one stores, as an expression. The server puts the time of the
/// insert in the place of a `Timestamp(0, 0)` that is a field of the document itself.
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
            // Or else the fields are the same ones, in another order.
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

/// An error when an aggregation counted what cannot be moved. It names one of the documents, which is in a field of the
/// same name with `One` after it.
///
/// # Errors
/// Of this kind.
pub fn refuse(found: &Document, numbers: &str, kind: ErrorKind, field: &str, what: &str) -> Result<()> {
    let bad = number(found, numbers);
    if bad == 0 {
        return Ok(());
    }
    let error = Error::new(kind, format!("{bad} {what}; nothing was moved"));
    match found.get(format!("{numbers}One")) {
        None | Some(Bson::Null) => Err(error),
        Some(id) => Err(error.at(id.clone(), field)),
    }
}

/// Counts the rows that meet a condition, and names one of them, for [`refuse`].
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
