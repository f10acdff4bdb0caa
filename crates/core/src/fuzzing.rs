//! Checks that take any bytes, and panic when an invariant is violated: for the fuzz targets, and for tests that run the same
//! checks without a fuzzer. Behind a private feature.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{RawBsonRef, RawDocumentBuf, Uuid};

use crate::key::{EncodedKey, Key};

/// The bytes of the smallest document: its length, and its NUL.
const SMALLEST: usize = 5;
/// The most documents of one input.
const DOCUMENTS: usize = 16;

/// Calls a check for each type of key.
macro_rules! for_each_key_type {
    ($check:ident, $value:expr) => {
        for_each_key_type!($check, $value, String, i32, i64, u32, u64, ObjectId, Uuid)
    };
    ($check:ident, $value:expr, $($type:ty),+) => {{ $($check::<$type>($value);)+ }};
}

/// Splits any bytes into documents. It corrects an invalid length; everything else can be invalid.
pub fn documents(input: &[u8]) -> Vec<RawDocumentBuf> {
    let mut documents = Vec::new();
    let mut rest = input;
    while rest.len() >= SMALLEST && documents.len() < DOCUMENTS {
        let stated = rest.first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
        let stated = stated.and_then(|stated| usize::try_from(stated).ok());
        let length = stated
            .filter(|stated| (SMALLEST..=rest.len()).contains(stated))
            .unwrap_or(rest.len());
        let (document, after) = rest.split_at(length);
        let mut bytes = document.to_vec();
        bytes[..4].copy_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
        bytes[length - 1] = 0;
        documents.extend(RawDocumentBuf::from_bytes(bytes));
        rest = after;
    }
    documents
}

/// Checks two keys and a tail, with a separator that no text has: keys round-trip, no key has the ids of another, and ids
/// sort by their tails. Checks the same bytes as stored values: a decoded key encodes to the same value.
pub fn key_codec(input: &[u8]) {
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
