//! The order of values of all types, as the server has them in an index with the simple collation.
//!
//! # Design
//!
//! ## Why does the client compare values?
//!
//! The server orders the documents of one collection. A page of two collections merges both, and a client that keeps data by
//! id must take the same ids for equal as the server.

use std::cmp::Ordering;

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{self, Binary, Bson, Document, doc};

use super::number::Number;

/// Compares two values.
pub fn compare(a: &Bson, b: &Bson) -> Ordering {
    let of_one_type = || match (a, b) {
        (Bson::Document(a), Bson::Document(b)) => compare_fields(a, b),
        (Bson::Array(a), Bson::Array(b)) => {
            let mut elements = a.iter().zip(b).map(|(a, b)| compare(a, b));
            elements.find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        (Bson::Binary(a), Bson::Binary(b)) => {
            let key = |binary: &Binary| (size(binary), u8::from(binary.subtype));
            key(a).cmp(&key(b)).then_with(|| a.bytes.cmp(&b.bytes))
        }
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.cmp(b),
        (Bson::Boolean(a), Bson::Boolean(b)) => a.cmp(b),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.cmp(b),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => (a.time, a.increment).cmp(&(b.time, b.increment)),
        (Bson::RegularExpression(a), Bson::RegularExpression(b)) => {
            let key = |regex: &mongodb::bson::Regex| (regex.pattern.to_string(), regex.options.to_string());
            key(a).cmp(&key(b))
        }
        (Bson::JavaScriptCodeWithScope(a), Bson::JavaScriptCodeWithScope(b)) => {
            a.code.cmp(&b.code).then_with(|| compare_fields(&a.scope, &b.scope))
        }
        (Bson::DbPointer(_), Bson::DbPointer(_)) => {
            // The driver gives no access to its parts.
            let [a, b] = [a, b].map(|pointer| bson::serialize_to_vec(&doc! { "": pointer }).unwrap_or_default());
            a.len().cmp(&b.len()).then_with(|| a.cmp(&b))
        }
        _ => match (text(a), text(b)) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => compare_numbers(a, b),
        },
    };
    type_rank(a).cmp(&type_rank(b)).then_with(of_one_type)
}

/// Compares two documents: of each field, first the type, then the name, then the value.
pub fn compare_fields(a: &Document, b: &Document) -> Ordering {
    let mut fields = a.iter().zip(b).map(|((name_a, a), (name_b, b))| {
        let by_type = type_rank(a).cmp(&type_rank(b));
        by_type.then_with(|| name_a.cmp(name_b)).then_with(|| compare(a, b))
    });
    fields.find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
}

/// Returns the position of a type. Types that the server compares with each other have the same.
fn type_rank(value: &Bson) -> u8 {
    match value {
        Bson::MinKey => 0,
        Bson::Undefined => 1,
        Bson::Null => 2,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 3,
        Bson::String(_) | Bson::Symbol(_) => 4,
        Bson::Document(_) => 5,
        Bson::Array(_) => 6,
        Bson::Binary(_) => 7,
        Bson::ObjectId(_) => 8,
        Bson::Boolean(_) => 9,
        Bson::DateTime(_) => 10,
        Bson::Timestamp(_) => 11,
        Bson::RegularExpression(_) => 12,
        Bson::DbPointer(_) => 13,
        Bson::JavaScriptCode(_) => 14,
        Bson::JavaScriptCodeWithScope(_) => 15,
        Bson::MaxKey => 16,
    }
}

/// Returns the bytes of a binary on the server, where the old subtype repeats its length.
fn size(binary: &Binary) -> usize {
    match binary.subtype {
        BinarySubtype::BinaryOld => binary.bytes.len() + 4,
        _ => binary.bytes.len(),
    }
}

fn text(value: &Bson) -> Option<&str> {
    match value {
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => Some(text),
        _ => None,
    }
}

/// Compares numbers by value. NaN is before all others.
fn compare_numbers(a: &Bson, b: &Bson) -> Ordering {
    match (Number::of_value(a), Number::of_value(b)) {
        (Some(a), Some(b)) => a.compare(b),
        _ => edge(a).cmp(&edge(b)),
    }
}

/// Returns where a number is that is not finite. A finite one is in the middle.
fn edge(value: &Bson) -> u8 {
    let double = match value {
        Bson::Double(value) => *value,
        Bson::Decimal128(value) => value.to_string().parse().unwrap_or(0.0),
        _ => 0.0,
    };
    match Number::of_value(value) {
        Some(_) => 2,
        None if double.is_nan() => 0,
        None if double < 0.0 => 1,
        None => 3,
    }
}

