//! Positions among the documents of a query.

use mongodb::bson::Bson;
use serde::{Deserialize, Serialize};

use crate::document_id::bytes;
use crate::error::{Error, ErrorKind, Result};

const INVALID: &str = "the token is not one of these pages, nothing was read: pass it on unchanged, with the filter and the sort of its page";

/// A position among the documents of a query, from a page of [`Pages`](super::Pages::list).
///
/// Its text is safe in a URL, with two characters for each byte of its values: sort by short values.
///
/// A token contains the values by which a document is sorted, and its `_id`: do not hand it to someone who must not see
/// them. Its checksum lets a reader confirm a guess of a value of the filter. A modified token is refused. A forged token
/// can only select another position among the documents of the service's filter. A token stays valid when its document
/// changes or is deleted.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DocumentToken {
    checksum: i64,
    values: Vec<Bson>,
}

crate::token_of_values!(DocumentToken, INVALID);

impl DocumentToken {
    /// Creates a token of any values, for a fake of pages in tests. [`Pages`](super::Pages) refuse it.
    ///
    /// ```
    /// use mongo_patterns::list::Page;
    /// use mongo_patterns::pages::DocumentToken;
    ///
    /// let mut page = Page::new(vec!["a", "b"]);
    /// page.next = Some(DocumentToken::new([2.into()]));
    /// let link = page.next.unwrap().to_string();
    /// assert!(link.parse::<DocumentToken>()? == DocumentToken::new([2.into()]));
    /// # Ok::<(), mongo_patterns::Error>(())
    /// ```
    pub fn new(values: impl IntoIterator<Item = Bson>) -> Self {
        Self {
            checksum: 0,
            values: values.into_iter().collect(),
        }
    }

    fn from_values(mut values: Vec<Bson>) -> Option<Self> {
        match values.pop() {
            Some(Bson::Int64(checksum)) => Some(Self { checksum, values }),
            _ => None,
        }
    }

    fn to_values(&self) -> Vec<Bson> {
        let mut values = self.values.clone();
        values.push(self.checksum.into());
        values
    }

    /// Creates the token of a position among the documents of a query.
    pub(super) fn of(query: u64, values: Vec<Bson>) -> Self {
        let checksum = of_query(query, &values);
        Self { checksum, values }
    }

    /// Returns the values of the position.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a token of another query, or a modified one.
    pub(super) fn values(&self, query: u64) -> Result<&[Bson]> {
        match self.checksum == of_query(query, &self.values) {
            true => Ok(&self.values),
            false => Err(invalid()),
        }
    }
}

/// Returns the checksum of a position.
fn of_query(query: u64, values: &[Bson]) -> i64 {
    checksum(query, &Bson::Array(values.to_vec())).cast_signed()
}

/// Returns a checksum of a value, from another one: FNV-1a. A token must outlive the service's version.
pub(super) fn checksum(seed: u64, value: &Bson) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes(value).iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, add)
}

pub(super) fn invalid() -> Error {
    Error::new(ErrorKind::InvalidArgument, INVALID)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;
    use crate::token;

    #[test]
    fn a_token_is_of_one_query_and_has_one_text() {
        let values = vec![Bson::Null, 7.into(), doc! { "$gt": 1 }.into()];
        let token = DocumentToken::of(5, values.clone());
        let back: DocumentToken = token.to_string().parse().unwrap();
        assert!(back == token);
        assert_eq!(back.values(5).unwrap(), values);
        for other in [token.values(6), DocumentToken::new(values).values(5)] {
            assert_eq!(other.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let of = |values: &[Bson]| token::Text(values).to_string();
        for text in [
            String::new(),
            "xyz".to_owned(),
            of(&[]),
            of(&[1.into()]),
            of(&[1_i64.into(), "a".into()]),
        ] {
            let error = text.parse::<DocumentToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        }
    }

    /// Tokens outlive the version of a service.
    #[test]
    fn the_checksum_stays_the_same() {
        let token = DocumentToken::of(checksum(0, &doc! { "a": 1 }.into()), vec![1.into()]);
        assert_eq!(
            token.to_string(),
            "1f0000000476001700000010300001000000123100ae30629cf7f4fca00000"
        );
    }
}
