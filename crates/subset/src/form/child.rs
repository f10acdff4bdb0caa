//! A child, encoded and decoded.

use mongo_patterns_core::order::compare;
use mongo_patterns_core::stored;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, Result, size};
use mongodb::bson::{self, Bson, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::settings::Settings;

/// A child, checked and encoded.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) parent: Bson,
    pub(crate) id: Bson,
    pub(crate) document: RawDocumentBuf,
}

impl Child {
    /// Encodes a child and checks it.
    pub(crate) fn of<C: Serialize>(settings: &Settings, child: &C) -> Result<Self> {
        let document = bson::serialize_to_raw_document_buf(child).map_err(|error| {
            let message =
                "the child cannot be encoded as BSON, nothing was stored: see as_driver_error() for the reason";
            Error::from_driver(ErrorKind::Encode, message, error)
        })?;
        let value = |field: &FieldName| document.get(field.as_str()).ok().flatten();
        let owned = |value: RawBsonRef<'_>| Bson::try_from(value).map_err(mongodb::error::Error::from);
        let Some(parent) = value(&settings.parent) else {
            return Err(invalid_argument(
                "the child has no parent field, nothing was stored: set it",
            ));
        };
        let Some(id) = value(&settings.child_id) else {
            return Err(Error::new(
                ErrorKind::InvalidItemId,
                "the child has no id, nothing was stored: set its id field",
            ));
        };
        let (parent, id) = (
            DocumentId::new(owned(parent)?)?.into_bson(),
            DocumentId::new(owned(id)?)?.into_bson(),
        );
        // The server replaces this value by the time of the insert, in all fields but `_id`.
        let is_replaced = |id: &Bson| *id == Bson::Timestamp(Timestamp { time: 0, increment: 0 });
        if is_replaced(&parent) || is_replaced(&id) && settings.child_id.as_str() != "_id" {
            return Err(invalid_argument(
                "the parent or the id of the child is `Timestamp(0, 0)`, which the server replaces by the time of the insert, nothing was stored: use another value",
            ));
        }
        if let Ok(Some(RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined)) =
            document.get("_id")
        {
            return Err(invalid_argument(
                "the `_id` of the child is an array, a regular expression, or undefined, nothing was stored: use another value, or omit it",
            ));
        }
        if settings
            .scalar_fields()
            .any(|field| matches!(value(field), Some(RawBsonRef::Array(_))))
        {
            return Err(array_in_order());
        }
        size::check(&document)?;
        Ok(Self { parent, id, document })
    }
}

pub(super) fn array_in_order() -> Error {
    invalid_argument(
        "a field of the order or of a figure is an array, by which children cannot be ordered or counted, nothing was stored: change its type",
    )
}

pub(crate) fn invalid_argument(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Returns whether a stored id equals an id, as the server compares them.
pub(crate) fn is_id(stored: Option<RawBsonRef<'_>>, id: &Bson) -> bool {
    let stored = stored.and_then(|stored| Bson::try_from(stored).ok());
    stored.is_some_and(|stored| compare(&stored, id).is_eq())
}

pub(crate) fn decode<T: DeserializeOwned>(document: &RawDocument) -> Result<T> {
    let text =
        "a stored document cannot be decoded as the type of the repository: change the type, or repair the document";
    stored::decode(document, text)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Document, doc};

    use super::*;

    #[test]
    fn invalid_children_are_refused() {
        let settings = Settings::example();
        let kind = |child: Document| Child::of(&settings, &child).map(drop).map_err(|error| error.kind());
        assert_eq!(kind(doc! { "product_id": 1, "review_id": 2 }), Ok(()));
        assert_eq!(kind(doc! { "review_id": 2 }), Err(ErrorKind::InvalidArgument));
        assert_eq!(kind(doc! { "product_id": 1 }), Err(ErrorKind::InvalidItemId));
        for bad in [
            doc! { "product_id": null, "review_id": 2 },
            doc! { "product_id": [1], "review_id": 2 },
            doc! { "product_id": 1, "review_id": null },
            doc! { "product_id": 1, "review_id": 2, "published_date": [1] },
        ] {
            assert_eq!(kind(bad.clone()), Err(ErrorKind::InvalidArgument), "{bad}");
        }
    }
}
