//! Field names that cannot become paths or operators.

use std::fmt;

use mongodb::bson::{Document, doc};

use crate::error::{Error, ErrorKind};

/// The start of the names of the fields that a call sets in documents of other patterns or programs, for as long as it runs.
const MARK: &str = "mongo_patterns_";

/// Returns whether a field is no content of a document, but set by a call as long as it runs.
pub fn is_mark(name: &str) -> bool {
    name.starts_with(MARK)
}

/// The name of one field of a document: not empty, without `.` and NUL, not starting with `$`, and not `_id`.
///
/// In a filter, an update or an index, such a name is never a path or an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldName(String);

impl FieldName {
    /// Checks the name.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration), with the reason.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let problem = if name.is_empty() {
            "must not be empty"
        } else if name.contains('.') {
            "must not contain a dot, which would make it a path"
        } else if name.contains('\0') {
            "must not contain NUL"
        } else if name.starts_with('$') {
            "must not start with $, which would make it an operator"
        } else if name == "_id" {
            "must not be `_id`, which the pattern forms itself"
        } else {
            return Ok(Self(name));
        };
        Err(Error::new(
            ErrorKind::Configuration,
            format!("the field name {name:?} {problem}"),
        ))
    }

    /// Checks a name that can be `_id`: the name of a field of an array's elements, or of an id.
    pub fn of_element(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        if name == "_id" { Ok(Self(name)) } else { Self::new(name) }
    }

    /// Checks the name of a field of an array's elements that is part of a path. It can be `_id`, but not a number, which
    /// the server takes for an index of the array.
    pub fn in_array(name: impl Into<String>) -> Result<Self, Error> {
        let name = Self::of_element(name)?;
        if name.0.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = format!(
                "the field name {:?} must not be a number, which in a path is an index of the array: use a name with a letter",
                name.0
            );
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        Ok(name)
    }

    /// Returns the field that, beside this array, shows that a subset manages the document: `reviews_version` for `reviews`.
    #[must_use]
    pub fn version(&self) -> Self {
        Self(format!("{}_version", self.0))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for FieldName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lets a condition on a field not match an array.
#[doc(hidden)]
#[must_use]
pub fn no_array(mut condition: Document) -> Document {
    condition.insert("$not", doc! { "$type": "array" });
    condition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_more_than_a_name_are_refused() {
        for name in ["", "a.b", "$set", "a\0", "_id"] {
            let error = FieldName::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{name:?}");
        }
        for name in ["customerId", "größe", "a$b", "_ids"] {
            assert_eq!(FieldName::new(name).unwrap().as_str(), name);
        }
        assert_eq!(FieldName::of_element("_id").unwrap().as_str(), "_id");
        assert!(FieldName::of_element("a.b").is_err());
        for name in ["0", "12", "", "a.b"] {
            let error = FieldName::in_array(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{name:?}");
        }
        for name in ["_id", "a0", "0a", "-1"] {
            assert_eq!(FieldName::in_array(name).unwrap().as_str(), name);
        }
    }
}
