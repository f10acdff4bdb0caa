//! Updates of a document.
//!
//! # Design
//!
//! ## Why does a pipeline have only `$set` and `$unset`?
//!
//! Their paths show which fields they write. The result of `$replaceWith` and `$project` can lack the id, the revision and
//! the time: use [`replace`](crate::HistoryRepository::replace).

use mongo_patterns_core::Result;
use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::update::DocumentUpdate;
use mongodb::bson::{Bson, Document, Timestamp};
use mongodb::options::UpdateModifications;

use super::document::invalid_argument;
use crate::settings::Settings;

const OWN: &str = "the update changes the revision, its time or the mark of a deletion, which the repository writes itself, nothing was sent: omit it";
const CHANGE: &str =
    "the update changes a field that describes the change, nothing was sent: pass its value to with(..) of the call";
const ID: &str = "the update changes the id of the document, nothing was sent: insert a document with the other id";
const OF_REVISIONS: &str = "the update changes the field that only revisions have, with the id of their document, nothing was sent: omit it, or use another name with document_id_field(..)";
const OWN_ID: &str = "the update changes the `_id` of the document, which is immutable, nothing was sent: omit it";

/// Checks an update of a document in which others own fields.
pub(crate) fn checked(settings: &Settings, others: &Others, update: UpdateModifications) -> Result<DocumentUpdate> {
    let [revision, time, deleted] = settings.own_fields().map(|field| (field.as_str(), OWN));
    let mut fixed = vec![revision, time, deleted, (settings.id.as_str(), ID), ("_id", OWN_ID)];
    fixed.extend(settings.change_fields().map(|field| (field, CHANGE)));
    if settings.is_by_id() {
        fixed.push((settings.document_id.as_str(), OF_REVISIONS));
    }
    fixed.extend(others.fixed());
    DocumentUpdate::new(update, &fixed)
}

/// Checks the values of the fields that describe a change.
pub(crate) fn checked_with(settings: &Settings, with: Document) -> Result<Document> {
    let is_known = |name: &String| settings.change_fields().any(|field| field == name);
    if !with.keys().all(is_known) {
        return Err(invalid_argument(
            "with(..) has a field that does not describe a change, nothing was sent: name it in change_fields(..) of the builder",
        ));
    }
    let replaced = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
    if with.values().any(|value| *value == replaced) {
        return Err(invalid_argument(
            "a value of with(..) is `Timestamp(0, 0)`, which the server replaces by the time of the write, nothing was sent: use another value",
        ));
    }
    Ok(with)
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::ErrorKind;
    use mongodb::bson::doc;

    use super::*;

    fn others() -> Others {
        Others::default()
    }

    #[test]
    fn the_fields_of_the_pattern_cannot_be_changed() {
        let settings = Settings::example();
        let refused = |update: UpdateModifications| {
            let error = checked(&settings, &others(), update).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        };
        for field in ["policyId", "revision", "dateSet", "deleted", "_id", "dateSet.x"] {
            for operator in ["$set", "$unset", "$inc", "$push"] {
                refused(doc! { operator: { field: 1 } }.into());
            }
            refused(vec![doc! { "$set": { field: 1 } }].into());
            refused(vec![doc! { "$unset": field }].into());
        }
        for field in ["changedBy", "reason", "reason.x"] {
            let settings = Settings::with_change_fields();
            for update in [
                doc! { "$set": { field: 1 } }.into(),
                vec![doc! { "$set": { field: 1 } }].into(),
            ] {
                let error = checked(&settings, &others(), update).unwrap_err();
                assert!(error.to_string().contains("with(..)"), "{error}");
            }
            assert!(checked(&Settings::example(), &others(), doc! { "$set": { field: 1 } }.into()).is_ok());
        }
        for field in ["_id", "documentId", "documentId.x"] {
            let error = checked(&Settings::by_id(), &others(), doc! { "$set": { field: 1 } }.into()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{field}");
        }
        assert!(checked(&settings, &others(), doc! { "$set": { "documentId": 1 } }.into()).is_ok());
        refused(doc! { "name": "a" }.into());
        refused(doc! { "$rename": { "name": "b" } }.into());
        refused(Vec::<Document>::new().into());
        refused(vec![doc! { "$replaceWith": {} }].into());
        assert!(
            checked(
                &settings,
                &others(),
                doc! { "$set": { "revisions": 1, "a.revision": 2 } }.into()
            )
            .is_ok()
        );
        assert!(
            checked(
                &settings,
                &others(),
                vec![doc! { "$set": { "total": "$price" } }].into()
            )
            .is_ok()
        );
    }
}
