//! The differences between two revisions.

use super::document::content;
use crate::prelude::*;
use crate::results::{Diff, FieldChange};

/// Returns the differences, in the order of the fields of the first document.
pub(crate) fn diff(settings: &Settings, before: &RawDocument, after: &RawDocument) -> Result<Diff> {
    let mut changes = Vec::new();
    documents(
        "",
        &content(settings, before)?,
        &content(settings, after)?,
        &mut changes,
    );
    Ok(Diff { changes })
}

fn documents(path: &str, before: &Document, after: &Document, changes: &mut Vec<FieldChange>) {
    for (field, value) in before {
        values(&format!("{path}{field}"), Some(value), after.get(field), changes);
    }
    for (field, value) in after.iter().filter(|(field, _)| !before.contains_key(*field)) {
        values(&format!("{path}{field}"), None, Some(value), changes);
    }
}

/// A document or an array that is in both is compared field by field, or element by element.
fn values(path: &str, before: Option<&Bson>, after: Option<&Bson>, changes: &mut Vec<FieldChange>) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Bson::Document(before)), Some(Bson::Document(after))) => {
            documents(&format!("{path}."), before, after, changes);
        }
        (Some(Bson::Array(before)), Some(Bson::Array(after))) => {
            for at in 0..before.len().max(after.len()) {
                values(&format!("{path}.{at}"), before.get(at), after.get(at), changes);
            }
        }
        (before, after) => changes.push(FieldChange {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    #[test]
    fn changes_are_listed_by_path() {
        let before = rawdoc! {
            "_id": 1, "policyId": 1, "revision": 1, "items": ["car"], "owner": { "name": "Michelle", "age": 30 }, "note": "x",
        };
        let after = rawdoc! {
            "_id": 2, "policyId": 1, "revision": 2, "items": ["car", "watch"], "owner": { "age": 31, "name": "Michelle" },
            "paid": true,
        };
        let diff = diff(&Settings::example(), &before, &after).unwrap();
        let change = |path: &str, before: Option<Bson>, after: Option<Bson>| FieldChange {
            path: path.to_owned(),
            before,
            after,
        };
        let expected = [
            change("items.1", None, Some("watch".into())),
            change("owner.age", Some(30.into()), Some(31.into())),
            change("note", Some("x".into()), None),
            change("paid", None, Some(true.into())),
        ];
        assert_eq!(diff.changes, expected);
    }

    #[test]
    fn a_change_of_type_is_one_change() {
        let (before, after) = (rawdoc! { "a": { "b": 1 } }, rawdoc! { "a": [1] });
        let diff = diff(&Settings::example(), &before, &after).unwrap();
        assert_eq!(diff.changes.len(), 1);
        assert_eq!(diff.changes[0].path, "a");
    }
}
