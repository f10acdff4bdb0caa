//! The differences between two revisions.

use mongo_patterns_core::Result;
use mongodb::bson::{Bson, Document, RawDocument};

use super::document::{content, is_same};
use crate::results::{Diff, FieldChange};
use crate::settings::Settings;

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
        (Some(before), Some(after)) if is_same(before, after) => {}
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

    #[test]
    fn a_nan_that_stays_is_no_change() {
        let nan = f64::NAN;
        let before = rawdoc! { "a": nan, "b": [nan, 1], "c": { "d": nan, "e": nan }, "f": nan };
        let after = rawdoc! { "a": nan, "b": [nan, 2], "c": { "d": nan, "e": 0.5 }, "f": "NaN" };
        let diff = diff(&Settings::example(), &before, &after).unwrap();
        let paths: Vec<&str> = diff.changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["b.1", "c.e", "f"]);
    }

    #[test]
    fn a_deletion_has_no_fields() {
        let settings = Settings::with_change_fields();
        let before = rawdoc! { "_id": 1, "policyId": 1, "revision": 1, "dateSet": 5, "reason": "x", "items": ["car"] };
        let deletion = rawdoc! { "_id": 2, "policyId": 1, "revision": 2, "dateSet": 6, "reason": "y", "deleted": true };
        let paths = |before, after| {
            let changes = diff(&settings, before, after).unwrap().changes;
            changes.into_iter().map(|change| change.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(&before, &deletion), ["items"]);
        assert_eq!(paths(&deletion, &before), ["items"]);
        assert_eq!(paths(&deletion, &deletion), [""; 0]);
    }
}
