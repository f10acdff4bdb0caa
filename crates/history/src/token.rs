//! Positions in the history of a document.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::prelude::*;

/// Defines a token: a number as text.
macro_rules! tokens {
    ($($(#[$attribute:meta])* $token:ident($number:ty);)+) => {$(
        $(#[$attribute])*
        ///
        /// Its text is safe in a URL. A forged token can only select another position in the history of the document that the
        /// service passes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $token($number);

        impl $token {
            pub(crate) fn after(position: $number) -> Self {
                Self(position)
            }

            pub(crate) fn position(self) -> $number {
                self.0
            }
        }

        impl FromStr for $token {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                let position = text.parse().ok().filter(|position: &$number| position.to_string() == text);
                position.map(Self).ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidArgument,
                        "the token is not one of a history: pass it on unchanged",
                    )
                })
            }
        }

        impl fmt::Display for $token {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        mongo_patterns_core::token_as_text!($token);
    )+};
}

tokens! {
    /// A position in the history of a document, from a [`RevisionPage`](crate::RevisionPage). It stays valid when its revision
    /// is pruned.
    RevisionToken(u64);

    /// A position among the intervals of an id, from an [`IntervalPage`](crate::intervals::IntervalPage).
    IntervalToken(i64);
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

    #[test]
    fn a_time_can_be_before_1970() {
        let token = IntervalToken::after(-17);
        assert_eq!(token.to_string().parse::<IntervalToken>().unwrap(), token);
        for forged in ["-0", "--1", "1.0", "9223372036854775808"] {
            assert!(forged.parse::<IntervalToken>().is_err(), "{forged}");
        }
    }
}
