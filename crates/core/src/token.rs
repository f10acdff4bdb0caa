//! The texts of tokens: positions from which a read continues.

use std::fmt;

use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};

/// The length limit of a token's text: two digits for each byte of the largest document that MongoDB stores.
const MAX_TEXT: usize = 2 * (16 * 1024 * 1024 + 16 * 1024);
/// The depth limit of a token's documents. It is the limit of a command in MongoDB, which no stored document reaches.
const MAX_DEPTH: usize = 200;

/// The text of a token with these values, which is safe in a URL: two digits for each byte.
pub struct Text<'a>(pub &'a [Bson]);

crate::redacted_debug!(Text<'_>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = RawDocumentBuf::try_from(&doc! { "v": self.0 }).map_err(|_| fmt::Error)?;
        encoded.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns the values of the text of a token. `None` for another text.
#[must_use]
pub fn values(text: &str) -> Option<Vec<Bson>> {
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
    // `+f` parses as a byte too, and fields after the values would be ignored.
    (Text(&values).to_string() == text).then_some(values)
}

/// Implements the text of a token, by its private function `parse_text` and its `Display`: `FromStr`, with the text of an
/// error, and serde.
#[doc(hidden)]
#[macro_export]
macro_rules! token_as_text {
    ($token:ident, $invalid:expr) => {
        impl ::std::str::FromStr for $token {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                Self::parse_text(text).ok_or_else(|| $crate::Error::new($crate::ErrorKind::InvalidArgument, $invalid))
            }
        }

        impl TryFrom<String> for $token {
            type Error = $crate::Error;

            fn try_from(text: String) -> $crate::Result<Self> {
                text.parse()
            }
        }

        impl From<$token> for String {
            fn from(token: $token) -> Self {
                token.to_string()
            }
        }
    };
}

/// Implements the [text](token_as_text) of a token of values of documents, by `from_values` and `to_values`, and a `Debug`
/// without the values.
#[doc(hidden)]
#[macro_export]
macro_rules! token_of_values {
    ($token:ident, $invalid:expr) => {
        $crate::token_as_text!($token, $invalid);
        $crate::redacted_debug!($token);

        impl $token {
            fn parse_text(text: &str) -> Option<Self> {
                $crate::token::values(text).and_then(Self::from_values)
            }
        }

        impl ::std::fmt::Display for $token {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::token::Text(&self.to_values()).fmt(f)
            }
        }
    };
}

/// Returns whether no document in it exceeds the depth limit. Decoding takes stack for each level: without a limit, a token
/// of 20 KB would overflow the stack.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
                let text = nested(kind, MAX_DEPTH - 3);
                assert_eq!(Text(&values(&text).unwrap()).to_string(), text);
                for levels in [MAX_DEPTH - 2, 509, 20_000] {
                    assert!(values(&nested(kind, levels)).is_none(), "{kind} {levels}");
                }
            }
        };
        let thread = std::thread::Builder::new().stack_size(1536 * 1024);
        thread.spawn(parse).unwrap().join().unwrap();
    }

    proptest! {
        #[test]
        fn other_text_is_not_a_token(text in "[0-9a-fA-F+é]{0,40}") {
            prop_assert!(values(&text).is_none_or(|values| Text(&values).to_string() == text));
        }
    }
}
