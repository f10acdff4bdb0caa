//! Positions among the children of a parent.

use std::fmt;
use std::str::FromStr;

use mongo_patterns_core::stored::value;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, Result, token};
use mongodb::bson::{Bson, RawDocument};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::settings::subset::Direction;

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
}

impl ChildToken {
    pub(crate) fn of(settings: &Settings, child: &RawDocument) -> Self {
        // A missing field is ordered as null.
        let value = |(field, _): &(FieldName, Direction)| value(child, field).unwrap_or(Bson::Null);
        Self {
            values: settings.first().order.iter().map(value).collect(),
        }
    }

    /// Returns the position before all children, or after them.
    pub(crate) fn edge(settings: &Settings, after: bool) -> Self {
        Self {
            values: edge_values(settings, after),
        }
    }

    /// Returns the values of the order.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when the order has another number of fields, and for a position
    /// that no child can have. The server would refuse it too, but with an unclear error.
    pub(crate) fn values(&self, settings: &Settings) -> Result<&[Bson]> {
        let is_array = |value: &Bson| matches!(value, Bson::Array(_));
        // The order ends with the id. A child that another program stored may have none, and an edge has none.
        let is_id =
            |id: &Bson| matches!(id, Bson::Null | Bson::MinKey | Bson::MaxKey) || DocumentId::new(id.clone()).is_ok();
        if self.values.len() == settings.first().order.len()
            && !self.values.iter().any(is_array)
            && self.values.last().is_some_and(is_id)
        {
            Ok(&self.values)
        } else {
            Err(invalid_token())
        }
    }
}

fn invalid_token() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "the token is not one of these children: pass it on unchanged",
    )
}

impl FromStr for ChildToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let values = token::values(text).ok_or_else(invalid_token)?;
        Ok(Self { values })
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
        token::Text(&self.values).fmt(f)
    }
}

/// Returns the values of the order before all children, or after them.
pub(crate) fn edge_values(settings: &Settings, after: bool) -> Vec<Bson> {
    let values = settings.first().order.iter().map(|(_, direction)| {
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
    pub(crate) fn is_beyond_children(&self, settings: &Settings) -> bool {
        match self {
            Self::First => false,
            Self::After(token) => *token == ChildToken::edge(settings, true),
            Self::Before(token) => *token == ChildToken::edge(settings, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{DateTime, rawdoc};

    #[test]
    fn a_token_survives_its_text() {
        let settings = Settings::example();
        let date = DateTime::from_millis(1_550_448_000_000);
        let token = ChildToken::of(&settings, &rawdoc! { "review_id": 786, "published_date": date });
        let back: ChildToken = token.to_string().parse().unwrap();
        assert_eq!(
            back.values(&settings).unwrap(),
            [Bson::DateTime(date), Bson::Int32(786)]
        );
        let missing = ChildToken::of(&settings, &rawdoc! { "review_id": "a" });
        assert_eq!(missing.values[0], Bson::Null);
        let short = ChildToken {
            values: vec![Bson::Null],
        };
        assert_eq!(short.values(&settings).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
