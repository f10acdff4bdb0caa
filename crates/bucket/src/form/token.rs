use std::fmt;
use std::str::FromStr;

use mongo_patterns_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::form::id::Tail;

/// A place between two items of a key, to go on reading from.
///
/// Its text, such as `1698335223.7`, is short, safe in a URL, and holds nothing but the time at which a page was opened
/// and a number, so a web service can hand it out. Someone who makes one up gets another place among the items of the
/// key that the service passes, and nothing else. It stays good while items are appended. It belongs to the range of
/// time and the direction with which it was made.
///
/// ```
/// use mongo_patterns_bucket::ItemToken;
///
/// let token: ItemToken = "1698335223_000001.7".parse()?;
/// assert_eq!(token.to_string(), "1698335223_000001.7");
/// assert!("' || true".parse::<ItemToken>().is_err());
/// # Ok::<(), mongo_patterns_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ItemToken {
    tail: String,
    position: u32,
}

impl ItemToken {
    /// The place before the item of this position in a page, counted from the page's first wanted item.
    pub(crate) fn new(tail: String, position: usize) -> Self {
        Self {
            tail,
            // 16 MiB have no room for as many items.
            position: u32::try_from(position).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn tail(&self) -> &str {
        &self.tail
    }

    pub(crate) fn position(&self) -> usize {
        self.position as usize
    }
}

impl FromStr for ItemToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('.').and_then(|(tail, position)| {
            Tail::parse(tail)?;
            let number: u32 = position.parse().ok()?;
            // "+7" and "07" parse too
            (number.to_string() == position).then(|| Self {
                tail: tail.to_owned(),
                position: number,
            })
        });
        parsed.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "this is no item token: pass one on as it was handed out",
            )
        })
    }
}

impl TryFrom<String> for ItemToken {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ItemToken> for String {
    fn from(token: ItemToken) -> Self {
        token.to_string()
    }
}

impl fmt::Display for ItemToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tail, self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_serde_and_rejects_what_it_is_not() {
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
}
