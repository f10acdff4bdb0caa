//! Positions among the documents of both collections, and of a trash.

use mongo_patterns_core::pages::DatedDocument;
use mongodb::bson::{Bson, DateTime};
use serde::{Deserialize, Serialize};

/// A position among documents in the order of their ages, from a [`FoundPage`](crate::FoundPage).
///
/// Its text is safe in a URL. It contains the age and the `_id` of a document: do not hand it to someone who must not see them.
/// A forged token can only select another position. A token stays valid when documents are archived, restored or deleted.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArchiveToken(Position);

/// A position among the entries of a trash, from a [`TrashPage`](crate::TrashPage).
///
/// Its text is safe in a URL. A forged token can only select another position. A token stays valid when entries are deleted or
/// restored.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TrashToken(Position);

/// The date and the `_id` of the last document.
#[derive(Clone, PartialEq)]
struct Position(DateTime, Bson);

impl Position {
    fn from_values(values: Vec<Bson>) -> Option<Self> {
        match <[Bson; 2]>::try_from(values) {
            // What no document has as its `_id`.
            Ok([_, Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined]) => None,
            Ok([Bson::DateTime(date), id]) => Some(Self(date, id)),
            _ => None,
        }
    }
}

macro_rules! tokens {
    ($($token:ident),+) => {
        $(impl $token {
            pub(crate) fn after(document: &DatedDocument) -> Self {
                Self(Position(document.date, document.id.clone()))
            }

            pub(crate) fn position(&self) -> (DateTime, &Bson) {
                (self.0.0, &self.0.1)
            }

            fn from_values(values: Vec<Bson>) -> Option<Self> {
                Position::from_values(values).map(Self)
            }

            fn to_values(&self) -> [Bson; 2] {
                [Bson::DateTime(self.0.0), self.0.1.clone()]
            }
        })+
    };
}

tokens!(ArchiveToken, TrashToken);

mongo_patterns_core::token_of_values!(ArchiveToken, "the token is not one of an archive: pass it on unchanged");
mongo_patterns_core::token_of_values!(TrashToken, "the token is not one of a trash: pass it on unchanged");

#[cfg(test)]
mod tests {
    use mongo_patterns_core::{ErrorKind, token};
    use mongodb::bson::RawDocumentBuf;

    use super::*;

    #[test]
    fn a_token_survives_its_text() {
        for id in [7.into(), "a".into(), Bson::Null, Bson::MinKey, Bson::MaxKey] {
            let (date, document) = (DateTime::from_millis(-5), RawDocumentBuf::new());
            let token = ArchiveToken::after(&DatedDocument { date, id, document });
            assert!(token.to_string().parse::<ArchiveToken>().unwrap() == token);
        }
    }

    #[test]
    fn other_text_is_not_a_token() {
        let of = |values: &[Bson]| token::Text(values).to_string();
        let date = Bson::DateTime(DateTime::from_millis(1));
        let texts = [
            String::new(),
            "xyz".to_owned(),
            of(std::slice::from_ref(&date)),
            of(&[date.clone(), 1.into(), Bson::Null]),
            of(&[1.into(), Bson::Null]),
            of(&[date, Bson::Array(vec![])]),
        ];
        for text in texts {
            let error = text.parse::<ArchiveToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
            assert!(text.parse::<TrashToken>().is_err(), "{text}");
        }
    }
}
