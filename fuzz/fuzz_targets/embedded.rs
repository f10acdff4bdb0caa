//! Reads and checks arbitrary documents as parents with embedded children.
#![no_main]
#![allow(dead_code, unused_imports)] // the target includes all sources of the crate

#[path = "../../crates/embedded/src"]
mod sources {
    pub(crate) mod action;
    pub(crate) mod builder;
    pub(crate) mod form;
    pub(crate) mod migrate;
    pub(crate) mod query;
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
use mongodb::bson::{Bson, Document};
use serde::Deserialize;

use documents::documents;
use sources::{action, builder, form, migrate, query, repair, repository, results, settings, write};

// The names that the sources expect at the root of their crate.
use crate::form::child_id::ChildId;
use crate::form::document::{check_parent, decode_child, decode_parent};
use crate::settings::Settings;
pub use builder::EmbeddedRepositoryBuilder;
pub use mongo_patterns_core::{Inserted, Progress, Removed, Repository, Updated};
pub use repair::finding::{Finding, Problem};
pub use repository::EmbeddedRepository;
pub use results::{Migrated, Upserted};

fuzz_target!(|input: &[u8]| stored(input));

/// A parent type as services have them.
#[derive(Deserialize)]
struct Patron {
    name: String,
    addresses: Vec<Document>,
}

/// Reads and checks any documents as parents. It must not panic, and a parent that passes the check has the invariants.
fn stored(input: &[u8]) {
    let settings = Settings::example();
    for document in documents(input) {
        let _ = (
            decode_parent::<Patron>(&settings, &document),
            decode_parent::<Document>(&settings, &document),
        );
        let _ = decode_child::<Document>(&settings, &document);
        for problem in Problem::of_row(&document, settings.max_children) {
            let _ = problem.to_string();
        }
        let Ok(mut document) = Document::try_from(document.as_ref()) else {
            continue;
        };
        for value in document.values() {
            if let Ok(id) = ChildId::new(value.clone()) {
                let again = ChildId::new(id.to_bson()).expect("an id");
                assert_eq!(again.form(), id.form());
            }
        }
        if check_parent(&settings, &mut document).is_ok() {
            let children = document.get_array(settings.children.as_str()).expect("an array");
            assert!(children.len() <= settings.max_children as usize);
            let ids = children.iter().map(|child| {
                let child = child.as_document().expect("a document");
                ChildId::of_child(&settings, child).expect("an id").form().to_owned()
            });
            let mut ids: Vec<String> = ids.collect();
            ids.sort_unstable();
            assert!(ids.is_sorted_by(|a, b| a < b), "no two children have the same id");
        }
        let wrapped = Bson::Document(document);
        if let Err(error) = ChildId::new(wrapped) {
            assert_eq!(error.kind(), ErrorKind::InvalidItemId);
        }
    }
}
