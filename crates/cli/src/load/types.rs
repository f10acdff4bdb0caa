//! The types of CSV columns: set, or inferred from the first rows.
//!
//! # Design
//!
//! ## Why is inference strict?
//!
//! An inferred type must not lose anything: a zip code keeps its zeros, an id of 20 digits all of them. So a column is a
//! number only if every sampled value is written as numbers are printed. A later value that differs is an error and not a
//! string, because a field with two types is found by neither query.

use std::str::FromStr;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Decimal128, Uuid};

use super::dates::{self, Format};

/// The most digits of which a double represents every number.
const EXACT_DIGITS: usize = 15;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    String,
    Int,
    Double,
    Decimal,
    Bool,
    Date,
    ObjectId,
    Uuid,
}

const NAMES: [(&str, Type); 8] = [
    ("string", Type::String),
    ("int", Type::Int),
    ("double", Type::Double),
    ("decimal", Type::Decimal),
    ("bool", Type::Bool),
    ("date", Type::Date),
    ("objectid", Type::ObjectId),
    ("uuid", Type::Uuid),
];

impl Type {
    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, of)| *of == self).map_or("", |(name, _)| name)
    }

    /// Returns the value of a text, if it is of this type.
    pub(super) fn value(self, text: &str) -> Option<Bson> {
        let trimmed = text.trim();
        Some(match self {
            Self::String => text.into(),
            Self::Int => {
                let number: i64 = trimmed.parse().ok()?;
                i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
            }
            Self::Double => Bson::Double(trimmed.parse().ok()?),
            Self::Decimal => Bson::Decimal128(Decimal128::from_str(trimmed).ok()?),
            Self::Bool => Bson::Boolean(boolean(trimmed)?),
            Self::Date => Bson::DateTime(dates::iso(trimmed)?),
            Self::ObjectId => Bson::ObjectId(ObjectId::parse_str(trimmed).ok()?),
            Self::Uuid => Uuid::parse_str(trimmed).ok()?.into(),
        })
    }

    /// Returns whether a text is printed as values of this type are, so that its value loses nothing.
    fn is_printed(self, text: &str) -> bool {
        match self {
            Self::Int => is_int(text),
            Self::Double => is_double(text),
            Self::Bool => text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"),
            Self::Date => text.trim() == text && dates::iso(text).is_some(),
            _ => true,
        }
    }
}

/// Parses `COLUMN:TYPE`.
pub(super) fn column_type(text: &str) -> Result<(String, Type), String> {
    let (column, name) = text
        .rsplit_once([':', '='])
        .ok_or("it must be COLUMN:TYPE, such as qty:int")?;
    let of = NAMES.iter().find(|(known, _)| *known == name).map(|(_, of)| *of);
    let of = of.ok_or_else(|| {
        let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("`{name}` is not one of {}", names.join(", "))
    })?;
    Ok((column.to_owned(), of))
}

/// Parses `COLUMN=FORMAT`.
pub(super) fn column_format(text: &str) -> Result<(String, Format), String> {
    let (column, format) = text
        .split_once('=')
        .ok_or("it must be COLUMN=FORMAT, such as date=%d.%m.%Y")?;
    Ok((column.to_owned(), Format::new(format)?))
}

/// The inference of the type of a column.
#[derive(Clone, Debug)]
pub(super) struct Inference {
    candidates: Vec<Type>,
    has_values: bool,
}

impl Default for Inference {
    fn default() -> Self {
        Self {
            candidates: vec![Type::Int, Type::Double, Type::Bool, Type::Date],
            has_values: false,
        }
    }
}

impl Inference {
    /// Considers a value of the sample.
    pub(super) fn add(&mut self, text: &str) {
        self.has_values = true;
        self.candidates.retain(|of| of.is_printed(text));
    }

    pub(super) fn result(&self) -> Type {
        let first = self.candidates.first().filter(|_| self.has_values);
        first.copied().unwrap_or(Type::String)
    }
}

/// Returns the value of a column with an inferred type.
pub(super) fn inferred_value(of: Type, text: &str) -> Option<Bson> {
    if of.is_printed(text) { of.value(text) } else { None }
}

fn boolean(text: &str) -> Option<bool> {
    let is_any = |names: [&str; 3]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    if is_any(["true", "yes", "1"]) {
        Some(true)
    } else {
        is_any(["false", "no", "0"]).then_some(false)
    }
}

/// Returns whether a text has only digits, at least one, without zeros before others.
fn is_plain(digits: &str) -> bool {
    let all = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    all && (digits == "0" || !digits.starts_with('0'))
}

fn is_int(text: &str) -> bool {
    text != "-0" && is_plain(text.strip_prefix('-').unwrap_or(text)) && text.parse::<i64>().is_ok()
}

fn is_double(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let (fraction, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_plain(whole)
        && is_number(fraction)
        && is_number(exponent)
        && whole.len() + fraction.len() <= EXACT_DIGITS
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(values: &[&str]) -> Type {
        let mut inference = Inference::default();
        values.iter().for_each(|value| inference.add(value));
        inference.result()
    }

    #[test]
    fn a_type_is_inferred_only_if_it_loses_nothing() {
        assert_eq!(inferred(&["1", "-7", "0", "5000000000"]), Type::Int);
        assert_eq!(inferred(&["1", "2.5", "-0.25", "1.5e-7"]), Type::Double);
        assert_eq!(inferred(&["true", "False"]), Type::Bool);
        assert_eq!(inferred(&["2023-10-26", "2023-10-26T15:47:03Z"]), Type::Date);
        for strings in [
            &["10115", "01067"][..],
            &["1", "x"],
            &["1", " 2"],
            &["+1"],
            &["12345678901234567890"],
            &["0.12345678901234567"],
            &["1e5"],
            &["1.", "2"],
            &["NaN"],
            &["1", "true"],
            &["26.10.2023"],
            &[],
        ] {
            assert_eq!(inferred(strings), Type::String, "{strings:?}");
        }
    }

    #[test]
    fn a_set_type_accepts_more_forms_than_an_inferred_one() {
        assert_eq!(Type::Int.value(" 007"), Some(Bson::Int32(7)));
        assert_eq!(inferred_value(Type::Int, "007"), None);
        assert_eq!(Type::Int.value("5000000000"), Some(Bson::Int64(5_000_000_000)));
        assert_eq!(Type::Bool.value("Yes"), Some(Bson::Boolean(true)));
        assert_eq!(inferred_value(Type::Bool, "yes"), None);
        assert_eq!(Type::Double.value("1e5"), Some(Bson::Double(1e5)));
        let decimal = Decimal128::from_str("12345678901234567890.5").unwrap();
        assert_eq!(
            Type::Decimal.value("12345678901234567890.5"),
            Some(Bson::Decimal128(decimal))
        );
        assert_eq!(Type::String.value(" x "), Some(" x ".into()));
        assert_eq!(column_type("a:b:int"), Ok(("a:b".to_owned(), Type::Int)));
        assert!(column_type("a:integer").unwrap_err().contains("objectid"));
        assert!(column_type("a").is_err() && column_format("a").is_err());
    }
}
