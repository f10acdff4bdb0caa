//! Decodes keys, from text and from stored values.
#![no_main]

#[path = "../documents.rs"]
mod documents;

use documents::documents;
use libfuzzer_sys::fuzz_target;
use mongo_patterns_core::key::{EncodedKey, Key};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{RawBsonRef, RawDocumentBuf, Uuid};

fuzz_target!(|input: &[u8]| key_codec(input));

/// Calls a check for each type of key.
macro_rules! for_each_key_type {
    ($check:ident, $value:expr) => {
        for_each_key_type!($check, $value, String, i32, i64, u32, u64, ObjectId, Uuid)
    };
    ($check:ident, $value:expr, $($type:ty),+) => {{ $($check::<$type>($value);)+ }};
}

/// Checks two keys and a tail, with a separator that no text has: keys round-trip, no key has the ids of another, and ids
/// sort by their tails. Checks the same bytes as stored values: a decoded key encodes to the same value.
fn key_codec(input: &[u8]) {
    let mut texts = input.split(|byte| *byte == 0xff).map(String::from_utf8_lossy);
    let [one, other, tail] = std::array::from_fn(|_| texts.next().unwrap_or_default());
    for text in [&one, &other] {
        for_each_key_type!(decoded, text);
    }
    if let Some(bytes) = input.first_chunk::<16>() {
        let number = i64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
        comes_back(&number);
        comes_back(&ObjectId::from_bytes(std::array::from_fn(|at| bytes[at])));
        comes_back(&Uuid::from_bytes(*bytes));
    }
    for document in documents(input) {
        for (_, value) in document.iter().map_while(Result::ok) {
            for_each_key_type!(stored, value);
        }
    }
    let (one, other) = (one.into_owned(), other.into_owned());
    if let (Some(a), Some(b)) = (comes_back(&one), comes_back(&other)) {
        let id = a.id(&tail);
        assert!(has(&a, &id), "a key has its own ids");
        assert_eq!(has(&b, &id), one == other, "no key has another's ids");
        let same_tail = a.id(&other).cmp(&a.id(&tail));
        assert_eq!(same_tail, other.as_str().cmp(&tail), "ids sort by their tails");
    }
}

/// Returns whether an id belongs to the key. All checks must agree.
fn has(key: &EncodedKey, id: &str) -> bool {
    let has = key.tail(id).is_some();
    assert_eq!(has, (key.id("")..key.end()).contains(&id.to_owned()), "the range");
    assert_eq!(has, id.starts_with(&prefix_of(&key.pattern(""))), "the pattern");
    has
}

/// Returns the prefix that a regular expression matches.
fn prefix_of(pattern: &str) -> String {
    let mut prefix = String::new();
    let mut characters = pattern.strip_prefix('^').expect("an anchor").chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            '\\' => characters
                .next()
                .filter(char::is_ascii_punctuation)
                .expect("an escaped sign"),
            plain => plain,
        };
        assert!(
            character == '\\' || !r"^$.|?*+()[]{}".contains(character),
            "an operator"
        );
        prefix.push(literal);
    }
    assert!(!prefix.contains('\0'), "a regular expression cannot hold NUL");
    prefix
}

/// Checks that a key has only one text.
fn decoded<K: Key>(text: &str) {
    let Some(key) = K::decode_key(text) else { return };
    if let Ok(encoded) = key.encode_key() {
        assert_eq!(encoded.text(), text, "a key has one text");
    }
}

/// Checks that a decoded stored value is found by its text.
fn stored<K: Key>(value: RawBsonRef<'_>) {
    if let Some(key) = K::from_stored(value) {
        comes_back(&key);
    }
}

fn comes_back<K: Key>(key: &K) -> Option<EncodedKey> {
    let encoded = key.encode_key().ok()?;
    assert!(!encoded.text().contains(['_', '\0']), "the text has no separator");
    assert_eq!(K::decode_key(encoded.text()).as_ref(), Some(key), "from its text");
    let mut document = RawDocumentBuf::new();
    let value = mongodb::bson::RawBson::try_from(encoded.value().clone()).expect("a scalar");
    document.append(mongodb::bson::cstr!("k"), value);
    let back = document.get("k").ok().flatten().and_then(K::from_stored);
    assert_eq!(back.as_ref(), Some(key), "from its stored value");
    Some(encoded)
}
