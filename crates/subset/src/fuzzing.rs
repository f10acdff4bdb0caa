//! Checks that take any bytes, and panic where a promise does not hold: see [`mongo_patterns_core::fuzzing`].

use mongo_patterns_core::fuzzing::documents;
use mongo_patterns_core::{DocumentId, ErrorKind};
use mongodb::bson::{Bson, Document, RawDocument};
use serde::Deserialize;

use crate::follow::change::Change;
use crate::form::child::{Child, checked_update, decode, is_id};
use crate::settings::Settings;
use crate::write::refresh::State;
use crate::{ChildToken, query};

/// A parent type as services have them.
#[derive(Deserialize)]
#[allow(dead_code)] // it is only decoded
struct Product {
    name: String,
    reviews: Vec<Document>,
}

/// Any text as a token: it is refused, or it is a place among the children of whichever parent it is used for.
pub fn tokens(input: &[u8]) {
    let settings = Settings::example();
    is_place(&settings, &String::from_utf8_lossy(input));
    // The bytes of a token, of which few texts are the hexadecimal form.
    for document in documents(input) {
        let text: String = document.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        is_place(&settings, &text);
        is_token_of(&settings, &document);
    }
}

fn is_place(settings: &Settings, text: &str) {
    let Ok(token) = text.parse::<ChildToken>() else {
        return;
    };
    assert_eq!(token.to_string(), text, "a token has one text");
    let parent = Bson::Int32(1);
    match token.values(settings) {
        Ok(values) => {
            let key = query::place(settings, &parent, values);
            assert_eq!(key.len(), 1 + settings.order.len());
            assert_eq!(key.keys().next().map(String::as_str), Some(settings.parent.as_str()));
            assert_eq!(key.get(settings.parent.as_str()), Some(&parent));
            // The edges of the parent have what no child has.
            assert_ne!(key, query::edge(settings, &parent, false));
            assert_ne!(key, query::edge(settings, &parent, true));
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument),
    }
}

/// The token of a child that can be stored comes back.
fn is_token_of(settings: &Settings, child: &RawDocument) {
    let token = ChildToken::of(settings, child);
    let Ok(child) = Document::try_from(child) else { return };
    if Child::of(settings, &child).is_ok()
        && let Ok(back) = token.to_string().parse::<ChildToken>()
    {
        assert_eq!(back.to_string(), token.to_string());
        assert!(back.values(settings).is_ok(), "a token that was handed out");
    }
}

/// Any documents as parents, children and changes: they are read without a panic.
pub fn stored(input: &[u8]) {
    let settings = Settings::example();
    let parent = Bson::Int32(1);
    for document in documents(input) {
        let _ = (decode::<Product>(&document), decode::<Document>(&document));
        let _ = Change::of(&settings, &document);
        for (_, value) in document.iter().map_while(Result::ok) {
            let _ = (is_id(Some(value), &parent), is_id(Some(value), &Bson::Null));
        }
        if let Ok(document) = Document::try_from(document.as_ref()) {
            if let Ok(child) = Child::of(&settings, &document) {
                assert!(DocumentId::new(child.parent).is_ok() && DocumentId::new(child.id).is_ok());
            }
            if let Ok(update) = checked_update(&settings, document, Vec::new()) {
                assert_eq!(update.keys().collect::<Vec<_>>(), ["$set"]);
            }
        }
        let state = State::of(&settings, document);
        let is_array = matches!(state.first_ids(&settings), None | Some(Bson::Array(_) | Bson::Null));
        assert!(is_array && !state.is_guess());
        let unchanged = state.unchanged(&settings, &parent);
        assert_eq!(unchanged.get("_id"), query::by_id(&parent).get("_id"));
        let _ = state.is_unwritten(&settings);
    }
}
