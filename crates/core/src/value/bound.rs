//! The adjacent bound of a value: the value directly after it or before it in MongoDB's order.
//!
//! # Design
//!
//! ## Why does a page not begin at the document of its token?
//!
//! The lower bound of an index scan is inclusive. So the id of the last document as its bound would examine that document
//! again.

use std::str::FromStr;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Decimal128, Timestamp};

/// The digits of a Decimal128, the type of the adjacent bounds of integers.
const DIGITS: u32 = 34;

/// Returns the adjacent bound after or before a value. `None` if there is none, or none that a BSON type is certain to
/// represent, as before a string.
pub fn adjacent(value: &Bson, after: bool) -> Option<Bson> {
    let step = if after { 1 } else { -1 };
    match value {
        Bson::Int32(number) => adjacent_decimal((*number).into(), step),
        Bson::Int64(number) => adjacent_decimal((*number).into(), step),
        Bson::String(text) if after => Some(Bson::String([text, "\0"].concat())),
        Bson::ObjectId(id) => {
            let mut bytes = id.bytes();
            count(&mut bytes, after).then(|| ObjectId::from_bytes(bytes).into())
        }
        Bson::Binary(Binary { subtype, bytes }) => {
            let (subtype, mut bytes) = (*subtype, bytes.clone());
            // The server orders binaries by length first.
            count(&mut bytes, after).then(|| Binary { subtype, bytes }.into())
        }
        Bson::DateTime(time) => {
            let millis = time.timestamp_millis().checked_add(step.into())?;
            Some(DateTime::from_millis(millis).into())
        }
        _ => None,
    }
}

/// Returns a value above this one, with few values in between, or none. `None` above the last of all values.
pub fn above(value: &Bson) -> Option<Bson> {
    if let Some(next) = adjacent(value, true) {
        return Some(next);
    }
    let number = |value: f64| match value.is_nan() {
        true => Bson::Double(f64::NEG_INFINITY),
        false if value == f64::INFINITY => Bson::String(String::new()),
        false => Bson::Double(value.next_up()),
    };
    Some(match value {
        Bson::MaxKey => return None,
        Bson::MinKey | Bson::Undefined => Bson::Null,
        Bson::Null => Bson::Double(f64::NAN),
        Bson::Double(value) => number(*value),
        // The nearest double may be below it.
        Bson::Decimal128(value) => number(value.to_string().parse().unwrap_or(f64::INFINITY)),
        Bson::Symbol(text) => Bson::String([text, "\0"].concat()),
        Bson::Document(fields) => {
            let mut longer = fields.clone();
            longer.insert("", Bson::MinKey);
            longer.into()
        }
        Bson::Boolean(false) => Bson::Boolean(true),
        Bson::Boolean(true) => Bson::DateTime(DateTime::MIN),
        Bson::JavaScriptCode(code) => Bson::JavaScriptCode([code, "\0"].concat()),
        // All of the type.
        Bson::Array(_) => Binary {
            subtype: BinarySubtype::Generic,
            bytes: Vec::new(),
        }
        .into(),
        Bson::Binary(_) => ObjectId::from_bytes([0; 12]).into(),
        Bson::ObjectId(_) => Bson::Boolean(false),
        Bson::DateTime(_) => Bson::Timestamp(Timestamp { time: 0, increment: 0 }),
        _ => Bson::MaxKey,
    })
}

/// Returns the Decimal128 next to an integer, which differs by one in the last of 34 digits.
fn adjacent_decimal(number: i128, step: i32) -> Option<Bson> {
    let Some(order) = number.unsigned_abs().checked_ilog10() else {
        let smallest = if step > 0 { "1E-6176" } else { "-1E-6176" };
        return Decimal128::from_str(smallest).ok().map(Bson::Decimal128);
    };
    let grows = (step > 0) == (number > 0);
    let mut places = DIGITS - 1 - order;
    // Below a power of ten, one digit moves from before the point to behind it.
    if !grows && number.unsigned_abs() == 10_u128.pow(order) {
        places += 1;
    }
    let digits = number * 10_i128.pow(places) + i128::from(step);
    Decimal128::from_str(&format!("{digits}E-{places}"))
        .ok()
        .map(Bson::Decimal128)
}

