//! Positions among the children of a parent.

use std::fmt;
use std::str::FromStr;

use mongo_patterns_core::stored::value;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, Result};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::settings::subset::{CheckedSubset, Direction};

/// The length limit of a token's text: two digits for each byte of the largest document that MongoDB stores. The values
/// of the order are a part of one child, and the other fields of a token need less space than its id and parent.
const MAX_TEXT: usize = 2 * (16 * 1024 * 1024 + 16 * 1024);
/// The depth limit of a token's documents. It is the limit of a command in MongoDB, which no stored document reaches.
const MAX_DEPTH: usize = 200;

/// A position among the children of a parent, from a [`ChildPage`](crate::ChildPage).
///
/// Its text is safe in a URL. It has two characters for each byte of its values: order the children by short values if
/// tokens are part of URLs.
///
/// A token contains the values by which a child is ordered, and its id: do not hand it to someone who must not see
/// them. A forged token can only select another position among the children of the parent that the service passes. A
/// token stays valid when its child moves or is deleted.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChildToken {
    values: Vec<Bson>,
    /// The field of the subset whose order it is a position in. `None` for the first subset.
    subset: Option<String>,
}

impl ChildToken {
    pub(crate) fn of(settings: &Settings, subset: &CheckedSubset, child: &RawDocument) -> Self {
        // A missing field is ordered as null.
        let value = |(field, _): &(FieldName, Direction)| value(child, field).unwrap_or(Bson::Null);
        Self {
            values: subset.order.iter().map(value).collect(),
            subset: name(settings, subset).map(ToOwned::to_owned),
        }
    }

    /// Returns the position before all children, or after them.
    pub(crate) fn edge(settings: &Settings, subset: &CheckedSubset, after: bool) -> Self {
        Self {
            values: edge_values(subset, after),
            subset: name(settings, subset).map(ToOwned::to_owned),
        }
    }

    /// Returns the values of the order.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when it is of another order or the order has another number of fields,
    /// and for a position that no child can have. The server would refuse it too, but with an unclear error.
    pub(crate) fn values(&self, settings: &Settings, subset: &CheckedSubset) -> Result<&[Bson]> {
        let is_array = |value: &Bson| matches!(value, Bson::Array(_));
        // The order ends with the id. A child that another program stored may have none, and an edge has none.
        let is_id =
            |id: &Bson| matches!(id, Bson::Null | Bson::MinKey | Bson::MaxKey) || DocumentId::new(id.clone()).is_ok();
        if self.subset.as_deref() == name(settings, subset)
            && self.values.len() == subset.order.len()
            && !self.values.iter().any(is_array)
            && self.values.last().is_some_and(is_id)
        {
            Ok(&self.values)
        } else {
            Err(invalid_token())
        }
    }

    fn decoded(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT || !text.len().is_multiple_of(2) || !text.is_ascii() {
            return None;
        }
        let bytes: Option<Vec<u8>> = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
            .collect();
        let bytes = bytes?;
        let raw = RawDocument::from_bytes(&bytes).ok()?;
        if !is_shallow(raw) {
            return None;
        }
        let mut document = Document::try_from(raw).ok()?;
        let Some(Bson::Array(values)) = document.remove("v") else {
            return None;
        };
        let subset = match document.remove("s") {
            Some(Bson::String(subset)) => Some(subset),
            _ => None,
        };
        let token = Self { values, subset };
        // `+f` parses as a byte too, and fields after the values would be ignored.
        (token.to_string() == text).then_some(token)
    }
}

/// Returns whether no document in it exceeds the depth limit. Decoding takes stack for each level, and a service may
/// receive any text as a token: without a limit, one of 20 KB would overflow the stack of its process.
fn is_shallow(document: &RawDocument) -> bool {
    let mut level = vec![document];
    for _ in 0..MAX_DEPTH {
        let values = level
            .iter()
            .flat_map(|document| document.iter().map_while(std::result::Result::ok));
        let inner = values.filter_map(|(_, value)| match value {
            RawBsonRef::Document(document) => Some(document),
            RawBsonRef::Array(array) => RawDocument::from_bytes(array.as_bytes()).ok(),
            RawBsonRef::JavaScriptCodeWithScope(code) => Some(code.scope),
            _ => None,
        });
        level = inner.collect();
        if level.is_empty() {
            return true;
        }
    }
    false
}

/// Returns the name of the order of a subset. `None` for the first one, whose tokens are shorter.
fn name<'s>(settings: &Settings, subset: &'s CheckedSubset) -> Option<&'s str> {
    (subset.field != settings.first().field).then(|| subset.field.as_str())
}

fn invalid_token() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "the token is not one of these children in this order: pass it on unchanged",
    )
}

impl FromStr for ChildToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::decoded(text).ok_or_else(invalid_token)
    }
}

