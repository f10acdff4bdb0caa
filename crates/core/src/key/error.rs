//! The reason why a key cannot be encoded.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// The longest text of a key, in bytes. A regular expression has room for 32,764, and escaping can double a key.
pub const MAX_KEY_BYTES: usize = 1024;

/// The reason why a key cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The text would be longer than [`MAX_KEY_BYTES`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The integer is above `i64::MAX`, the largest that MongoDB stores.
    OutOfRange,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(
                f,
                "the key takes {bytes} bytes and at most {MAX_KEY_BYTES} are allowed: use a shorter key, such as a hash"
            ),
            Self::OutOfRange => f.write_str("the key is above the largest integer that MongoDB stores, i64::MAX"),
        }
    }
}

impl std::error::Error for KeyError {}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::new(ErrorKind::InvalidKey, error.to_string())
    }
}
