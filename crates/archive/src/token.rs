//! Positions among the documents of both collections, and of a trash.

use mongo_patterns_core::DocumentId;
use mongodb::bson::{Bson, DateTime};
use serde::{Deserialize, Serialize};

/// A position among documents in the order of their ages, from a [`FoundPage`](crate::FoundPage).
///
/// Its text is safe in a URL. It contains the age and the `_id` of a document: do not hand it to someone who must not see them.
/// A forged token can only select another position. A token stays valid when documents are archived, restored or deleted.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArchiveToken {
    /// The age of the last document.
    pub(crate) age: DateTime,
    /// The last `_id`s of this age in the collection and in the archive. `None` where none was returned.
    pub(crate) ids: [Option<DocumentId>; 2],
}

impl ArchiveToken {
    fn from_values(values: Vec<Bson>) -> Option<Self> {
        let Ok([Bson::DateTime(age), current, archived]) = <[Bson; 3]>::try_from(values) else {
            return None;
        };
        let id = |value: Bson| match value {
            Bson::Null => Some(None),
            id => DocumentId::new(id).ok().map(Some),
        };
        Some(Self {
            age,
            ids: [id(current)?, id(archived)?],
        })
    }

    fn to_values(&self) -> [Bson; 3] {
        let [current, archived] = &self.ids;
        let id = |id: &Option<DocumentId>| id.as_ref().map_or(Bson::Null, DocumentId::to_bson);
        [Bson::DateTime(self.age), id(current), id(archived)]
    }
}

/// A position among the entries of a trash, from a [`TrashPage`](crate::TrashPage).
///
/// Its text is safe in a URL. A forged token can only select another position. A token stays valid when entries are deleted or
/// restored.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TrashToken {
    /// The time of the last entry.
    pub(crate) deleted_at: DateTime,
    /// Its `_id`.
    pub(crate) id: DocumentId,
}

impl TrashToken {
    fn from_values(values: Vec<Bson>) -> Option<Self> {
        let Ok([Bson::DateTime(deleted_at), id]) = <[Bson; 2]>::try_from(values) else {
            return None;
        };
        let id = DocumentId::new(id).ok()?;
        Some(Self { deleted_at, id })
    }

    fn to_values(&self) -> [Bson; 2] {
        [Bson::DateTime(self.deleted_at), self.id.to_bson()]
    }
}

mongo_patterns_core::token_of_values!(ArchiveToken, "the token is not one of an archive: pass it on unchanged");
mongo_patterns_core::token_of_values!(TrashToken, "the token is not one of a trash: pass it on unchanged");

#[cfg(test)]
mod tests {
    use mongo_patterns_core::{ErrorKind, token};

    use super::*;

    #[test]
    fn a_token_survives_its_text() {
        for ids in [[None, None], [Some(7.into()), None], [None, Some("a".into())]] {
            let ids = ids.map(|id: Option<Bson>| id.map(|id| DocumentId::new(id).unwrap()));
            let token = ArchiveToken {
                age: DateTime::from_millis(-5),
                ids,
            };
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
            of(&[date.clone(), Bson::Null]),
            of(&[1.into(), Bson::Null, Bson::Null]),
            of(&[date, Bson::Array(vec![]), Bson::Null]),
        ];
        for text in texts {
            let error = text.parse::<ArchiveToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        }
        let (date, id) = (Bson::DateTime(DateTime::from_millis(1)), Bson::Int32(7));
        let token = of(&[date.clone(), id.clone()]);
        assert_eq!(token.parse::<TrashToken>().unwrap().to_string(), token);
        for other in [vec![date.clone()], vec![id.clone(), id], vec![date, Bson::Null]] {
            assert!(of(&other).parse::<TrashToken>().is_err(), "{other:?}");
        }
    }
}
