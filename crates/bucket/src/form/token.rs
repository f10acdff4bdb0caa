//! Tokens: positions in the history of a key, which a web service can hand out.

use std::fmt;

use mongo_patterns_core::list::OfOrdered;
use serde::{Deserialize, Serialize};

use crate::form::id::Tail;

/// A position between two buckets of a key: directly after, or directly before, the bucket that the token was taken from.
///
/// Its text is short, safe in a URL, and contains only the time at which the bucket was opened. A forged token is only
/// another position among the buckets of the key that the service passes. A token stays valid when buckets are added,
/// deleted or filled.
///
/// ```
/// use mongo_patterns::bucket::PageToken;
///
/// let token: PageToken = "1698335223_000001".parse()?;
/// assert_eq!(token.to_string(), "1698335223_000001");
/// assert!("' || true".parse::<PageToken>().is_err());
/// # Ok::<(), mongo_patterns::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PageToken(String);

impl OfOrdered for PageToken {}

impl PageToken {
    pub(crate) fn from_tail(tail: &str) -> Self {
        Self(tail.to_owned())
    }

    /// Returns the position before all buckets of a key.
    pub(crate) fn oldest() -> Self {
        Self("-0".to_owned())
    }

    /// Returns the position after all buckets of a key. In the order of text, `_` is after all digits.
    pub(crate) fn newest() -> Self {
        Self("9_999999".to_owned())
    }

    pub(crate) fn tail(&self) -> &str {
        &self.0
    }

    fn parse_text(text: &str) -> Option<Self> {
        Tail::parse(text).map(|_| Self(text.to_owned()))
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A position between two items of a key, to continue to read from.
///
/// Its text, such as `1698335223.7`, is short, safe in a URL, and contains only the time at which a page was opened, and a
/// number. A forged token is only another position among the items of the key that the service passes. A token stays valid
/// while items are appended. It belongs to the range of time and the order with which it was made.
///
/// ```
/// use mongo_patterns::bucket::ItemToken;
///
/// let token: ItemToken = "1698335223_000001.7".parse()?;
/// assert_eq!(token.to_string(), "1698335223_000001.7");
/// assert!("' || true".parse::<ItemToken>().is_err());
/// # Ok::<(), mongo_patterns::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ItemToken {
    tail: String,
    position: u32,
}

impl ItemToken {
    /// Creates the token of the position before an item of a page. The position counts the items of the range only.
    pub(crate) fn new(tail: String, position: usize) -> Self {
        Self {
            tail,
            // A document of 16 MiB cannot have as many items.
            position: u32::try_from(position).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn tail(&self) -> &str {
        &self.tail
    }

    pub(crate) fn position(&self) -> usize {
        self.position as usize
    }

    fn parse_text(text: &str) -> Option<Self> {
        let (tail, position) = text.split_once('.')?;
        Tail::parse(tail)?;
        let number: u32 = position.parse().ok()?;
        // "+7" and "07" parse too.
        (number.to_string() == position).then(|| Self {
            tail: tail.to_owned(),
            position: number,
        })
    }
}

impl fmt::Display for ItemToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tail, self.position)
    }
}

mongo_patterns_core::token_as_text!(
    PageToken,
    "the page token is invalid: pass the token of an earlier page"
);
mongo_patterns_core::token_as_text!(
    ItemToken,
    "the item token is invalid: pass the token of an earlier page"
);

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;

    use super::*;

    #[test]
    fn an_item_token_survives_serde_and_rejects_other_text() {
        for text in ["1698335223.0", "1698335223_000001.25", "-5.1", "1698335223.4294967295"] {
            let token: ItemToken = text.parse().unwrap();
            let bson = mongodb::bson::serialize_to_bson(&token).unwrap();
            assert_eq!(bson.as_str(), Some(text));
            assert_eq!(mongodb::bson::deserialize_from_bson::<ItemToken>(bson).unwrap(), token);
        }
        for text in [
            "",
            "x",
            ".",
            "1698335223",
            "1698335223.",
            ".5",
            "1698335223.-1",
            "1698335223.+1",
            "1698335223.01",
            "1698335223.1.2",
            "1698335223.x",
            "1698335223.4294967296",
            "1698335223.99999999999999999999999",
            "999999999999999999999.1",
            "$gt.1",
        ] {
            let error = text.parse::<ItemToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        }
    }

    #[test]
    fn the_edges_are_around_all_tails_of_any_program() {
        let [oldest, newest] = [PageToken::oldest(), PageToken::newest()];
        for tail in [
            "-1",
            "-0_000001",
            "0",
            "0_000001",
            "1698335223",
            "9",
            "9_999998",
            "99999999999999999999_999999",
        ] {
            assert!(PageToken::parse_text(tail).is_some(), "{tail}");
            assert!(oldest.tail() < tail && tail < newest.tail(), "{tail}");
        }
        for token in [oldest, newest] {
            assert_eq!(token.to_string().parse::<PageToken>().unwrap(), token);
        }
    }

    #[test]
    fn a_page_token_survives_serde_and_rejects_other_text() {
        let token: PageToken = "1698335223".parse().unwrap();
        let document = mongodb::bson::serialize_to_bson(&token).unwrap();
        assert_eq!(document.as_str(), Some("1698335223"));
        assert_eq!(
            mongodb::bson::deserialize_from_bson::<PageToken>(document).unwrap(),
            token
        );
        for text in ["", "x", "1698335223'", "$gt", "999999999999999999999"] {
            let error = text.parse::<PageToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        }
    }
}
