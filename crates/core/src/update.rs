//! Updates of one document, or of one element of an array, by MongoDB's update operators.
//!
//! # Design
//!
//! ## Why are only the paths rewritten?
//!
//! Every supported operator works on the path of an array element as on the field of a document. So the server applies it in
//! one atomic command, and a value is never part of a path or of an expression. The stages of a pipeline work on whole
//! documents only.
//!
//! ## Why are paths that conflict refused here?
//!
//! The server refuses two paths if one contains the other. Its error could name a path of the pattern, which the caller did
//! not write.

mod document;
mod operator;
mod path;

use mongodb::bson::{Bson, Document};
use mongodb::options::UpdateModifications;

use self::operator::refused;
use self::path::Path;
use crate::error::{Error, ErrorKind, Result, code, is_bad_hint};

pub use self::document::{DocumentUpdate, add};
pub use self::operator::Operator;
pub use self::path::Fixed;

const OPERATOR_FORM: &str = "the update is not a document of update operators, nothing was sent: write `doc! { \"$set\": { \"field\": value } }`, with $set, $unset, $inc, $mul, $min, $max, $currentDate, $push, $pull or $addToSet";

/// The server's codes for an update that does not suit the stored values: a bad value or type, an overflow, a failed
/// conversion, or a path through a value that is not a document. In a pipeline, also a calculation with values that are no
/// numbers.
const UNSUITABLE: [i32; 13] = [2, 9, 14, 15, 28, 241, 16554, 16555, 16556, 16608, 16609, 16610, 16611];

/// Update operators, checked. Their paths are relative to a document, or to an element of an array.
#[derive(Clone, PartialEq)]
pub struct Operators(Vec<(Operator, Document)>);

crate::redacted_debug!(Operators);

/// What one operator does to a field, or to a path in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change<'a> {
    pub operator: Operator,
    /// Whether the path is the field itself, and not inside its value.
    pub is_whole: bool,
    pub value: &'a Bson,
}

