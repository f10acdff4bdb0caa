//! Checks that take any bytes, and panic where a promise does not hold: see [`mongo_patterns_core::fuzzing`].

use std::collections::HashSet;

use mongo_patterns_core::document_id::text;
use mongo_patterns_core::fuzzing::documents;
use mongo_patterns_core::{EncodedKey, ErrorKind, FieldName, Key};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, Uuid};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::form::document::{Part, Reader, read_item};
use crate::form::id::Tail;
use crate::repair::check::{Look, check};
use crate::repair::fix::mend;
use crate::settings::Settings;
use crate::{IdPolicy, ItemToken, PageToken, Problem, query};

/// An item type as services have them.
#[derive(Deserialize)]
#[allow(dead_code)] // it is only decoded
struct Trade {
    ticker: String,
    qty: i32,
    date: mongodb::bson::DateTime,
}

/// Any text as a token: it is refused, or it is a place among the pages of whichever key it is used for.
pub fn tokens(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(token) = text.parse::<PageToken>() {
        assert_eq!(token.to_string(), text, "a token has one text");
        stays_with_its_key(&token);
    }
    if let Ok(token) = text.parse::<ItemToken>() {
        assert_eq!(token.to_string(), text, "a token has one text");
        stays_with_its_key(&PageToken::from_tail(token.tail()));
    }
    // The same text as an `_id`, and as a part of one.
    if let Some(tail) = Tail::parse(&text) {
        let normal = tail.normal();
        let again = normal.as_deref().and_then(Tail::parse).and_then(Tail::normal);
        assert_eq!(again, normal, "the normal form is its own");
        if let Ok(next) = tail.successor() {
            assert!(next.as_str() > text.as_ref(), "a successor comes after");
        }
    }
}

fn stays_with_its_key(token: &PageToken) {
    let settings = Settings::example();
    for key in ["", "12", "12_3", "a.b|c", "123`"] {
        let Ok(key) = mongo_patterns_core::EncodeKey::encode_key(key) else {
            unreachable!("short keys")
        };
        for operator in ["$gt", "$gte", "$lt", "$lte"] {
            let filter = query::buckets_beyond(&settings, &key, operator, token);
            assert_eq!(filter.get(settings.key.as_str()), Some(key.value()));
            let bounds = filter.get_document("_id").expect("a range");
            assert_eq!(bounds.len(), 2);
            for bound in bounds.values() {
                let bound = bound.as_str().expect("a text");
                assert!(*key.id("") <= *bound && *bound <= *key.end(), "a bound of the key");
            }
        }
    }
}

/// Any documents as the buckets of a key: they are read, checked and mended without a panic, a read takes nothing that
/// verify calls corrupt, and what was mended is right.
pub fn stored(input: &[u8]) {
    let documents = documents(input);
    let field = |name: &str| FieldName::new(name).expect("a plain name");
    let plain = Settings {
        page_size: 3,
        ..Settings::example()
    };
    let with_ids = Settings {
        item_id: Some(field("tradeId")),
        time: None,
        page_size: 1,
        id_policy: IdPolicy::Monotonic,
        ..Settings::example()
    };
    for settings in [&plain, &with_ids] {
        stored_of(settings, &123_u32, &documents);
        stored_of(settings, &-5_i64, &documents);
        stored_of(settings, &"12_3".to_owned(), &documents);
        stored_of(settings, &ObjectId::from_bytes([7; 12]), &documents);
        stored_of(settings, &Uuid::from_bytes([7; 16]), &documents);
    }
}

fn stored_of<K: Key>(settings: &Settings, key: &K, documents: &[RawDocumentBuf]) {
    let key = key.encode_key().expect("a short key");
    for document in documents {
        for part in [Part::Whole, Part::Newest(2), Part::Filtered] {
            read_as::<K, Trade>(settings, &key, part, document);
            read_as::<K, i32>(settings, &key, part, document);
            read_as::<K, Bson>(settings, &key, part, document);
        }
        let _ = read_item::<Trade>(settings, document);
        let look = Look::of_row::<K>(document);
        let _ = (look.place(), check(settings, &[look]));
        let look = Look::of_bucket::<K>(settings, document);
        let is_read = read_as::<K, Bson>(settings, &key, Part::Whole, document);
        let corrupt = check(settings, &[look]).into_iter().any(|finding| {
            use Problem::{Count, IdFormat, ItemsNotArray, KeyDisagrees, KeyMissing, KeyType};
            let _ = finding.problem.to_string();
            matches!(
                finding.problem,
                IdFormat | KeyMissing | KeyType | KeyDisagrees | ItemsNotArray | Count { .. }
            )
        });
        assert!(!(is_read && corrupt), "a read took what verify calls corrupt");
    }
    let valid: Vec<RawDocumentBuf> = documents
        .iter()
        .filter(|document| is_valid(document))
        .cloned()
        .collect();
    is_mended::<K>(settings, &key, valid);
    let _ = mend::<K>(settings, &key, documents.to_vec());
}

fn read_as<K: Key, T: DeserializeOwned>(
    settings: &Settings,
    key: &EncodedKey,
    part: Part,
    document: &RawDocumentBuf,
) -> bool {
    match (Reader { settings, key, part }).read::<K, T>(document) {
        Ok(bucket) => {
            assert!(key.tail(&bucket.id).is_some(), "a bucket of the key");
            let stored = bucket.key.encode_key().expect("the key was encoded before");
            assert_eq!(stored.text(), key.text());
            assert_eq!(bucket.token().tail(), key.tail(&bucket.id).unwrap_or_default());
            true
        }
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Decode),
                "{error}"
            );
            false
        }
    }
}

/// As a server would store it.
fn is_valid(document: &RawDocumentBuf) -> bool {
    Document::try_from(document.as_ref()).is_ok()
}

/// Writes what a repair would, and looks again.
fn is_mended<K: Key>(settings: &Settings, key: &EncodedKey, mut documents: Vec<RawDocumentBuf>) {
    // On a server, no two documents have the same `_id`.
    let id_of = |document: &RawDocumentBuf| {
        let id = document.get("_id").ok().flatten();
        id.and_then(|id| Bson::try_from(id).ok())
    };
    let mut ids = HashSet::new();
    documents.retain(|document| id_of(document).is_some_and(|id| ids.insert(text(&id))));
    let Ok(mending) = mend::<K>(settings, key, documents.clone()) else {
        return;
    };
    if mending.left.is_some() || mending.changes.is_empty() {
        return;
    }
    let removed: HashSet<String> = mending.changes.removed.iter().map(text).collect();
    documents.retain(|document| id_of(document).is_none_or(|id| !removed.contains(&text(&id))));
    documents.extend(mending.changes.written);
    let mut looks: Vec<Look> = documents
        .iter()
        .map(|document| Look::of_bucket::<K>(settings, document))
        .filter(|look| look.key_text() == Some(key.text()))
        .collect();
    looks.sort_by_cached_key(Look::place);
    let items: u64 = looks.iter().filter_map(|look| look.items).sum();
    assert_eq!(items, mending.items, "no item is lost or doubled");
    let findings = check(settings, &looks);
    assert!(findings.is_empty(), "left after a repair: {findings:?}");
}
