//! Checks that take any bytes, and panic where a promise does not hold: for the fuzz targets, and for the tests that run
//! the same checks without a fuzzer. Behind a feature that nobody else turns on.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{RawBsonRef, RawDocumentBuf, Uuid};

use crate::key::{EncodedKey, Key};

/// The smallest document: its length, and its end.
const SMALLEST: usize = 5;
/// How many documents are made of one input at most.
const DOCUMENTS: usize = 16;

/// Any bytes as documents, one after the other. Where a document's length cannot be, it is mended; the rest of it can be
/// anything.
pub fn documents(input: &[u8]) -> Vec<RawDocumentBuf> {
    let mut documents = Vec::new();
    let mut rest = input;
    while rest.len() >= SMALLEST && documents.len() < DOCUMENTS {
        let told = rest.first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
        let told = told.and_then(|told| usize::try_from(told).ok());
        let length = told
            .filter(|told| (SMALLEST..=rest.len()).contains(told))
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

/// Two keys and a tail, with a byte between them that no text has: keys come back, no key has another's ids, and ids sort
/// by their tails. The same bytes as stored values: what is taken for a key is one.
pub fn key_codec(input: &[u8]) {
    let mut texts = input.split(|byte| *byte == 0xff).map(String::from_utf8_lossy);
    let [one, other, tail] = std::array::from_fn(|_| texts.next().unwrap_or_default());
    for text in [&one, &other] {
        decoded::<String>(text);
        decoded::<i32>(text);
        decoded::<i64>(text);
        decoded::<u32>(text);
        decoded::<u64>(text);
        decoded::<ObjectId>(text);
        decoded::<Uuid>(text);
    }
    if let Some(bytes) = input.first_chunk::<16>() {
        let number = i64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
        comes_back(&number);
        comes_back(&ObjectId::from_bytes(std::array::from_fn(|at| bytes[at])));
        comes_back(&Uuid::from_bytes(*bytes));
    }
    for document in documents(input) {
        for (_, value) in document.iter().map_while(Result::ok) {
            stored::<String>(value);
            stored::<i32>(value);
            stored::<i64>(value);
            stored::<u32>(value);
            stored::<u64>(value);
            stored::<ObjectId>(value);
            stored::<Uuid>(value);
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

/// Whether an id is of the key: all ways to find out agree.
fn has(key: &EncodedKey, id: &str) -> bool {
    let has = key.tail(id).is_some();
    assert_eq!(has, (key.id("")..key.end()).contains(&id.to_owned()), "the range");
    assert_eq!(has, id.starts_with(&prefix_of(&key.pattern(""))), "the pattern");
    has
}

/// What a regular expression finds, which must be a plain prefix.
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

/// The key with this text, if there is one, has no other text.
fn decoded<K: Key>(text: &str) {
    let Some(key) = K::decode_key(text) else { return };
    if let Ok(encoded) = key.encode_key() {
        assert_eq!(encoded.text(), text, "a key has one text");
    }
}

/// A stored value that is taken for a key is one that can be found by its text.
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
