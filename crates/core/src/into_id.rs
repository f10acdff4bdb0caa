//! Ids of documents, children and items.

use std::borrow::Cow;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp, Uuid};

use crate::error::{Error, ErrorKind, Result};

/// A value that can be passed as the id of a document, a child or an item.
///
/// Implemented for [`Bson`], strings, integers, the types of BSON, and references to these. An unsigned integer is stored as
/// int32 if it fits, else as int64. A router refuses an id that is a document with a field whose name begins with `$`.
///
/// Implement it for a type of your own, or pass `Bson::from(id)`:
///
/// ```
/// use mongo_patterns::{IntoId, Result};
/// use mongo_patterns::mongodb::bson::Bson;
///
/// struct OrderId(u64);
///
/// impl IntoId for OrderId {
///     fn into_id(self) -> Result<Bson> {
///         self.0.into_id()
///     }
/// }
/// assert_eq!(OrderId(7).into_id().unwrap(), Bson::Int32(7));
/// ```
pub trait IntoId {
    /// Returns the value in BSON.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an integer above [`i64::MAX`], which BSON cannot represent.
    fn into_id(self) -> Result<Bson>;
}

/// Implements the trait by a conversion that cannot fail.
macro_rules! ids {
    ($convert:expr => $($type:ty),+) => {
        $(impl IntoId for $type {
            fn into_id(self) -> Result<Bson> {
                Ok($convert(self))
            }
        })+
    };
}

ids!(
    Bson::from => Bson, &str, String, bool, f64, i32, i64, u32, ObjectId, Uuid, DateTime, Timestamp, Decimal128, Binary,
    Document
);
ids!(|id| Bson::Int32(i32::from(id)) => i8, i16, u8, u16);

impl IntoId for u64 {
    fn into_id(self) -> Result<Bson> {
        let value = i64::try_from(self).map_err(|_| {
            Error::new(
                ErrorKind::InvalidArgument,
                "an integer above i64::MAX cannot be an id, as BSON has no such integer, nothing was sent: pass one that fits, or a string",
            )
        })?;
        Ok(i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32))
    }
}

impl IntoId for Cow<'_, str> {
    fn into_id(self) -> Result<Bson> {
        Ok(Bson::String(self.into_owned()))
    }
}

impl<T: IntoId + Clone> IntoId for &T {
    fn into_id(self) -> Result<Bson> {
        self.clone().into_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_integers_are_stored_as_a_key_stores_them() {
        assert_eq!(7_u64.into_id().unwrap(), Bson::Int32(7));
        assert_eq!(7_u32.into_id().unwrap(), Bson::Int32(7));
        assert_eq!((1_u64 << 40).into_id().unwrap(), Bson::Int64(1 << 40));
        assert_eq!(u32::MAX.into_id().unwrap(), Bson::Int64(u32::MAX.into()));
        assert_eq!((i64::MAX as u64).into_id().unwrap(), Bson::Int64(i64::MAX));
        for large in [i64::MAX as u64 + 1, u64::MAX] {
            let error = large.into_id().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn references_are_ids() {
        let (owned, id) = ("a".to_owned(), ObjectId::new());
        assert_eq!((&owned).into_id().unwrap(), Bson::from("a"));
        assert_eq!((&"a").into_id().unwrap(), Bson::from("a"));
        assert_eq!((&id).into_id().unwrap(), Bson::ObjectId(id));
        assert_eq!(Cow::Borrowed("a").into_id().unwrap(), Bson::from("a"));
    }
}
