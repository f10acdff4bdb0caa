//! Keys of the user's types.

use std::fmt;

use mongodb::bson::RawBsonRef;

use super::{EncodeKey, EncodedKey, Key, KeyError, KeyExpressions, sealed};

/// A type of yours that is stored as a key, such as a newtype `CustomerId(u32)`.
///
/// It is stored as the key that [`to_key`](Self::to_key) returns. Values with equal keys share one history.
///
/// ```
/// use mongo_patterns::key::{AsKey, EncodeKey, Key};
///
/// #[derive(Clone, Debug, PartialEq, Eq)]
/// struct CustomerId(u32);
///
/// impl AsKey for CustomerId {
///     type Key = u32;
///
///     fn to_key(&self) -> u32 {
///         self.0
///     }
///
///     fn from_key(key: u32) -> Option<Self> {
///         Some(Self(key))
///     }
/// }
///
/// assert_eq!(CustomerId(123).encode_key()?.text(), "123");
/// assert_eq!(CustomerId::decode_key("123"), Some(CustomerId(123)));
/// # Ok::<(), mongo_patterns::key::KeyError>(())
/// ```
///
/// Such a type is a [`Key`]: `BucketRepository<CustomerId, Trade>` takes a `&CustomerId` in each call, and gives a
/// `CustomerId` with each page. Where it implements [`Borrow`](std::borrow::Borrow) for another key type, calls take that
/// too, and it must be the same key.
pub trait AsKey: Clone + Eq + fmt::Debug + Send + Sync + 'static {
    /// The type that is stored: one from the table of the [module](super).
    type Key: sealed::Stored;

    /// Returns the key that is stored for this value. Equal values must return equal keys.
    ///
    /// ```
    /// # use mongo_patterns::key::AsKey;
    /// fn stored_as<A: AsKey>(id: &A) -> A::Key {
    ///     id.to_key()
    /// }
    /// ```
    fn to_key(&self) -> Self::Key;

    /// Returns the value for a stored key; `None` when no value of the type has this key. Such a stored document is reported
    /// as corrupt.
    ///
    /// For each key that [`to_key`](Self::to_key) returns, this must return a value with the same key. Otherwise items can
    /// be appended to the key, and each read returns [`Corrupt`](crate::ErrorKind::Corrupt). A type that ignores case must
    /// do so in `to_key`.
    ///
    /// ```
    /// # use mongo_patterns::key::AsKey;
    /// fn is_one<A: AsKey>(key: A::Key) -> bool {
    ///     A::from_key(key).is_some()
    /// }
    /// ```
    fn from_key(key: Self::Key) -> Option<Self>;
}

impl<A: AsKey> sealed::Sealed for A {}

impl<A: AsKey> EncodeKey for A {
    fn encode_key(&self) -> Result<EncodedKey, KeyError> {
        self.to_key().encode_key()
    }
}

impl<A: AsKey> Key for A {
    const BSON_TYPES: &'static [&'static str] = A::Key::BSON_TYPES;

    fn decode_key(text: &str) -> Option<Self> {
        Self::from_key(A::Key::decode_key(text)?)
    }

    fn from_stored(value: RawBsonRef<'_>) -> Option<Self> {
        Self::from_key(A::Key::from_stored(value)?)
    }

    fn expressions(stored: &str) -> KeyExpressions {
        A::Key::expressions(stored)
    }
}
