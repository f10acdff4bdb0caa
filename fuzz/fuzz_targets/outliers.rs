//! Reads, checks and repairs arbitrary documents as a main document and its overflow documents.
#![no_main]
#![allow(dead_code, unused_imports)] // the target includes all sources of the crate

#[path = "../../crates/outlier/src"]
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

use libfuzzer_sys::fuzz_target;
use mongo_patterns_core::ErrorKind;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use serde::Deserialize;

use documents::documents;
use sources::{action, builder, form, migrate, query, read, repair, repository, results, settings, write};

// The names that the sources expect at the root of their crate.
use crate::form::document::{decode_elements, decode_main, is_flagged, whole};
use crate::form::equality::form;
use crate::repair::check::{Main, Overflow, Summary, check};
use crate::repair::fix::{Stored, fix};
use crate::settings::Settings;
pub use builder::OutlierRepositoryBuilder;
pub use mongo_patterns_core::{Progress, Removed, Repository, Updated};
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::OutlierRepository;
pub use results::{Counts, Migrated, Pushed, PushedMany, Refreshed, StoredDocument};

fuzz_target!(|input: &[u8]| stored(input));

/// A document type as services have it.
#[derive(Deserialize)]
struct Book {
    title: String,
    customers_purchased: Vec<String>,
}

/// Reads, checks and fixes any documents as a main document and its overflow documents.
fn stored(input: &[u8]) {
    let documents = documents(input);
    let settings = Settings {
        threshold: 3,
        max_overflow_elements: 4,
        ..Settings::example()
    };
    let unique = Settings {
        unique: true,
        ..Settings::example()
    };
    for document in &documents {
        let _ = is_flagged(&settings, document);
        let _ = decode_main::<Book>(document);
        let _ = decode_main::<Document>(document);
        for field in [settings.array.as_str(), settings.extras.as_str()] {
            elements_of(document, field);
        }
        for (_, value) in document.iter().map_while(std::result::Result::ok) {
            let _ = form(value);
        }
        let summary = Summary::of_row(document);
        let _ = (
            summary.elements(),
            summary.is_laid_out(&settings),
            check(&settings, &summary),
        );
    }
    let Some((main, overflow)) = documents.split_first() else {
        return;
    };
    if let Ok(whole) = whole(&settings, main, overflow) {
        let elements = |document: &RawDocument, field: &str| {
            let elements = decode_elements::<Bson>(document, field, 0);
            elements.map_or(0, |elements| elements.len())
        };
        let all: usize = overflow
            .iter()
            .map(|document| elements(document, settings.extras.as_str()))
            .sum();
        let is_valid = documents
            .iter()
            .all(|document| Document::try_from(document.as_ref()).is_ok());
        let all = all + elements(main, settings.array.as_str());
        assert!(
            !is_valid || elements(&whole, settings.array.as_str()) == all,
            "all elements are read"
        );
    }
    for settings in [&settings, &unique] {
        for main in [None, Some(main)] {
            for delete_orphans in [false, true] {
                fixed(settings, main, overflow, delete_orphans);
            }
        }
    }
}

fn elements_of(document: &RawDocument, field: &str) {
    let all = decode_elements::<Bson>(document, field, 0);
    if let Err(error) = &all {
        assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Decode),
            "{error}"
        );
    }
    for skip in [1, usize::MAX] {
        let some = decode_elements::<Bson>(document, field, skip);
        if let (Ok(all), Ok(some)) = (&all, some) {
            assert_eq!(some.len(), all.len().saturating_sub(skip));
        }
    }
    let _ = decode_elements::<String>(document, field, 0);
}

fn fixed(settings: &Settings, main: Option<&RawDocumentBuf>, documents: &[RawDocumentBuf], delete_orphans: bool) {
    // An overflow document with an array of parents belongs to no main document.
    let is_own = |document: &&RawDocumentBuf| document.get_array(settings.parent.as_str()).is_err();
    let own = documents.iter().filter(is_own);
    let overflow: u64 = own
        .filter_map(|document| Overflow::of_document(settings, document).elements)
        .sum();
    let inline = main.and_then(|main| Main::of_parts(main).elements);
    let stored = Stored {
        main: main.cloned(),
        overflow: documents.to_vec(),
    };
    let Ok(fix) = fix(settings, &Bson::Int32(2), stored, delete_orphans) else {
        return;
    };
    for finding in &fix.findings {
        let _ = finding.problem.to_string();
    }
    let _ = fix.is_empty();
    if fix.has_main && fix.unrepaired.is_none() && !settings.unique {
        let elements = inline.unwrap_or(0) + overflow;
        assert_eq!(fix.inline + fix.overflow, elements, "no element is lost");
    }
    assert!(
        fix.has_main || delete_orphans || fix.changes.is_empty(),
        "orphans are deleted only on request"
    );
}