/// Increments or decrements bytes as one number. Returns whether it did not overflow.
fn count(bytes: &mut [u8], up: bool) -> bool {
    for byte in bytes.iter_mut().rev() {
        let (next, is_over) = if up {
            byte.overflowing_add(1)
        } else {
            byte.overflowing_sub(1)
        };
        *byte = next;
        if !is_over {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::order::compare;
    use mongodb::bson::doc;

    fn decimal(value: i64, after: bool) -> String {
        match adjacent(&Bson::Int64(value), after) {
            Some(Bson::Decimal128(decimal)) => decimal.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn integers_differ_in_the_last_of_34_digits() {
        let (zeros, nines) = ("0".repeat(32), "9".repeat(33));
        assert_eq!(decimal(5, true), format!("5.{zeros}1"));
        assert_eq!(decimal(5, false), format!("4.{nines}"));
        assert_eq!(decimal(-5, true), format!("-4.{nines}"));
        assert_eq!(decimal(-5, false), format!("-5.{zeros}1"));
        assert_eq!(decimal(10, false), format!("9.{nines}"));
        assert_eq!(decimal(-10, true), format!("-9.{nines}"));
        assert_eq!(decimal(i64::MAX, true), "9223372036854775807.000000000000001");
        assert_eq!(decimal(i64::MIN, false), "-9223372036854775808.000000000000001");
        assert_eq!(
            (decimal(0, true).as_str(), decimal(0, false).as_str()),
            ("1E-6176", "-1E-6176")
        );
    }

    #[test]
    fn bytes_are_one_number_that_can_overflow() {
        let id = |bytes: [u8; 12]| Bson::ObjectId(ObjectId::from_bytes(bytes));
        let mut at = [7; 12];
        at[11] = 255;
        let mut next = [7; 12];
        (next[10], next[11]) = (8, 0);
        assert_eq!(adjacent(&id(at), true), Some(id(next)));
        assert_eq!(adjacent(&id(next), false), Some(id(at)));
        assert_eq!(adjacent(&id([255; 12]), true), None);
        let (subtype, bytes) = (BinarySubtype::Generic, vec![0, 0]);
        assert_eq!(adjacent(&Binary { subtype, bytes }.into(), false), None);
    }

    #[test]
    fn a_value_is_above_each_but_the_last() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        for value in [
            Bson::MinKey,
            Bson::Null,
            f64::NAN.into(),
            f64::NEG_INFINITY.into(),
            (-0.5).into(),
            0.0.into(),
            f64::MAX.into(),
            f64::INFINITY.into(),
            decimal("0.1"),
            decimal("-7.25"),
            decimal("9007199254740993"),
            decimal("1E+6000"),
            decimal("-Infinity"),
            decimal("NaN"),
            7.into(),
            "a".into(),
            Bson::Symbol("a".to_owned()),
            doc! {}.into(),
            doc! { "a": 1 }.into(),
            Bson::Array(vec![]),
            Binary {
                subtype: BinarySubtype::UserDefined(255),
                bytes: vec![255],
            }
            .into(),
            ObjectId::from_bytes([255; 12]).into(),
            false.into(),
            true.into(),
            DateTime::MAX.into(),
            Timestamp { time: 1, increment: 1 }.into(),
            Bson::JavaScriptCode("a".to_owned()),
        ] {
            assert!(compare(&above(&value).unwrap(), &value).is_gt(), "{value:?}");
        }
        assert_eq!(above(&Bson::MaxKey), None);
        let one = Bson::from(doc! { "a": 1 });
        let next = above(&one).unwrap();
        for longer in [
            doc! { "a": 1, "": Bson::Null },
            doc! { "a": 1, "b": 1 },
            doc! { "a": 2 },
        ] {
            assert!(compare(&next, &longer.into()).is_lt());
        }
    }

    #[test]
    fn other_types_have_no_certain_bound() {
        assert_eq!(adjacent(&"a".into(), true), Some("a\0".into()));
        assert_eq!(adjacent(&"a".into(), false), None);
        for value in [Bson::Null, Bson::Boolean(true), 0.5.into(), DateTime::MAX.into()] {
            assert_eq!(adjacent(&value, true), None);
        }
    }
}
