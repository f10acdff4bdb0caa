//! Checks that take any bytes, and panic where a promise does not hold: see [`mongo_patterns_core::fuzzing`].

use mongo_patterns_core::ErrorKind;
use mongo_patterns_core::fuzzing::documents;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use serde::Deserialize;

use crate::form::document::{decode_elements, decode_main, is_flagged, whole};
use crate::form::equality::form;
use crate::repair::check::{Extra, Look, Main, check};
use crate::repair::fix::{Stored, mend};
use crate::settings::Settings;

/// A document type as services have them.
#[derive(Deserialize)]
#[allow(dead_code)] // it is only decoded
struct Book {
    title: String,
    customers_purchased: Vec<String>,
}

/// Any documents as a main document and its extras: they are read, checked and mended without a panic.
pub fn stored(input: &[u8]) {
    let documents = documents(input);
    let settings = Settings {
        threshold: 3,
        max_extras_elements: 4,
        ..Settings::example()
    };
    let unique = Settings {
        unique: true,
        ..Settings::example()
    };
    for document in &documents {
        let _ = is_flagged(&settings, document);
        let _ = decode_main::<Book>(&settings, document);
        let _ = decode_main::<Document>(&settings, document);
        for field in [settings.array.as_str(), settings.extras.as_str()] {
            elements_of(document, field);
        }
        for (_, value) in document.iter().map_while(Result::ok) {
            let _ = form(value);
        }
        let look = Look::of_row(document);
        let _ = (look.elements(), look.is_in_form(&settings), check(&settings, &look));
    }
    let Some((main, extras)) = documents.split_first() else {
        return;
    };
    if let Ok(whole) = whole(&settings, main, extras) {
        let elements = |document: &RawDocument, field: &str| {
            let elements = decode_elements::<Bson>(document, field, 0);
            elements.map_or(0, |elements| elements.len())
        };
        let all: usize = extras
            .iter()
            .map(|extras| elements(extras, settings.extras.as_str()))
            .sum();
        let is_valid = documents
            .iter()
            .all(|document| Document::try_from(document.as_ref()).is_ok());
        let all = all + elements(main, settings.array.as_str());
        assert!(
            !is_valid || elements(&whole, settings.array.as_str()) == all,
            "all elements"
        );
    }
    for settings in [&settings, &unique] {
        for main in [None, Some(main)] {
            for delete_orphans in [false, true] {
                mended(settings, main, extras, delete_orphans);
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

fn mended(settings: &Settings, main: Option<&RawDocumentBuf>, extras: &[RawDocumentBuf], delete_orphans: bool) {
    // Where the parent is an array, the extras are none of a document.
    let is_own = |document: &&RawDocumentBuf| document.get_array(settings.parent.as_str()).is_err();
    let own = extras.iter().filter(is_own);
    let overflow: u64 = own
        .filter_map(|document| Extra::of_document(settings, document).elements)
        .sum();
    let inline = main.and_then(|main| Main::of_parts(main).elements);
    let stored = Stored {
        main: main.cloned(),
        extras: extras.to_vec(),
    };
    let Ok(mending) = mend(settings, &Bson::Int32(2), stored, delete_orphans) else {
        return;
    };
    for finding in &mending.findings {
        let _ = finding.problem.to_string();
    }
    let _ = (mending.is_empty(), mending.removed());
    if mending.found && mending.left.is_none() && !settings.unique {
        let elements = inline.unwrap_or(0) + overflow;
        assert_eq!(mending.inline + mending.overflow, elements, "no element is lost");
    }
    assert!(
        mending.found || delete_orphans || mending.changes.is_empty(),
        "extras that belong to nobody go only when asked for"
    );
}
