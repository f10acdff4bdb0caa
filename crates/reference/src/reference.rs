//! A reference field, as the builder takes it.

use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{FieldName, Result};

use crate::settings::copied::{CopiedField, reserved};
use crate::settings::{DELETED, MARK, ReferenceField};

/// A field with references to sources, for [`add_reference`](crate::ReferenceRepositoryBuilder::add_reference) and
/// [`add_referring`](crate::ReferenceRepositoryBuilder::add_referring).
///
/// ```
/// # use mongo_patterns::reference::Reference;
/// let payer = Reference::new("payer").copied_fields(["name"]).copied_field("city", "address.city");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is added to a builder"]
pub struct Reference {
    field: String,
    /// Each with its path in the copy, and that in the source.
    copied: Vec<(String, String)>,
    is_array: bool,
    is_snapshot: bool,
}

impl Reference {
    /// Creates a reference in a field of the document, such as `customer`.
    pub fn new(field: impl Into<String>) -> Self {
        Self::default().named(field.into())
    }

    /// Adds fields of the source that are copied under the same path.
    pub fn copied_fields(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let paths = paths.into_iter().map(Into::into);
        self.copied.extend(paths.map(|path: String| (path.clone(), path)));
        self
    }

    /// Adds a field of the source that is copied under another path: first the path in the copy, then the path in the
    /// source.
    pub fn copied_field(mut self, target: impl Into<String>, source: impl Into<String>) -> Self {
        self.copied.push((target.into(), source.into()));
        self
    }

    mongo_patterns_core::setters! {
        /// The field is an array of references, whose elements can have fields of their own.
        array() => is_array = true;

        /// The copies stay as they were stored, such as the price that was paid.
        snapshot() => is_snapshot = true;
    }

    pub(crate) fn named(mut self, field: String) -> Self {
        self.field = field;
        self
    }

    /// Checks the reference. The source key is copied first, unless it is named.
    pub(crate) fn checked(
        mut self,
        collection: usize,
        version: &FieldName,
        key: Option<&FieldName>,
    ) -> Result<ReferenceField> {
        if let Some(key) = key.map(FieldName::as_str) {
            let copied = (key.to_owned(), key.to_owned());
            if !self.copied.contains(&copied) {
                self.copied.insert(0, copied);
            }
        }
        let name = FieldName::in_array(self.field)?;
        if name.as_str() == "_id" {
            return Err(configuration(
                "the `_id` of a document cannot be a reference: use another field",
            ));
        }
        let mut copied: Vec<CopiedField> = Vec::with_capacity(self.copied.len());
        for (target, source) in &self.copied {
            let field = CopiedField::new(target, source)?;
            for own in [version.as_str(), MARK] {
                if [field.target.first(), field.source.first()].contains(&own) {
                    return Err(reserved(own));
                }
            }
            if field.target.first() == DELETED {
                return Err(reserved(DELETED));
            }
            if copied.iter().any(|other| other.target.overlaps(&field.target)) {
                return Err(configuration(format!(
                    "two copied fields of `{name}` have the same path in the copy, or one leads into the other: give each a path of its own"
                )));
            }
            copied.push(field);
        }
        if copied.is_empty() {
            return Err(configuration(format!(
                "the reference `{name}` has no copied fields: call copied_fields(..)"
            )));
        }
        Ok(ReferenceField {
            collection,
            name,
            copied,
            is_array: self.is_array,
            is_snapshot: self.is_snapshot,
            index: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;

    use super::*;

    fn refused(reference: Reference) -> bool {
        let version = FieldName::new("v").unwrap();
        let checked = reference.checked(0, &version, None);
        checked.is_err_and(|error| error.kind() == ErrorKind::Configuration)
    }

    #[test]
    fn fields_that_the_pattern_writes_are_refused() {
        let customer = || Reference::new("customer");
        assert!(refused(customer()));
        for field in ["_id", "v", "v.x", MARK, "deleted", "deleted.x", "", "a.$b", "a.0"] {
            assert!(refused(customer().copied_fields([field])), "{field}");
        }
        for target in ["_id", "v", "deleted", MARK] {
            assert!(refused(customer().copied_field(target, "name")), "{target}");
        }
        for source in ["v", "v.x", MARK] {
            assert!(refused(customer().copied_field("copy", source)), "{source}");
        }
        assert!(!refused(customer().copied_field("gone", "deleted")));
        for field in ["", "a.b", "$a", "_id", "0"] {
            assert!(refused(Reference::new(field).copied_fields(["name"])), "{field}");
        }
    }

    #[test]
    fn targets_that_overlap_are_refused() {
        let two = |a: (&str, &str), b: (&str, &str)| {
            refused(Reference::new("c").copied_field(a.0, a.1).copied_field(b.0, b.1))
        };
        assert!(two(("name", "name"), ("name", "title")));
        assert!(two(("address", "address"), ("address.city", "city")));
        assert!(!two(("a", "name"), ("b", "name")));
        assert!(!two(("address.zip", "zip"), ("address.city", "city")));
    }
}
