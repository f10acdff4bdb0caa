//! Equality of elements, as MongoDB compares values.

use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, RawBsonRef};

use crate::settings::Settings;

/// Returns bytes that are the same for equal elements, and for no others. Numbers are equal by value, whatever their type.
/// The fields of documents are compared in their order, as the server does by `$in`, `$eq` and the unique index.
pub(crate) fn form(element: RawBsonRef<'_>) -> Vec<u8> {
    // An element of a stored or encoded document is valid BSON.
    Bson::try_from(element).map_or_else(|_| Vec::new(), |element| canonical(&element).into_bytes())
}

/// Returns whether any of the elements is equal to one before it.
pub(crate) fn has_duplicates(elements: &[RawBsonRef<'_>]) -> bool {
    let mut seen = std::collections::HashSet::new();
    !elements.iter().all(|element| seen.insert(form(*element)))
}

/// Refuses invalid elements: undefined, and arrays where elements are unique, because the server indexes their values one by
/// one.
pub(crate) fn check_element(settings: &Settings, element: RawBsonRef<'_>) -> Result<()> {
    let refused = |message| Err(Error::new(ErrorKind::InvalidArgument, message));
    match element {
        RawBsonRef::Undefined => refused(
            "an element is undefined, which the server does not compare; nothing was stored or changed: use null",
        ),
        RawBsonRef::Array(_) if settings.unique => {
            refused("a unique element is an array, nothing was stored or changed: put it into a field of a document")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{RawDocumentBuf, doc};

    fn of(value: impl Into<Bson>) -> Vec<u8> {
        let document = RawDocumentBuf::try_from(&doc! { "i": value.into() }).unwrap();
        form(document.get("i").unwrap().unwrap())
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn only_elements_that_the_server_takes_as_equal_have_the_same_form() {
        assert_eq!(of(1), of(1_i64));
        assert_eq!(of(1), of(1.0));
        assert_eq!(of(doc! { "a": 1, "b": [2.0] }), of(doc! { "a": 1.0, "b": [2_i64] }));
        let others: [Bson; 10] = [
            1.into(),
            1.5.into(),
            "1".into(),
            "".into(),
            Bson::Null,
            true.into(),
            doc! { "a": 1, "b": 2 }.into(),
            doc! { "b": 2, "a": 1 }.into(),
            doc! { "a": [1, 2] }.into(),
            doc! { "a": [[1], 2] }.into(),
        ];
        for (index, one) in others.iter().enumerate() {
            for other in &others[..index] {
                assert_ne!(of(one.clone()), of(other.clone()));
            }
        }
    }

    #[test]
    fn numbers_are_equal_by_their_value() {
        for (a, b) in [
            (Bson::from(0), Bson::from(-0.0)),
            (0.into(), decimal("-0E+10")),
            (1.into(), decimal("1.0")),
            (0.5.into(), decimal("0.50")),
            (1e22.into(), decimal("1E+22")),
            (f64::NAN.into(), decimal("NaN")),
            (f64::NEG_INFINITY.into(), decimal("-Infinity")),
            (i64::MIN.into(), (-9_223_372_036_854_775_808.0).into()),
            (9_223_372_036_854_775_808.0.into(), decimal("9223372036854775808")),
        ] {
            assert_eq!(of(a.clone()), of(b.clone()), "{a} {b}");
        }
        for (a, b) in [
            (Bson::from(0.1), decimal("0.1")),
            (1e23.into(), decimal("1E+23")),
            (i64::MAX.into(), 9_223_372_036_854_775_808.0.into()),
            (1.into(), (-1).into()),
            (f64::INFINITY.into(), f64::NEG_INFINITY.into()),
            (5e-324.into(), 0.into()),
        ] {
            assert_ne!(of(a.clone()), of(b.clone()), "{a} {b}");
        }
    }

    #[test]
    fn values_are_compared_and_not_their_text() {
        let hostile = of(doc! { "x": "a\", \"y\": \"b" });
        assert_ne!(hostile, of(doc! { "x": "a", "y": "b" }));
        assert_eq!(of("a"), of(Bson::Symbol("a".to_owned())));
        assert_ne!(of("a"), of(Bson::JavaScriptCode("a".to_owned())));
    }
}
