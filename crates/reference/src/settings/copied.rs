//! The fields that are copied from a source, and their paths.

use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::update::Operators;

use mongo_patterns_core::{Error, FieldName, Result};
use mongodb::bson::{Bson, Document};

/// A path of plain field names, such as `address.city`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldPath(Vec<String>);

impl FieldPath {
    pub(crate) fn new(path: &str) -> Result<Self> {
        let mut parts = Vec::new();
        for part in path.split('.') {
            parts.push(FieldName::in_array(part)?.as_str().to_owned());
        }
        match parts[0] == "_id" {
            true => Err(configuration(
                "the `_id` of a source is always in the copy: do not name it as a copied field",
            )),
            false => Ok(Self(parts)),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.0.join(".")
    }

    pub(crate) fn first(&self) -> &str {
        &self.0[0]
    }

    pub(crate) fn parts(&self) -> &[String] {
        &self.0
    }

    /// Returns whether the paths are equal, or one leads into the other.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a == b)
    }

    /// Returns whether a change of another path can change the value at this one.
    pub(crate) fn is_reached_by(&self, changed: &str) -> bool {
        self.0
            .iter()
            .zip(changed.split('.'))
            .all(|(part, changed)| part == changed)
    }

    /// Returns the value at the path. A path through an array, or another value that is not a document, has none.
    pub(crate) fn value<'d>(&self, document: &'d Document) -> Option<&'d Bson> {
        let (last, parents) = self.0.split_last()?;
        let mut document = document;
        for parent in parents {
            document = document.get(parent)?.as_document()?;
        }
        document.get(last)
    }

    /// Sets the value at the path. Replaces what is no document on the way.
    pub(crate) fn set(&self, document: &mut Document, value: Bson) {
        let mut document = document;
        let Some((last, parents)) = self.0.split_last() else {
            return;
        };
        for parent in parents {
            let inner = document.entry(parent.clone()).or_insert_with(|| Document::new().into());
            if !matches!(inner, Bson::Document(_)) {
                *inner = Document::new().into();
            }
            let Bson::Document(inner) = inner else { return };
            document = inner;
        }
        document.insert(last.clone(), value);
    }

    /// Removes the value at the path.
    pub(crate) fn remove(&self, document: &mut Document) {
        let mut document = document;
        let Some((last, parents)) = self.0.split_last() else {
            return;
        };
        for parent in parents {
            let Some(Bson::Document(inner)) = document.get_mut(parent) else {
                return;
            };
            document = inner;
        }
        document.remove(last);
    }

    /// Returns whether an update can change the value at the path: it changes the path, a path in it, or a document around
    /// it.
    pub(crate) fn is_changed_by(&self, update: &Operators) -> bool {
        let mut parents = (1..self.0.len()).map(|parts| self.0[..parts].join("."));
        let whole = |parent: String| update.changes_of(&parent).any(|change| change.is_whole);
        update.changes_of(&self.text()).next().is_some() || parents.any(whole)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedField {
    /// Its path in the copy.
    pub(crate) target: FieldPath,
    pub(crate) source: FieldPath,
}

impl CopiedField {
    /// Checks the paths.
    pub(crate) fn new(target: &str, source: &str) -> Result<Self> {
        Ok(Self {
            target: FieldPath::new(target)?,
            source: FieldPath::new(source)?,
        })
    }
}

/// Refuses the fields that the pattern writes itself.
pub(crate) fn reserved(field: &str) -> Error {
    configuration(format!(
        "the field `{field}` is written by the pattern itself: do not name it as a copied field"
    ))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn path(path: &str) -> FieldPath {
        FieldPath::new(path).unwrap()
    }

    #[test]
    fn paths_that_are_more_than_names_are_refused() {
        for bad in [
            "", ".", "a.", ".a", "a..b", "$a", "a.$b", "a.0", "0", "_id", "_id.x", "a\0",
        ] {
            assert!(FieldPath::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(path("address.city").parts(), ["address", "city"]);
        assert!(path("a").overlaps(&path("a.b")) && path("a.b").overlaps(&path("a")));
        assert!(!path("a").overlaps(&path("ab")) && !path("a.b").overlaps(&path("a.c")));
        for changed in ["a", "a.b", "a.b.0.c"] {
            assert!(path("a.b").is_reached_by(changed), "{changed}");
        }
        for changed in ["", "b", "a.c", "ab", "a.0"] {
            assert!(!path("a.b").is_reached_by(changed), "{changed}");
        }
    }

    #[test]
    fn values_are_read_set_and_removed_through_documents_alone() {
        let mut document = doc! { "a": { "b": 1 }, "list": [{ "b": 2 }], "n": null };
        assert_eq!(path("a.b").value(&document), Some(&Bson::Int32(1)));
        for missing in ["a.c", "list.b", "n.b", "x", "a.b.c"] {
            assert_eq!(path(missing).value(&document), None, "{missing}");
        }
        path("a.c.d").set(&mut document, 5.into());
        path("n.b").set(&mut document, 6.into());
        path("a.b").remove(&mut document);
        path("list.b").remove(&mut document);
        assert_eq!(
            document,
            doc! { "a": { "c": { "d": 5 } }, "list": [{ "b": 2 }], "n": { "b": 6 } }
        );
    }

    #[test]
    fn an_update_changes_a_path_from_above_and_from_inside() {
        let changes = |update: Document, field: &str| {
            let update = Operators::new(update, &[]).unwrap();
            path(field).is_changed_by(&update)
        };
        for update in [
            doc! { "$set": { "address.city": 1 } },
            doc! { "$set": { "address": {} } },
            doc! { "$unset": { "address": "" } },
            doc! { "$set": { "address.city.name": 1 } },
        ] {
            assert!(changes(update.clone(), "address.city"), "{update}");
        }
        for update in [
            doc! { "$set": { "address.zip": 1 } },
            doc! { "$set": { "addresses": 1, "city": 1 } },
            doc! { "$inc": { "address.cityCode": 1 } },
        ] {
            assert!(!changes(update.clone(), "address.city"), "{update}");
        }
    }
}
