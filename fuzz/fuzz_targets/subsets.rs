//! Reads arbitrary documents as parents, children and change events of a subset, and arbitrary text as its tokens.
#![no_main]
#![allow(dead_code, unused_imports)] // the target includes all sources of the crate

#[path = "../../crates/subset/src"]
mod sources {
    pub(crate) mod action;
    pub(crate) mod builder;
    pub(crate) mod follow;
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
use mongo_patterns_core::{DocumentId, ErrorKind};
use mongodb::bson::{Bson, Document, RawDocument, doc};
use mongodb::options::UpdateModifications;
use serde::Deserialize;

use documents::documents;
use sources::{action, builder, follow, form, migrate, query, read, repair, repository, results, settings, write};

// The names that the sources expect at the root of their crate.
use crate::follow::stale_parents;
use crate::form::child::{Child, decode, is_id};
use crate::form::parent::ParentState;
use crate::form::update::checked_update;
use crate::query::page::{edge, index_key};
use crate::settings::Settings;
pub use builder::{Subset, SubsetRepositoryBuilder};
pub use form::token::ChildToken;
pub use mongo_patterns_core::follow::Followed;
pub use mongo_patterns_core::{Deleted, Progress, Repository};
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::SubsetRepository;
pub use results::{InsertedChild, InsertedMany, Migrated, Refreshed, RefreshedAll, UpdatedChild};

fuzz_target!(|input: &[u8]| {
    tokens(input);
    stored(input);
});

#[derive(Deserialize)]
struct Product {
    name: String,
    reviews: Vec<Document>,
}

/// Checks that any text is refused as a token, or is a position among the children of the parent that it is used for.
fn tokens(input: &[u8]) {
    let settings = Settings::example();
    is_position(&settings, &String::from_utf8_lossy(input));
    // Few texts are the hexadecimal form of a document.
    for document in documents(input) {
        let text: String = document.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        is_position(&settings, &text);
        is_token_of(&settings, &document);
    }
}

fn is_position(settings: &Settings, text: &str) {
    let Ok(token) = text.parse::<ChildToken>() else {
        return;
    };
    assert_eq!(token.to_string(), text, "a token has one text");
    let parent = Bson::Int32(1);
    let first = settings.first();
    match token.values(settings, first) {
        Ok(values) => {
            let key = index_key(settings, first, &parent, values);
            assert_eq!(key.len(), 1 + first.order.len());
            assert_eq!(key.keys().next().map(String::as_str), Some(settings.parent.as_str()));
            assert_eq!(key.get(settings.parent.as_str()), Some(&parent));
            // No child has the values of an edge.
            assert_ne!(key, edge(settings, first, &parent, false));
            assert_ne!(key, edge(settings, first, &parent, true));
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument),
    }
}

/// Checks that the token of a valid child survives its text.
fn is_token_of(settings: &Settings, child: &RawDocument) {
    let token = ChildToken::of(settings, settings.first(), child);
    let Ok(child) = Document::try_from(child) else { return };
    if Child::of(settings, &child).is_ok()
        && let Ok(back) = token.to_string().parse::<ChildToken>()
    {
        assert_eq!(back.to_string(), token.to_string());
        assert!(back.values(settings, settings.first()).is_ok(), "the token of a child");
    }
}

/// Checks that any documents are read as parents, children and changes without a panic.
fn stored(input: &[u8]) {
    let settings = Settings::example();
    let parent = Bson::Int32(1);
    for document in documents(input) {
        let _ = (decode::<Product>(&document), decode::<Document>(&document));
        let _ = stale_parents(&settings, &document);
        for (_, value) in document.iter().map_while(std::result::Result::ok) {
            let _ = (is_id(Some(value), &parent), is_id(Some(value), &Bson::Null));
        }
        if let Ok(document) = Document::try_from(document.as_ref()) {
            if let Ok(child) = Child::of(&settings, &document) {
                assert!(DocumentId::new(child.parent).is_ok() && DocumentId::new(child.id).is_ok());
            }
            let set = doc! { "$set": document.clone() };
            for update in [set.clone().into(), document.into(), vec![set].into()] {
                if let Ok(UpdateModifications::Document(update)) = checked_update(&settings, update) {
                    assert!(update.keys().all(|operator| operator.starts_with('$')));
                }
            }
        }
        let state = ParentState::of(&settings, document);
        let ids = state.ids_of_subsets(&settings).unwrap_or_default();
        assert!(ids.iter().all(|ids| matches!(ids, Bson::Array(_) | Bson::Null)));
        let unchanged = query::unchanged(&settings, &parent, &state);
        assert_eq!(unchanged.get("_id"), query::by_id(&parent).get("_id"));
        let _ = state.is_unmanaged(&settings);
    }
}
