//! The checks of the fuzz targets, without a fuzzer: on their seeds, on mutated seeds, and on random input.
//! `cargo xtask long inputs` checks more of it.

use std::fs;

use mongo_patterns_core::fuzzing::{documents, key_codec};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

type Check = fn(&[u8]);

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "seeds of {target}");
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Returns seeds in which some bytes are changed, removed or inserted.
fn changed(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<Index>(), 0..4, any::<u8>()), 1..6);
    (select(seeds), edits).prop_map(|(mut bytes, edits)| {
        for (index, edit, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, byte),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        bytes
    })
}

/// Returns the documents of a seed, in which some fields have other values or are removed.
fn replaced(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<Index>(), any::<Index>(), prop::option::of(value())), 1..6);
    (select(seeds), edits).prop_map(|(seed, edits)| {
        let decoded = |document: RawDocumentBuf| Document::try_from(document.as_ref()).unwrap_or_default();
        let mut documents: Vec<Document> = documents(&seed).into_iter().map(decoded).collect();
        for (which, field, value) in edits {
            if documents.is_empty() {
                break;
            }
            let document = which.get_mut(&mut documents);
            let Some(name) = document.keys().nth(field.index(document.len().max(1))).cloned() else {
                continue;
            };
            match value {
                Some(value) => drop(document.insert(name, value)),
                None => drop(document.remove(&name)),
            }
        }
        let encoded = documents
            .iter()
            .map(|document| RawDocumentBuf::try_from(document).unwrap());
        encoded.flat_map(RawDocumentBuf::into_bytes).collect()
    })
}

fn value() -> impl Strategy<Value = Bson> {
    let scalar = prop_oneof![
        Just(Bson::Null),
        Just(Bson::MaxKey),
        any::<bool>().prop_map(Bson::from),
        any::<i32>().prop_map(Bson::from),
        (-2..12_i32).prop_map(Bson::from),
        any::<i64>().prop_map(Bson::from),
        any::<f64>().prop_map(Bson::from),
        "[-_%0-9]{0,16}".prop_map(Bson::from),
        "(123|12%5F3|12_3|-5)_[0-9]{9,11}(_00000[0-9])?".prop_map(Bson::from),
        any::<String>().prop_map(Bson::from),
        any::<[u8; 12]>().prop_map(|bytes| mongodb::bson::oid::ObjectId::from_bytes(bytes).into()),
        any::<i64>().prop_map(|millis| mongodb::bson::DateTime::from_millis(millis).into()),
    ];
    scalar.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Bson::Array),
            inner.clone().prop_map(|id| doc! { "id": id }.into()),
            (inner.clone(), inner).prop_map(|(id, date)| doc! { "tradeId": id, "date": date }.into()),
        ]
    })
}

fn run(check: Check, inputs: impl Strategy<Value = Vec<u8>>) {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let checked = |input: Vec<u8>| {
        check(&input);
        Ok(())
    };
    if let Err(error) = TestRunner::new(config).run(&inputs, checked) {
        panic!("{error}");
    }
}

fn holds(target: &str, check: Check) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| check(seed));
    run(check, changed(seeds.clone()));
    run(check, replaced(seeds));
    run(check, prop::collection::vec(any::<u8>(), 0..200));
}

#[test]
fn keys() {
    holds("key_codec", key_codec);
}

#[test]
fn tokens() {
    holds("tokens", mongo_patterns_bucket::fuzzing::tokens);
    holds("tokens", mongo_patterns_subset::fuzzing::tokens);
}

#[test]
#[ignore = "slow: cargo xtask ci"]
fn buckets() {
    holds("buckets", mongo_patterns_bucket::fuzzing::stored);
}

#[test]
fn outliers() {
    holds("outliers", mongo_patterns_outlier::fuzzing::stored);
}

#[test]
fn subsets() {
    holds("subsets", mongo_patterns_subset::fuzzing::stored);
}

#[test]
fn parents() {
    holds("embedded", mongo_patterns_embedded::fuzzing::stored);
}
