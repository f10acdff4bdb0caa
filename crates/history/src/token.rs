//! Positions in the history of a document.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::prelude::*;

/// A position in the history of a document, from a [`RevisionPage`](crate::RevisionPage).
///
/// Its text is safe in a URL. A forged token can only select another position in the history of the document that the
/// service passes. A token stays valid when its revision is pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RevisionToken(u64);

impl RevisionToken {
    pub(crate) fn after(revision: u64) -> Self {
        Self(revision)
    }

    pub(crate) fn revision(self) -> u64 {
        self.0
    }
}

impl FromStr for RevisionToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let revision = text.parse().ok().filter(|revision: &u64| revision.to_string() == text);
        revision.map(Self).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "the token is not one of a history: pass it on unchanged",
            )
        })
    }
}

mongo_patterns_core::token_as_text!(RevisionToken);

impl fmt::Display for RevisionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_parsed_from_its_own_text_alone() {
        let token = RevisionToken::after(17);
        assert_eq!(token.to_string().parse::<RevisionToken>().unwrap(), token);
        for forged in ["", "017", "+17", "-1", "17 ", "x", "18446744073709551616"] {
            let error = forged.parse::<RevisionToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{forged}");
        }
    }
}
