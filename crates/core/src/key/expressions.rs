//! The key codec as aggregation expressions, which must agree with [`EncodeKey`](super::EncodeKey).

use mongodb::bson::{Binary, Bson, Document, Uuid, doc};

use super::error::MAX_KEY_BYTES;

/// A double represents every integer up to this one.
pub(super) const EXACT: f64 = 9_007_199_254_740_992.0;

/// Escaping replaces one byte by up to three.
const SHORT: usize = MAX_KEY_BYTES / 3;

/// The key codec as expressions of an aggregation, for one path.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyExpressions {
    /// Whether the stored value is a key of the type. The other two are valid only if it is.
    pub is_key: Bson,
    /// The text of the key, without the `_` that ends it. For a [`Uuid`] it needs MongoDB 8.0.
    pub text: Bson,
    /// The value for a key field: an int32 if it fits, even if the stored value is a double.
    pub value: Bson,
}

pub(super) fn integer(stored: &str, smallest: i64, largest: i64) -> KeyExpressions {
    #[allow(clippy::cast_possible_truncation)] // an integer that fits
    let exact = EXACT as i64;
    let between =
        |smallest: i64, largest: i64| doc! { "$and": [{ "$gte": [stored, smallest] }, { "$lte": [stored, largest] }] };
    let double = doc! { "$and": [
        between(smallest.max(-exact), largest.min(exact)),
        { "$eq": [stored, { "$trunc": stored }] },
    ] };
    let fits = doc! { "$and": [{ "$gte": ["$$integer", i32::MIN] }, { "$lte": ["$$integer", i32::MAX] }] };
    KeyExpressions {
        is_key: doc! { "$switch": {
            "branches": [
                { "case": { "$in": [{ "$type": stored }, ["int", "long"]] }, "then": between(smallest, largest) },
                { "case": of_type(stored, "double"), "then": double },
            ],
            "default": false,
        } }
        .into(),
        text: doc! { "$toString": { "$toLong": stored } }.into(),
        value: doc! { "$let": {
            "vars": { "integer": { "$toLong": stored } },
            "in": { "$cond": [fits, { "$toInt": "$$integer" }, "$$integer"] },
        } }
        .into(),
    }
}

pub(super) fn string(stored: &str) -> KeyExpressions {
    let mut text = Bson::String(stored.to_owned());
    // `%` first, because the others add new ones. None of them adds or separates a backslash before a `|`.
    for (find, replacement) in [("%", "%25"), ("_", "%5F"), ("\0", "%00"), (r"\|", "%5C|")] {
        text = doc! { "$replaceAll": { "input": text, "find": find, "replacement": replacement } }.into();
    }
    let bytes = |text: Bson| doc! { "$strLenBytes": text };
    let at_most = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    let fits = doc! { "$or": [
        { "$lte": [bytes(stored.into()), at_most(SHORT)] },
        { "$lte": [bytes(text.clone()), at_most(MAX_KEY_BYTES)] },
    ] };
    KeyExpressions {
        is_key: doc! { "$cond": [of_type(stored, "string"), fits, false] }.into(),
        text,
        value: stored.into(),
    }
}

pub(super) fn object_id(stored: &str) -> KeyExpressions {
    KeyExpressions {
        is_key: of_type(stored, "objectId").into(),
        text: doc! { "$toString": stored }.into(),
        value: stored.into(),
    }
}

pub(super) fn uuid(stored: &str) -> KeyExpressions {
    // Binary data sorts by length, then by subtype, then by its bytes.
    let [least, greatest] = [0, u8::MAX].map(|byte| Binary::from_uuid(Uuid::from_bytes([byte; 16])));
    KeyExpressions {
        is_key: doc! { "$and": [{ "$gte": [stored, least] }, { "$lte": [stored, greatest] }] }.into(),
        // As `936da01f-9abd-4d9d-80c7-02af85c822a8`.
        text: doc! { "$toString": stored }.into(),
        value: stored.into(),
    }
}

fn of_type(stored: &str, name: &str) -> Document {
    doc! { "$eq": [{ "$type": stored }, name] }
}