impl Operators {
    /// Checks an update of a document.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument): it is no document of supported operators, changes nothing, or has an
    /// invalid value or path.
    pub fn new(update: Document, fixed: &[Fixed<'_>]) -> Result<Self> {
        let mut operators = Vec::with_capacity(update.len());
        for (name, fields) in update {
            let Some(operator) = Operator::named(&name) else {
                return Err(refused(OPERATOR_FORM));
            };
            let Bson::Document(fields) = fields else {
                return Err(refused(OPERATOR_FORM));
            };
            for (path, value) in &fields {
                Path::new(path)?.check(fixed)?;
                operator.check(value)?;
            }
            if !fields.is_empty() {
                operators.push((operator, fields));
            }
        }
        if operators.is_empty() {
            return Err(refused(
                "the update names no field, nothing was sent: name a field to change",
            ));
        }
        let operators = Self(operators);
        path::check_conflicts(operators.paths())?;
        Ok(operators)
    }

    /// Checks an update of an element of an array.
    pub fn of_element(update: UpdateModifications, fixed: &[Fixed<'_>]) -> Result<Self> {
        match update {
            UpdateModifications::Document(update) => Self::new(update, fixed),
            _ => Err(refused(
                "an element of an array cannot be updated by a pipeline, nothing was sent: use update operators, such as `doc! { \"$inc\": { \"field\": 1 } }`",
            )),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(_, fields)| fields.keys()).map(String::as_str)
    }

    /// Returns what the operators do to this field, and to paths in it.
    pub fn changes_of<'a>(&'a self, field: &'a str) -> impl Iterator<Item = Change<'a>> {
        let all = self
            .0
            .iter()
            .flat_map(|(operator, fields)| fields.iter().map(move |(path, value)| (*operator, path, value)));
        all.filter_map(move |(operator, path, value)| {
            let inside = path.strip_prefix(field)?;
            (inside.is_empty() || inside.starts_with('.')).then_some(Change {
                operator,
                is_whole: inside.is_empty(),
                value,
            })
        })
    }

    /// Returns the update of the value at a path such as `addresses.$.`, or of a document for an empty path.
    pub fn under(self, path: &str) -> Document {
        let fields = |fields: Document| -> Document {
            let under = |(field, value)| (format!("{path}{field}"), value);
            fields.into_iter().map(under).collect()
        };
        let operators = self.0.into_iter();
        operators
            .map(|(operator, changed)| (operator.name().to_owned(), fields(changed).into()))
            .collect()
    }
}

/// Checks a path of a field of a stage of a pipeline.
pub fn check_path(path: &str, fixed: &[Fixed<'_>]) -> Result<()> {
    Path::new(path)?.check(fixed)
}

/// The lowest code of the server's errors of expressions. Those below are of other kinds.
const OF_EXPRESSIONS: i32 = 14_000;

/// Returns whether the server refused the stages of a pipeline because of the values of a document.
pub fn is_of_stages(error: &mongodb::error::Error) -> bool {
    code(error).is_some_and(|code| UNSUITABLE.contains(&code) || code >= OF_EXPRESSIONS) && !is_bad_hint(error)
}

/// Returns the error of an update that failed. The server refuses an update that does not suit the stored values.
pub fn failed(error: Error) -> Error {
    let is_unsuitable = |error: &mongodb::error::Error| code(error).is_some_and(|code| UNSUITABLE.contains(&code));
    if error.kind() != ErrorKind::Driver || !error.as_driver_error().is_some_and(is_unsuitable) {
        return error;
    }
    error.with_kind(ErrorKind::InvalidArgument).with_text(
        "the update does not suit the stored values, nothing was changed: a number operator needs a number, $push, $pull and $addToSet an array, and a path a document; see as_driver_error() for the reason",
    )
}

/// Returns the paths that a stage of a pipeline writes.
pub fn stage_paths(stage: &Document) -> Result<Vec<&str>> {
    let mut fields = stage.iter();
    let paths = match (fields.next(), fields.next()) {
        (Some((name, Bson::Document(fields))), None) if name == "$set" || name == "$addFields" => {
            Some(fields.keys().map(String::as_str).collect())
        }
        (Some((name, Bson::String(path))), None) if name == "$unset" => Some(vec![path.as_str()]),
        (Some((name, Bson::Array(paths))), None) if name == "$unset" => paths.iter().map(Bson::as_str).collect(),
        _ => None,
    };
    paths.ok_or_else(|| {
        refused(
            "a stage of the update is not $set, $addFields or $unset, nothing was sent: use these, or update operators",
        )
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::*;

    const FIXED: [Fixed<'_>; 1] = [("id", "the id stays")];

    fn message(update: Document) -> String {
        let error = Operators::new(update, &FIXED).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    }

    #[test]
    fn every_operator_is_rewritten_to_the_path_of_the_element() {
        let now = DateTime::from_millis(1);
        let update = doc! {
            "$set": { "a": "$b", "_id": 1, "place.city": doc! { "$gt": 1 } },
            "$unset": { "c": "" },
            "$inc": { "votes": 1_i64 },
            "$mul": { "price": 1.5 },
            "$min": { "first": now },
            "$max": { "last": now },
            "$currentDate": { "seen": true, "clock": { "$type": "timestamp" } },
            "$push": { "tags": { "$each": [1], "$slice": -5 } },
            "$pull": { "marks": { "$lt": 3 } },
            "$addToSet": { "kinds.0": "$x" },
        };
        let operators = Operators::new(update.clone(), &FIXED).unwrap();
        assert_eq!(operators.clone().under(""), update);
        assert_eq!(
            operators.under("items.$."),
            doc! {
                "$set": { "items.$.a": "$b", "items.$._id": 1, "items.$.place.city": { "$gt": 1 } },
                "$unset": { "items.$.c": "" },
                "$inc": { "items.$.votes": 1_i64 },
                "$mul": { "items.$.price": 1.5 },
                "$min": { "items.$.first": now },
                "$max": { "items.$.last": now },
                "$currentDate": { "items.$.seen": true, "items.$.clock": { "$type": "timestamp" } },
                "$push": { "items.$.tags": { "$each": [1], "$slice": -5 } },
                "$pull": { "items.$.marks": { "$lt": 3 } },
                "$addToSet": { "items.$.kinds.0": "$x" },
            }
        );
    }

    #[test]
    fn a_plain_document_is_refused_with_the_operator_form() {
        for update in [
            doc! { "zip": "54321" },
            doc! { "$set": { "a": 1 }, "b": 2 },
            doc! { "$set": 1 },
            doc! { "": {} },
            doc! { "$": { "a": 1 } },
            doc! { "$rename": { "a": "b" } },
            doc! { "$bit": { "a": { "or": 1 } } },
            doc! { "$setOnInsert": { "a": 1 } },
            doc! { "$pop": { "a": 1 } },
            doc! { "$Set": { "a": 1 } },
        ] {
            let shown = message(update.clone());
            assert!(shown.contains("doc! { \"$set\""), "{update}: {shown}");
        }
        for update in [doc! {}, doc! { "$set": {}, "$inc": {} }] {
            assert!(message(update).contains("names no field"));
        }
        let set = Operators::new(doc! { "$inc": {}, "$set": { "a": 1 } }, &FIXED).unwrap();
        assert_eq!(set.under(""), doc! { "$set": { "a": 1 } });
    }

    #[test]
    fn an_element_takes_no_pipeline() {
        let update = vec![doc! { "$set": { "a": 1 } }];
        let error = Operators::of_element(update.into(), &FIXED).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("by a pipeline"));
        assert!(Operators::of_element(doc! { "$set": { "a": 1 } }.into(), &FIXED).is_ok());
    }

    #[test]
    fn hostile_paths_are_refused_under_every_operator() {
        let paths = [
            "", ".", ".a", "a.", "a..b", "$", "$a", "a.$", "a.$.b", "$[]", "a.$[]", "a.$[x].b", "a.$**", "a\0",
            "a.b\0c",
        ];
        for operator in Operator::ALL {
            for path in paths {
                let update = doc! { operator.name(): { path: operator.example() } };
                assert!(message(update).contains("path"), "{} {path:?}", operator.name());
            }
            for path in ["id", "id.x", "id.0"] {
                let update = doc! { operator.name(): { path: operator.example() } };
                assert_eq!(message(update), "the id stays", "{} {path}", operator.name());
            }
            for path in ["ids", "a.id", "0", "größe", "a$b", "-1"] {
                let update = doc! { operator.name(): { path: operator.example() } };
                assert_eq!(Operators::new(update.clone(), &FIXED).unwrap().under(""), update);
            }
        }
    }

    #[test]
    fn the_error_of_a_positional_operator_names_it() {
        for path in ["$", "$[]", "a.$", "a.$[]", "a.$[x].b", "a.0.$.b"] {
            let shown = message(doc! { "$set": { path: 1 } });
            assert!(
                shown.contains("positional operator, $, $[] or $[name]"),
                "{path}: {shown}"
            );
        }
        for path in ["$a", "a.$**", "a..b"] {
            let shown = message(doc! { "$set": { path: 1 } });
            assert!(shown.contains("starts with $"), "{path}: {shown}");
        }
    }

    #[test]
    fn paths_that_conflict_are_refused() {
        for update in [
            doc! { "$set": { "a": 1 }, "$inc": { "a": 1 } },
            doc! { "$set": { "a": 1, "a.b": 1 } },
            doc! { "$inc": { "a.b.c": 1 }, "$unset": { "a-": "", "a.b": "" } },
        ] {
            assert!(message(update).contains("changed twice"));
        }
        let side_by_side = doc! { "$set": { "a": 1, "ab": 1, "b.a": 1 }, "$inc": { "a-": 1, "b.b": 1 } };
        assert!(Operators::new(side_by_side, &FIXED).is_ok());
    }

    #[test]
    fn the_changes_of_a_field_include_those_inside_it() {
        let update = doc! { "$set": { "a.b": 1, "ab": 2 }, "$inc": { "c": 3, "a.d": 4 } };
        let operators = Operators::new(update, &FIXED).unwrap();
        let changes = |field| -> Vec<(Operator, bool, i32)> {
            let changes = operators.changes_of(field);
            let row = |change: Change<'_>| (change.operator, change.is_whole, change.value.as_i32().unwrap());
            changes.map(row).collect()
        };
        assert_eq!(changes("a"), [(Operator::Set, false, 1), (Operator::Inc, false, 4)]);
        assert_eq!(changes("c"), [(Operator::Inc, true, 3)]);
        assert_eq!(changes("b"), []);
    }
}
