//! The texts of some keys, for servers that have no expression for them.
//!
//! # Design
//!
//! ## Why does a server get the texts of UUIDs?
//!
//! Before MongoDB 8.0 no expression turns binary data into text, except `$function`, which many servers do not allow, and
//! which later versions deprecate. So the client sends the keys of a chunk with their texts, in the order of the keys, and
//! the server finds a key by bisection.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, Document, Uuid, doc};

/// The texts of UUID keys, as an expression.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyTable {
    /// Ascending.
    keys: Vec<Uuid>,
}

impl KeyTable {
    /// The most keys that a command should have. They take 75 bytes each.
    pub const MOST_KEYS: u32 = 10_000;

    /// Creates the table of the UUIDs among some values.
    pub fn new<'v>(values: impl IntoIterator<Item = &'v Bson>) -> Self {
        let mut keys: Vec<Uuid> = values.into_iter().filter_map(uuid).collect();
        // As the server compares binary data of one length and one subtype.
        keys.sort_unstable_by_key(|key| key.bytes());
        keys.dedup();
        Self { keys }
    }

    /// Returns the expression of the text of a key. For a key that is not in the table, it is an error of the server, the
    /// failed conversion [`NO_TEXT`](Self::NO_TEXT).
    pub fn text(&self, stored: &str) -> Bson {
        let keys: Vec<Bson> = self.keys.iter().map(|key| Bson::from(*key)).collect();
        let texts: Vec<String> = self.keys.iter().map(Uuid::to_string).collect();
        let high = i32::try_from(keys.len()).unwrap_or(i32::MAX);
        let at = |values: &str, position: &str| doc! { "$arrayElemAt": [values, position] };
        // The key is at `low` or between `low` and `high`.
        let half = doc! { "$toInt": { "$floor": { "$divide": [{ "$add": ["$$value.low", "$$value.high"] }, 2] } } };
        let step = doc! { "$let": {
            "vars": { "middle": half },
            "in": { "$cond": [
                { "$lte": [at("$$keys", "$$middle"), stored] },
                { "low": "$$middle", "high": "$$value.high" },
                { "low": "$$value.low", "high": "$$middle" },
            ] },
        } };
        let found = doc! { "$reduce": {
            "input": { "$range": [0, steps(self.keys.len())] },
            "initialValue": { "low": 0, "high": high },
            "in": step,
        } };
        // Not a constant, which the server would evaluate before it reads a document.
        let fails = doc! { "$toObjectId": { "$concat": ["no text of a key of the type ", { "$type": stored }] } };
        let of_position: Document = doc! { "$let": {
            "vars": { "found": found },
            "in": { "$cond": [
                { "$eq": [at("$$keys", "$$found.low"), stored] },
                at("$$texts", "$$found.low"),
                fails,
            ] },
        } };
        doc! { "$let": {
            "vars": { "keys": { "$literal": keys }, "texts": { "$literal": texts } },
            "in": of_position,
        } }
        .into()
    }

    /// The server's code of a failed conversion: of a key that is not in the table, or of a UUID before MongoDB 8.0.
    pub const NO_TEXT: i32 = 241;

    /// Returns the text of a UUID key.
    pub fn text_of(value: &Bson) -> Option<String> {
        uuid(value).map(|key| key.to_string())
    }

    /// Returns the last key.
    pub fn last(&self) -> Option<Bson> {
        self.keys.last().map(|key| Bson::from(*key))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

fn uuid(value: &Bson) -> Option<Uuid> {
    let Bson::Binary(binary) = value else { return None };
    let is_uuid = binary.subtype == BinarySubtype::Uuid;
    is_uuid.then(|| Some(Uuid::from_bytes(binary.bytes.as_slice().try_into().ok()?)))?
}

/// Returns how often a range of this length is halved until one position is left.
fn steps(length: usize) -> i32 {
    let bits = usize::BITS - length.saturating_sub(1).leading_zeros();
    i32::try_from(bits).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_each_key_once_in_the_order_of_the_server() {
        let [one, two] = [1, 0x80].map(|byte| Bson::from(Uuid::from_bytes([byte; 16])));
        let table = KeyTable::new([&two, &one, &two, &Bson::Null]);
        assert_eq!((table.len(), table.last()), (2, Some(two.clone())));
        let text = table.text("$k");
        let vars = text.as_document().unwrap().get_document("$let").unwrap();
        let vars = vars.get_document("vars").unwrap();
        assert_eq!(vars.get_document("keys").unwrap(), &doc! { "$literal": [one, two] });
        let texts = [
            "01010101-0101-0101-0101-010101010101",
            "80808080-8080-8080-8080-808080808080",
        ];
        assert_eq!(vars.get_document("texts").unwrap(), &doc! { "$literal": texts });
    }

    #[test]
    fn as_many_steps_as_the_length_has_halves() {
        let numbers = [0, 1, 2, 3, 4, 5, 8, 9, 10_000];
        assert_eq!(numbers.map(steps), [0, 0, 1, 2, 2, 3, 3, 4, 14]);
    }
}
