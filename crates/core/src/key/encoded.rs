use mongodb::bson::Bson;

use super::error::{KeyError, MAX_KEY_BYTES};

/// A key as it is stored: the text that `_id` starts with, and the value of the key field.
///
/// ```
/// # use mongo_patterns::key::EncodeKey;
/// let key = "12_3".encode_key()?;
/// assert_eq!((key.text(), key.value()), ("12%5F3", &"12_3".into()));
/// assert_eq!(key.id("1698335223"), "12%5F3_1698335223");
/// assert_eq!(key.tail("12%5F3_1698335223"), Some("1698335223"));
/// assert_eq!(key.pattern(""), "^12%5F3_");
/// assert_eq!(key.end(), "12%5F3`");
/// # Ok::<(), mongo_patterns::key::KeyError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct EncodedKey {
    text: String,
    value: Bson,
}

crate::redacted_debug!(EncodedKey);

impl EncodedKey {
    pub(super) fn new(text: String, value: Bson) -> Result<Self, KeyError> {
        if text.len() > MAX_KEY_BYTES {
            return Err(KeyError::TooLong { bytes: text.len() });
        }
        Ok(Self { text, value })
    }

    /// Returns the text, without the `_` that ends it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value of the key field.
    pub fn value(&self) -> &Bson {
        &self.value
    }

    /// Returns the `_id` of this key with a tail.
    pub fn id(&self, tail: &str) -> String {
        [self.text.as_str(), "_", tail].concat()
    }

    /// Returns the first string after all ids of this key: `` 123` ``, because '`' is the character after '_'.
    pub fn end(&self) -> String {
        format!("{}`", self.text)
    }

    /// Returns the tail of an `_id`: what follows the key and its `_`. `None` for an `_id` of another key.
    pub fn tail<'id>(&self, id: &'id str) -> Option<&'id str> {
        id.strip_prefix(self.text.as_str())?.strip_prefix('_')
    }

    /// Returns the regular expression, such as `^123_`, of ids of this key whose tail starts with these digits.
    ///
    /// Its metacharacters are escaped by a backslash, because MongoDB derives no index bounds from `[.]`, nor from `\Q..\E`
    /// around a `|`.
    pub fn pattern(&self, tail: &str) -> String {
        debug_assert!(tail.bytes().all(|byte| byte.is_ascii_digit()));
        let mut pattern = String::with_capacity(self.text.len() + tail.len() + 8);
        pattern.push('^');
        for character in self.text.chars() {
            if r"\^$.|?*+()[]{}".contains(character) {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern.push('_');
        pattern.push_str(tail);
        pattern
    }
}