/// Returns a text that equal values share, and no others, as a key of a map.
pub fn canonical(value: &Bson) -> String {
    match value {
        Bson::Document(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name:?}:{}", canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Bson::Array(values) => format!("[{}]", values.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Bson::String(text) | Bson::Symbol(text) => format!("s{text:?}"),
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => Number::of_value(value).map_or_else(
            || format!("e{}", edge(value)),
            |number| format!("n{}", number.canonical()),
        ),
        Bson::JavaScriptCodeWithScope(code) => {
            format!("c{:?}{}", code.code, canonical(&Bson::Document(code.scope.clone())))
        }
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::{DateTime, JavaScriptCodeWithScope, Timestamp};

    use super::*;

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    /// Ascending, each row with equal values. The test of pages of an archive compares it with a server.
    fn rows() -> Vec<Vec<Bson>> {
        let binary = |subtype, bytes: &[u8]| {
            Bson::Binary(Binary {
                subtype,
                bytes: bytes.to_vec(),
            })
        };
        let code = |scope| {
            Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                code: "a".to_owned(),
                scope,
            })
        };
        vec![
            vec![Bson::MinKey],
            vec![Bson::Null],
            vec![f64::NAN.into(), decimal("NaN")],
            vec![f64::NEG_INFINITY.into(), decimal("-Infinity")],
            vec![decimal("-1E+6000")],
            vec![(-7.5).into(), decimal("-7.50")],
            vec![(-3).into()],
            vec![(-1).into(), (-1.0).into()],
            vec![0.into(), 0_i64.into(), 0.0.into(), (-0.0).into(), decimal("-0E+5")],
            vec![decimal("0.1")],
            vec![0.1.into()],
            vec![7.into(), 7_i64.into(), 7.0.into(), decimal("7.00"), decimal("0.7E+1")],
            vec![7.5.into(), decimal("7.5")],
            vec![70.into(), decimal("7E+1")],
            vec![i64::MAX.into(), decimal("9223372036854775807")],
            vec![9_223_372_036_854_775_808.0.into(), decimal("9223372036854775808")],
            vec![1e300.into()],
            vec![f64::INFINITY.into(), decimal("Infinity")],
            vec!["".into()],
            vec!["A".into(), Bson::Symbol("A".to_owned())],
            vec!["a".into()],
            vec!["a\0".into()],
            vec!["\u{e9}".into()],
            vec![doc! {}.into()],
            vec![
                doc! { "b": 1 }.into(),
                doc! { "b": 1.0 }.into(),
                doc! { "b": decimal("1.0") }.into(),
            ],
            vec![doc! { "b": 1, "a": 1 }.into()],
            // First the type of a field, and then its name.
            vec![doc! { "a": "x" }.into()],
            vec![vec![Bson::Null].into()],
            vec![vec![1].into(), vec![1.0].into()],
            vec![vec![1, 2].into()],
            vec![binary(BinarySubtype::Generic, &[9])],
            vec![binary(BinarySubtype::Uuid, &[1])],
            vec![binary(BinarySubtype::Generic, &[0, 0])],
            vec![ObjectId::from_bytes([1; 12]).into()],
            vec![false.into()],
            vec![true.into()],
            vec![DateTime::from_millis(-5).into()],
            vec![DateTime::from_millis(0).into()],
            vec![Timestamp { time: 1, increment: 2 }.into()],
            vec![Timestamp { time: 2, increment: 1 }.into()],
            vec![Bson::JavaScriptCode("a".to_owned())],
            vec![code(doc! { "b": 1 }), code(doc! { "b": 1_i64 })],
            vec![Bson::MaxKey],
        ]
    }

    #[test]
    fn values_of_all_types_have_one_order_and_equal_ones_one_text() {
        let rows = rows();
        let all = || {
            rows.iter()
                .enumerate()
                .flat_map(|(row, values)| values.iter().map(move |value| (row, value)))
        };
        for (row, a) in all() {
            for (other, b) in all() {
                assert_eq!(compare(a, b), row.cmp(&other), "{a:?} {b:?}");
                assert_eq!(canonical(a) == canonical(b), row == other, "{a:?} {b:?}");
            }
        }
    }
}
