//! Equality of elements, as MongoDB compares values.

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Decimal128, RawBsonRef, RawDocument};

use crate::settings::Settings;

/// Returns bytes that are the same for equal elements, and for no others. Numbers are equal by value, whatever their
/// type. The fields of documents are compared in their order.
///
/// The server compares in `push_unique`, by `$in`, `$eq` and the unique index of the elements. The client compares by
/// these bytes.
pub(crate) fn form(element: RawBsonRef<'_>) -> Vec<u8> {
    let mut form = Vec::new();
    write(element, &mut form);
    form
}

/// Returns whether any of the elements is equal to one before it.
pub(crate) fn has_duplicates(elements: &[RawBsonRef<'_>]) -> bool {
    let mut seen = std::collections::HashSet::new();
    !elements.iter().all(|element| seen.insert(form(*element)))
}

/// Refuses invalid elements: undefined, to which no filter compares, and arrays where elements are unique, because the
/// server indexes their values one by one.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument).
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

/// Writes a part with its length, so that no two values have the same bytes.
fn part(form: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    form.push(kind);
    form.extend_from_slice(&bytes.len().to_le_bytes());
    form.extend_from_slice(bytes);
}

fn write(value: RawBsonRef<'_>, form: &mut Vec<u8>) {
    match value {
        RawBsonRef::Int32(number) => number_of(i64::from(number)).write(form),
        RawBsonRef::Int64(number) => number_of(number).write(form),
        RawBsonRef::Double(number) => Number::of_double(number).write(form),
        RawBsonRef::Decimal128(number) => Number::of_decimal(number).write(form),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) => part(form, 3, text.as_bytes()),
        RawBsonRef::ObjectId(id) => part(form, 4, &id.bytes()),
        RawBsonRef::Document(document) => write_document(document, form),
        RawBsonRef::Array(array) => {
            form.push(6);
            for value in array.into_iter().flatten() {
                form.push(1);
                write(value, form);
            }
            form.push(0);
        }
        RawBsonRef::Boolean(value) => part(form, 8, &[u8::from(value)]),
        RawBsonRef::Null => part(form, 9, &[]),
        RawBsonRef::Binary(binary) => {
            part(form, 10, &[binary.subtype.into()]);
            part(form, 10, binary.bytes);
        }
        RawBsonRef::DateTime(time) => part(form, 11, &time.timestamp_millis().to_le_bytes()),
        RawBsonRef::Timestamp(stamp) => {
            part(form, 12, &stamp.time.to_le_bytes());
            part(form, 12, &stamp.increment.to_le_bytes());
        }
        RawBsonRef::RegularExpression(regex) => {
            part(form, 13, regex.pattern.as_str().as_bytes());
            part(form, 13, regex.options.as_str().as_bytes());
        }
        RawBsonRef::JavaScriptCode(code) => part(form, 14, code.as_bytes()),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            part(form, 15, code.code.as_bytes());
            write_document(code.scope, form);
        }
        RawBsonRef::MinKey => part(form, 16, &[]),
        RawBsonRef::MaxKey => part(form, 17, &[]),
        RawBsonRef::Undefined => part(form, 18, &[]),
        // The driver gives no access to its parts.
        RawBsonRef::DbPointer(pointer) => part(form, 19, format!("{pointer:?}").as_bytes()),
    }
}

fn write_document(document: &RawDocument, form: &mut Vec<u8>) {
    form.push(5);
    for (name, value) in document.iter().flatten() {
        form.push(1);
        part(form, 3, name.as_str().as_bytes());
        write(value, form);
    }
    form.push(0);
}

/// The value of a number. Every finite one except zero is `digits * 2^twos * 5^fives` in exactly one way, where neither
/// 2 nor 5 divides the digits.
enum Number {
    Nan,
    Infinite {
        is_negative: bool,
    },
    Zero,
    Finite {
        is_negative: bool,
        digits: u128,
        twos: i32,
        fives: i32,
    },
}

fn number_of(number: i64) -> Number {
    Number::of_digits(number < 0, u128::from(number.unsigned_abs()), 0, 0)
}

impl Number {
    fn of_double(number: f64) -> Self {
        const FRACTION_BITS: u32 = 52;
        let is_negative = number.is_sign_negative();
        if number.is_nan() {
            return Self::Nan;
        }
        if number.is_infinite() {
            return Self::Infinite { is_negative };
        }
        let bits = number.to_bits();
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        // 11 bits, of which 0 stands for subnormal numbers.
        let exponent = i32::try_from(bits >> FRACTION_BITS & 0x7ff).unwrap_or(0);
        let digits = match exponent {
            0 => fraction,
            _ => fraction | 1 << FRACTION_BITS,
        };
        Self::of_digits(is_negative, u128::from(digits), exponent.max(1) - 1075, 0)
    }

    /// Decodes the binary integer decimal encoding of BSON.
    fn of_decimal(number: Decimal128) -> Self {
        const MAX_DIGITS: u128 = 10_u128.pow(34) - 1;
        const COEFFICIENT_BITS: u32 = 113;
        let bits = u128::from_le_bytes(number.bytes());
        let is_negative = bits >> 127 == 1;
        match bits >> 122 & 0b1_1111 {
            0b1_1111 => return Self::Nan,
            0b1_1110 => return Self::Infinite { is_negative },
            // A coefficient beyond 34 digits stands for zero.
            combination if combination >> 3 == 0b11 => return Self::Zero,
            _ => {}
        }
        let digits = bits & ((1 << COEFFICIENT_BITS) - 1);
        if digits > MAX_DIGITS {
            return Self::Zero;
        }
        let exponent = i32::try_from(bits >> COEFFICIENT_BITS & 0x3fff).unwrap_or(0) - 6176;
        Self::of_digits(is_negative, digits, exponent, exponent)
    }

    fn of_digits(is_negative: bool, mut digits: u128, mut twos: i32, mut fives: i32) -> Self {
        if digits == 0 {
            return Self::Zero;
        }
        while digits.is_multiple_of(2) {
            digits /= 2;
            twos += 1;
        }
        while digits.is_multiple_of(5) {
            digits /= 5;
            fives += 1;
        }
        Self::Finite {
            is_negative,
            digits,
            twos,
            fives,
        }
    }

    fn write(&self, form: &mut Vec<u8>) {
        match self {
            Self::Nan => part(form, 1, &[0]),
            Self::Zero => part(form, 1, &[1]),
            Self::Infinite { is_negative } => part(form, 1, &[2, u8::from(*is_negative)]),
            Self::Finite {
                is_negative,
                digits,
                twos,
                fives,
            } => {
                part(form, 2, &[u8::from(*is_negative)]);
                form.extend_from_slice(&digits.to_le_bytes());
                form.extend_from_slice(&twos.to_le_bytes());
                form.extend_from_slice(&fives.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{Bson, RawDocumentBuf, doc};

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
