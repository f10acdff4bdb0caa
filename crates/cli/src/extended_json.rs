//! Values of options in MongoDB Extended JSON, and the problems of other text.

use std::fmt;

use mongodb::bson::{Bson, Document};
use serde_json::Value;

/// The deepest nesting that is read.
const LEVELS: usize = 127;

/// The names of types, each with its form, if it is a common one.
const TYPES: [(&str, &str); 17] = [
    ("$oid", r#"{"$oid": "653a9f2e8c1d4b5a6f7e8d9c"}"#),
    ("$date", r#"{"$date": "2025-01-31T00:00:00Z"}"#),
    ("$uuid", r#"{"$uuid": "3b241101-e2bb-4255-8caf-4136c566a962"}"#),
    ("$binary", r#"{"$binary": {"base64": "AQID", "subType": "00"}}"#),
    ("$numberInt", r#"{"$numberInt": "5"}"#),
    ("$numberLong", r#"{"$numberLong": "5"}"#),
    ("$numberDouble", r#"{"$numberDouble": "0.5"}"#),
    ("$numberDecimal", r#"{"$numberDecimal": "0.5"}"#),
    ("$timestamp", r#"{"$timestamp": {"t": 1, "i": 1}}"#),
    (
        "$regularExpression",
        r#"{"$regularExpression": {"pattern": "^a", "options": "i"}}"#,
    ),
    ("$minKey", r#"{"$minKey": 1}"#),
    ("$maxKey", r#"{"$maxKey": 1}"#),
    ("$undefined", r#"{"$undefined": true}"#),
    ("$symbol", r#"{"$symbol": "a"}"#),
    ("$code", r#"{"$code": "1"}"#),
    ("$scope", r#"{"$code": "1", "$scope": {}}"#),
    (
        "$dbPointer",
        r#"{"$dbPointer": {"$ref": "a.b", "$id": {"$oid": ".."}}}"#,
    ),
];

/// The problem of a text. It has no values of it.
#[derive(Debug, PartialEq)]
pub(crate) enum Problem {
    /// It is not JSON, from this position.
    Syntax { line: usize, column: usize },
    /// It has more than [`LEVELS`].
    Levels,
    /// An integer has more than 64 bits.
    Integer,
    /// A value of this type has another form.
    Type { name: &'static str, form: &'static str },
    /// It is another value than a document.
    NoDocument,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, column } => write!(
                f,
                "this is not JSON, at line {line}, column {column}: quote names and operators, such as {{\"year\": {{\"$gte\": 2025}}}}"
            ),
            Self::Levels => write!(
                f,
                "documents and arrays are nested in more than {LEVELS} levels, and MongoDB allows 100: nest them less"
            ),
            Self::Integer => f.write_str(
                "an integer has more than 64 bits, which BSON does not have: write {\"$numberDecimal\": \"..\"}, or a string in quotes",
            ),
            Self::Type { name, form } => {
                write!(f, "a value of the type `{name}` has not the form of Extended JSON: write {form}")
            }
            Self::NoDocument => f.write_str("this is not a document: write {\"year\": 2025}, for example"),
        }
    }
}

/// Parses a value.
pub(crate) fn value(text: &str) -> Result<Bson, Problem> {
    match serde_json::from_str::<Bson>(text) {
        // A larger integer becomes a double, and loses digits.
        Ok(value) if !has_large_integer(text) => Ok(value),
        Ok(_) => Err(Problem::Integer),
        Err(error) => {
            let json = serde_json::from_str::<Value>(text);
            Err(match json {
                Err(_) if levels(text) > LEVELS => Problem::Levels,
                Ok(_) if has_large_integer(text) => Problem::Integer,
                Ok(json) => of_type(&json).unwrap_or(Problem::NoDocument),
                Err(_) => Problem::Syntax {
                    line: error.line(),
                    column: error.column(),
                },
            })
        }
    }
}

/// Parses a document.
pub(crate) fn document(text: &str) -> Result<Document, Problem> {
    match value(text)? {
        Bson::Document(document) => Ok(document),
        _ => Err(Problem::NoDocument),
    }
}

/// Returns the innermost value with the name of a type and another form.
fn of_type(json: &Value) -> Option<Problem> {
    let inner = match json {
        Value::Array(values) => values.iter().find_map(of_type),
        Value::Object(fields) => fields.values().find_map(of_type),
        _ => None,
    };
    inner.or_else(|| {
        let fields = json.as_object()?;
        let (name, form) = TYPES.into_iter().find(|(name, _)| fields.contains_key(*name))?;
        let is_wrong = serde_json::from_value::<Bson>(json.clone()).is_err();
        is_wrong.then_some(Problem::Type { name, form })
    })
}

/// Returns the characters of JSON that are not in strings.
fn outside_strings(text: &str) -> impl Iterator<Item = char> {
    let (mut is_in_string, mut is_escaped) = (false, false);
    text.chars().filter(move |character| {
        let was_in_string = is_in_string;
        match character {
            '"' if !is_escaped => is_in_string = !is_in_string,
            _ => {}
        }
        is_escaped = was_in_string && *character == '\\' && !is_escaped;
        !was_in_string
    })
}

/// Returns how deep documents and arrays are nested.
fn levels(text: &str) -> usize {
    let (mut deepest, mut level) = (0, 0_usize);
    for character in outside_strings(text) {
        match character {
            '{' | '[' => level += 1,
            '}' | ']' => level = level.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(level);
    }
    deepest
}

fn has_large_integer(text: &str) -> bool {
    let outside: String = outside_strings(text).collect();
    let mut numbers = outside.split(|character: char| !character.is_ascii_digit() && !"+-.eE".contains(character));
    numbers.any(|number| {
        let digits = number.strip_prefix('-').unwrap_or(number);
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_integer && number.parse::<i64>().is_err()
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn values_of_extended_json_are_parsed() {
        let text = r#"{"b": {"$gte": {"$date": "2024-01-01T00:00:00Z"}}, "a": ["\"5}", -9223372036854775808, 9223372036854775807]}"#;
        let parsed = document(text).unwrap();
        assert_eq!(parsed.keys().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(
            parsed.get_array("a").unwrap(),
            &vec!["\"5}".into(), i64::MIN.into(), i64::MAX.into()]
        );
        assert_eq!(value("5"), Ok(5.into()));
        assert_eq!(value(r#""99999999999999999999""#), Ok("99999999999999999999".into()));
        assert_eq!(value("1e30"), Ok(1e30.into()));
        assert_eq!(value("99999999999999999999.5"), Ok(1e20.into()));
        assert_eq!(
            document(r#"{"$type": "string", "x": {"$regex": "a", "$options": "i"}}"#),
            Ok(doc! { "$type": "string", "x": { "$regex": "a", "$options": "i" } })
        );
        let deepest = |levels: usize| value(&("[".repeat(levels) + &"]".repeat(levels)));
        assert!(deepest(LEVELS).is_ok());
        assert_eq!(deepest(LEVELS + 1), Err(Problem::Levels));
        assert_eq!(deepest(5000), Err(Problem::Levels));
    }

    #[test]
    fn the_problem_is_named() {
        for (text, name) in [
            (r#"{"$date": "2024-01-01"}"#, "$date"),
            (r#"{"a": [{"b": {"$gte": {"$date": "s3cret"}}}]}"#, "$date"),
            (r#"{"$binary": "AQID", "$type": "00"}"#, "$binary"),
            (r#"{"$type": "00", "$binary": "AQID"}"#, "$binary"),
            (r#"{"$oid": "s3cret"}"#, "$oid"),
            (r#"{"$numberLong": 5}"#, "$numberLong"),
            (r#"{"$date": {"$numberLong": 5}}"#, "$numberLong"),
            (r#"{"$uuid": "s3cret"}"#, "$uuid"),
            (r#"{"$timestamp": 5}"#, "$timestamp"),
            (r#"{"$minKey": 2}"#, "$minKey"),
        ] {
            let problem = document(text).unwrap_err();
            let is_named = matches!(&problem, Problem::Type { name: found, .. } if *found == name);
            assert!(is_named, "{text}: {problem:?}");
            assert!(!problem.to_string().contains("s3cret"), "{problem}");
        }
        for text in [
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999999",
            r#"{"a": [1, 18446744073709551615]}"#,
        ] {
            assert_eq!(value(text), Err(Problem::Integer), "{text}");
        }
        assert_eq!(document("[]"), Err(Problem::NoDocument));
        assert_eq!(document("5"), Err(Problem::NoDocument));
        for (text, line, column) in [("{a: 1}", 1, 2), ("{\n\"a\": 1", 2, 6), ("", 1, 0)] {
            assert_eq!(document(text), Err(Problem::Syntax { line, column }), "{text}");
        }
    }

    /// Each form that an error names is one that is read.
    #[test]
    fn the_forms_of_types_are_parsed() {
        for (name, form) in TYPES.into_iter().filter(|(name, _)| *name != "$dbPointer") {
            let parsed = value(form);
            assert!(parsed.is_ok() && form.contains(name), "{form}: {parsed:?}");
        }
    }
}
