//! Reads, checks and repairs arbitrary documents as the buckets of a key, and parses arbitrary text as their tokens.
#![no_main]
#![allow(dead_code, unused_imports)] // the target includes all sources of the crate

#[path = "../../crates/bucket/src"]
mod sources {
    pub(crate) mod action;
    pub(crate) mod builder;
    pub(crate) mod form;
    pub(crate) mod migrate;
    pub(crate) mod query;
    pub(crate) mod read;
    pub(crate) mod repair;
    pub(crate) mod repository;
    pub(crate) mod results;
    pub(crate) mod settings;
    pub(crate) mod write;
}
#[path = "../documents.rs"]
mod documents;

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::{EncodeKey, EncodedKey, ErrorKind, FieldName, Key};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, Uuid};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use documents::documents;
use sources::{action, builder, form, migrate, query, read, repair, repository, results, settings, write};

// The names that the sources expect at the root of their crate.
use crate::form::document::{Reader, SelectedItems, id_of, read_item};
use crate::form::id::Tail;
use crate::query::buckets::buckets_beyond;
use crate::repair::check::{Summary, check};
use crate::repair::fix::fix;
use crate::settings::{Settings, with_figures, with_windows};
pub use builder::BucketRepositoryBuilder;
pub use form::document::Bucket;
pub use form::token::{ItemToken, PageToken};
pub use mongo_patterns_core::{Progress, Removed, Repository, Updated};
pub use query::time_format::TimeFormat;
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::BucketRepository;
pub use results::{
    AppendProgress, Appended, AppendedMany, Counts, DeletedItems, FoundItem, ItemsPlan, Migrated, RefreshedFigures,
    Totals,
};
pub use settings::window::{TimeUnit, Window};

fuzz_target!(|input: &[u8]| {
    tokens(input);
    stored(input);
});

/// A typical item type of a service.
#[derive(Deserialize)]
struct Trade {
    ticker: String,
    qty: i32,
    date: mongodb::bson::DateTime,
}

/// Parses any text as a token: it is refused, or is a position among the pages of the key that it is used for.
fn tokens(input: &[u8]) {
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
        let normalized = tail.normalized();
        let again = normalized.as_deref().and_then(Tail::parse).and_then(Tail::normalized);
        assert_eq!(again, normalized, "a normalized tail is normalized to itself");
        if let Ok(next) = tail.successor() {
            assert!(next.as_str() > text.as_ref(), "a successor is greater");
        }
    }
}

fn stays_with_its_key(token: &PageToken) {
    let settings = Settings::example();
    for key in ["", "12", "12_3", "a.b|c", "123`"] {
        let key = key.encode_key().expect("a short key");
        for operator in ["$gt", "$gte", "$lt", "$lte"] {
            let filter = buckets_beyond(&settings, &key, operator, token);
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

/// Takes any documents for the buckets of a key: they are read, checked and repaired without a panic, a read accepts no
/// document that verify reports as corrupt, and a repaired key has no findings.
fn stored(input: &[u8]) {
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
        ..Settings::example()
    };
    let figured = Settings {
        page_size: 2,
        ..with_figures(&["qty", "price"], &["ticker"], true)
    };
    let windowed = Settings {
        page_size: 2,
        ..with_windows()
    };
    for settings in [&plain, &with_ids, &figured, &windowed] {
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
        for selected in [SelectedItems::All, SelectedItems::Newest(2), SelectedItems::Filtered] {
            read_as::<K, Trade>(settings, &key, selected, document);
            read_as::<K, i32>(settings, &key, selected, document);
            read_as::<K, Bson>(settings, &key, selected, document);
        }
        let _ = read_item::<Trade>(settings, document);
        let summary = Summary::of_row::<K>(document);
        let _ = (summary.position(), check(settings, &[summary]));
        let summary = Summary::of_bucket::<K>(settings, document);
        let is_read = read_as::<K, Bson>(settings, &key, SelectedItems::All, document);
        let corrupt = check(settings, &[summary]).into_iter().any(|finding| {
            use Problem::{Count, IdFormat, ItemsNotArray, KeyMismatch, KeyMissing, KeyType};
            let _ = finding.problem.to_string();
            matches!(
                finding.problem,
                IdFormat | KeyMissing | KeyType | KeyMismatch | ItemsNotArray | Count { .. }
            )
        });
        assert!(
            !(is_read && corrupt),
            "a read accepted a document that verify reports as corrupt"
        );
    }
    let mut valid = documents.to_vec();
    valid.retain(is_valid);
    is_repaired::<K>(settings, &key, valid);
    let _ = fix::<K>(settings, &key, documents.to_vec());
}

fn read_as<K: Key, T: DeserializeOwned>(
    settings: &Settings,
    key: &EncodedKey,
    selected: SelectedItems,
    document: &RawDocumentBuf,
) -> bool {
    match (Reader {
        settings,
        key,
        selected,
    })
    .read::<K, T>(document)
    {
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

/// Returns whether a server could store it.
fn is_valid(document: &RawDocumentBuf) -> bool {
    Document::try_from(document.as_ref()).is_ok()
}

/// Applies the changes of a repair, and checks again.
fn is_repaired<K: Key>(settings: &Settings, key: &EncodedKey, mut documents: Vec<RawDocumentBuf>) {
    // On a server, no two documents have the same `_id`.
    let mut ids = HashSet::new();
    documents.retain(|document| has_id(document) && ids.insert(canonical(&id_of(document))));
    let Ok(fix) = fix::<K>(settings, key, documents.clone()) else {
        return;
    };
    if fix.unrepaired.is_some() || fix.changes.is_empty() {
        return;
    }
    let removed: HashSet<String> = fix.changes.removed.iter().map(canonical).collect();
    documents.retain(|document| !removed.contains(&canonical(&id_of(document))));
    documents.extend(fix.changes.written);
    let mut summaries: Vec<Summary> = documents
        .iter()
        .map(|document| Summary::of_bucket::<K>(settings, document))
        .filter(|summary| summary.key_text() == Some(key.text()))
        .collect();
    summaries.sort_by_cached_key(Summary::position);
    let items: u64 = summaries.iter().filter_map(|summary| summary.items).sum();
    assert_eq!(items, fix.items, "no item is lost or duplicated");
    let findings = check(settings, &summaries);
    assert!(findings.is_empty(), "findings after a repair: {findings:?}");
}

fn has_id(document: &RawDocumentBuf) -> bool {
    let id = document.get("_id").ok().flatten();
    id.is_some_and(|id| Bson::try_from(id).is_ok())
}