impl TryFrom<String> for ChildToken {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ChildToken> for String {
    fn from(token: ChildToken) -> Self {
        token.to_string()
    }
}

mongo_patterns_core::redacted_debug!(ChildToken);

impl fmt::Display for ChildToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut token = doc! { "v": &self.values };
        token.extend(self.subset.as_ref().map(|subset| ("s".to_owned(), subset.into())));
        let encoded = RawDocumentBuf::try_from(&token).map_err(|_| fmt::Error)?;
        encoded.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns the values of the order before all children, or after them.
pub(crate) fn edge_values(subset: &CheckedSubset, after: bool) -> Vec<Bson> {
    let values = subset.order.iter().map(|(_, direction)| {
        if after == (*direction == Direction::Ascending) {
            Bson::MaxKey
        } else {
            Bson::MinKey
        }
    });
    values.collect()
}

/// Where a page of children starts.
#[derive(Debug)]
pub(crate) enum PageStart {
    First,
    After(ChildToken),
    Before(ChildToken),
}

impl PageStart {
    /// Returns whether no child can be on the page: after all children, or before them.
    pub(crate) fn is_beyond_children(&self, settings: &Settings, subset: &CheckedSubset) -> bool {
        match self {
            Self::First => false,
            Self::After(token) => *token == ChildToken::edge(settings, subset, true),
            Self::Before(token) => *token == ChildToken::edge(settings, subset, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{DateTime, rawdoc};
    use proptest::prelude::*;

    #[test]
    fn a_token_survives_its_text() {
        let settings = Settings::example();
        let date = DateTime::from_millis(1_550_448_000_000);
        let first = settings.first();
        let token = ChildToken::of(&settings, first, &rawdoc! { "review_id": 786, "published_date": date });
        let back: ChildToken = token.to_string().parse().unwrap();
        assert_eq!(
            back.values(&settings, first).unwrap(),
            [Bson::DateTime(date), Bson::Int32(786)]
        );
        let missing = ChildToken::of(&settings, first, &rawdoc! { "review_id": "a" });
        assert_eq!(missing.values[0], Bson::Null);
        let short = ChildToken {
            values: vec![Bson::Null],
            subset: None,
        };
        assert_eq!(
            short.values(&settings, first).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }

    #[test]
    fn a_token_is_of_one_order() {
        let settings = Settings::example().with_best();
        let [newest, best] = &settings.subsets[..] else {
            unreachable!("there are two");
        };
        let child = rawdoc! { "review_id": 786, "stars": 5, "published_date": DateTime::from_millis(5) };
        for (of, other) in [(newest, best), (best, newest)] {
            for token in [
                ChildToken::of(&settings, of, &child),
                ChildToken::edge(&settings, of, true),
            ] {
                let back: ChildToken = token.to_string().parse().unwrap();
                assert!(back == token);
                assert!(back.values(&settings, of).is_ok());
                let refused = back.values(&settings, other).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            }
        }
    }

    /// Returns a token with a value of this depth, in documents (3) or in arrays (4). Built without recursion.
    fn nested(kind: u8, levels: usize) -> String {
        let name = if kind == 4 { b'0' } else { b'a' };
        let wrapped = |kind: u8, name: u8, inner: &[u8]| {
            let length = i32::try_from(inner.len() + 8).unwrap();
            [&length.to_le_bytes()[..], &[kind, name, 0], inner, &[0]].concat()
        };
        let value = (0..levels).fold(vec![5, 0, 0, 0, 0], |inner, _| wrapped(kind, name, &inner));
        let token = wrapped(4, b'v', &wrapped(kind, b'0', &value));
        token.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_token_that_would_overflow_the_stack_is_refused() {
        // Three quarters of the stack of tokio's and the standard library's threads.
        let parse = || {
            for kind in [3, 4] {
                let deepest: ChildToken = nested(kind, MAX_DEPTH - 3).parse().unwrap();
                let again: ChildToken = deepest.to_string().parse().unwrap();
                assert!(again.clone() == deepest);
                assert!(mongodb::bson::serialize_to_vec(&doc! { "v": &again.values }).is_ok());
                for levels in [MAX_DEPTH - 2, 509, 20_000] {
                    assert!(nested(kind, levels).parse::<ChildToken>().is_err(), "{kind} {levels}");
                }
            }
        };
        let thread = std::thread::Builder::new().stack_size(1536 * 1024);
        thread.spawn(parse).unwrap().join().unwrap();
    }

    proptest! {
        #[test]
        fn other_text_is_not_a_token(text in "[0-9a-fA-F+é]{0,40}") {
            prop_assert!(text.parse::<ChildToken>().map_or(true, |token| token.to_string() == text));
        }
    }
}
