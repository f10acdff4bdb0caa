//! Positions among the children of a parent.

use mongo_patterns_core::stored::value;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, Result};
use mongodb::bson::{Bson, RawDocument};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::settings::subset::{CheckedSubset, Direction};

/// A position among the children of a parent, from a [page](mongo_patterns_core::list::Page) of them.
///
/// Its text is safe in a URL, with two characters for each byte of its values: order the children by short values.
///
/// A token contains the values by which a child is ordered, and its id: do not hand it to someone who must not see them. A
/// forged token can only select another position among the children of the parent that the service passes. A token stays
/// valid when its child moves or is deleted.
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
            Err(Error::new(ErrorKind::InvalidArgument, INVALID))
        }
    }

    fn from_values(values: Vec<Bson>) -> Option<Self> {
        // No value of an order is an array.
        Some(match &values[..] {
            [Bson::Array(values), Bson::String(subset)] => Self {
                values: values.clone(),
                subset: Some(subset.clone()),
            },
            _ => Self { values, subset: None },
        })
    }

    fn to_values(&self) -> Vec<Bson> {
        match &self.subset {
            None => self.values.clone(),
            Some(subset) => vec![self.values.clone().into(), subset.as_str().into()],
        }
    }
}

/// Returns the name of the order of a subset. `None` for the first one, whose tokens are shorter.
fn name<'s>(settings: &Settings, subset: &'s CheckedSubset) -> Option<&'s str> {
    (subset.field != settings.first().field).then(|| subset.field.as_str())
}

const INVALID: &str = "the token is not one of these children in this order: pass it on unchanged";

mongo_patterns_core::token_of_values!(ChildToken, INVALID);

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

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{DateTime, rawdoc};

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
}
