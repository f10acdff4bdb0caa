//! The changes of current documents, and whose they are.

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::stored::value;
use mongo_patterns_core::{DocumentId, Result, follow};
use mongodb::bson::{Bson, DateTime, RawDocument, RawDocumentBuf};

use crate::form::document::{Head, have_same_content, is_copy};
use crate::settings::Settings;

/// A write of another program to a current document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Foreign {
    pub(crate) before: Before,
    /// The document after the write; `None` after a deletion.
    pub(crate) after: Option<RawDocumentBuf>,
    pub(crate) time: DateTime,
    /// The position in the change stream, in the order of texts.
    pub(crate) position: String,
}

/// The document before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Absent,
    /// With its number, if it has one.
    Number(Option<u64>),
}

/// The effect of a change.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// The writes of other programs, with the ids of their documents. Two if the id has changed.
    Foreign(Vec<(Bson, Foreign)>),
    /// An image of the document is missing.
    Unknown,
    Dropped,
}

/// Returns the number in a current document, whatever else it has.
pub(crate) fn number_in(settings: &Settings, document: &RawDocument) -> Option<u64> {
    let number = document.get(settings.revision.as_str()).ok().flatten()?;
    u64::try_from(stored_integer(number)?).ok().filter(|number| *number > 0)
}

impl Effect {
    pub(crate) fn read(settings: &Settings, others: &Others, event: &RawDocument) -> Result<Self> {
        let image = |name: &str| event.get_document(name).ok();
        let (before, after) = (image("fullDocumentBeforeChange"), image("fullDocument"));
        let write = Written {
            settings,
            others,
            time: time_of(event),
            position: position_of(event),
        };
        let writes = match (event.get_str("operationType"), before, after) {
            // An insert of a repository has its copy, which is read later.
            (Ok("insert"), _, Some(after)) => write.foreign(after, Before::Absent, Some(after)),
            (Ok("update" | "replace"), Some(before), Some(after)) => write.update(before, after)?,
            (Ok("delete"), Some(before), _) => write.delete(before),
            (Ok("insert" | "update" | "replace" | "delete"), ..) => return Ok(Self::Unknown),
            (Ok(operation), ..) if follow::Effect::is_drop(operation) => return Ok(Self::Dropped),
            _ => Vec::new(),
        };
        Ok(Self::Foreign(writes))
    }
}

/// Returns the time of a change.
fn time_of(event: &RawDocument) -> DateTime {
    let seconds = |event: &RawDocument| {
        event
            .get_timestamp("clusterTime")
            .map(|time| i64::from(time.time) * 1000)
    };
    let time = event.get_datetime("wallTime");
    time.unwrap_or_else(|_| seconds(event).map_or(DateTime::MIN, DateTime::from_millis))
}

/// Returns the resume token of a change, which is an index key as hexadecimal text.
fn position_of(event: &RawDocument) -> String {
    let token = event.get_document("_id").and_then(|token| token.get_str("_data"));
    token.unwrap_or_default().to_owned()
}

struct Written<'a> {
    settings: &'a Settings,
    others: &'a Others,
    time: DateTime,
    position: String,
}

impl Written<'_> {
    fn foreign(&self, document: &RawDocument, before: Before, after: Option<&RawDocument>) -> Vec<(Bson, Foreign)> {
        // A document without a valid id has no history. `verify` finds it.
        let id = value(document, &self.settings.id).and_then(|id| DocumentId::new(id).ok());
        let foreign = Foreign {
            before,
            after: after.map(ToOwned::to_owned),
            time: self.time,
            position: self.position.clone(),
        };
        id.map(|id| (id.into_bson(), foreign)).into_iter().collect()
    }

    fn update(&self, before: &RawDocument, after: &RawDocument) -> Result<Vec<(Bson, Foreign)>> {
        let id = |document: &RawDocument| value(document, &self.settings.id);
        if id(before) != id(after) {
            let mut writes = self.delete(before);
            writes.extend(self.foreign(after, Before::Absent, Some(after)));
            return Ok(writes);
        }
        let [old, new] = [before, after].map(|document| number_in(self.settings, document));
        let is_numbered = match (old, new) {
            // A repository, or a program that stores its revisions itself.
            (Some(old), Some(new)) if new > old => true,
            // A migration, or a follower.
            (old, Some(_)) => old != new && have_same_content(self.settings, before, after)?,
            (_, None) => false,
        };
        if is_numbered || is_copy(self.settings, self.others, before, after)? {
            return Ok(Vec::new());
        }
        Ok(self.foreign(after, Before::Number(old), Some(after)))
    }

    fn delete(&self, before: &RawDocument) -> Vec<(Bson, Foreign)> {
        let head = Head::read(self.settings, before);
        match head.is_some_and(|head| head.is_deleted) {
            // By a repository, which has stored the revision.
            true => Vec::new(),
            false => self.foreign(before, Before::Number(number_in(self.settings, before)), None),
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    fn document(revision: i32, name: &str) -> RawDocumentBuf {
        rawdoc! { "_id": 5, "policyId": 1, "name": name, "revision": revision, "dateSet": DateTime::from_millis(7) }
    }

    fn event(operation: &str, before: Option<&RawDocumentBuf>, after: Option<&RawDocumentBuf>) -> Effect {
        let mut event = rawdoc! { "operationType": operation, "wallTime": DateTime::from_millis(9) };
        if let Some(before) = before {
            event.append(mongodb::bson::cstr!("fullDocumentBeforeChange"), before.clone());
        }
        if let Some(after) = after {
            event.append(mongodb::bson::cstr!("fullDocument"), after.clone());
        }
        Effect::read(&Settings::example(), &Others::default(), &event).unwrap()
    }

    fn foreign(before: Before, after: Option<RawDocumentBuf>) -> Effect {
        let time = DateTime::from_millis(9);
        let position = String::new();
        let foreign = Foreign {
            before,
            after,
            time,
            position,
        };
        Effect::Foreign(vec![(1.into(), foreign)])
    }

    #[test]
    fn a_write_that_keeps_the_number_is_that_of_another_program() {
        let (old, new) = (document(3, "a"), document(3, "b"));
        let expected = foreign(Before::Number(Some(3)), Some(new.clone()));
        assert_eq!(event("update", Some(&old), Some(&new)), expected);
        assert_eq!(event("replace", Some(&old), Some(&new)), expected);
        let without = rawdoc! { "_id": 5, "policyId": 1, "name": "b" };
        assert_eq!(
            event("replace", Some(&old), Some(&without)),
            foreign(Before::Number(Some(3)), Some(without.clone()))
        );
        assert_eq!(
            event("update", Some(&without), Some(&rawdoc! { "policyId": 1 })),
            foreign(Before::Number(None), Some(rawdoc! { "policyId": 1 }))
        );
        assert_eq!(
            event("insert", None, Some(&new)),
            foreign(Before::Absent, Some(new.clone()))
        );
        assert_eq!(
            event("delete", Some(&old), None),
            foreign(Before::Number(Some(3)), None)
        );
        // The number of an old copy.
        assert_eq!(
            event("replace", Some(&old), Some(&document(2, "b"))),
            foreign(Before::Number(Some(3)), Some(document(2, "b")))
        );
    }

    #[test]
    fn a_write_of_a_repository_is_not_that_of_another_program() {
        let none = || Effect::Foreign(Vec::new());
        let tombstone = rawdoc! {
            "_id": 5, "policyId": 1, "revision": 4, "dateSet": DateTime::from_millis(7), "deleted": true,
        };
        assert_eq!(
            event("update", Some(&document(3, "a")), Some(&document(4, "b"))),
            none()
        );
        assert_eq!(event("replace", Some(&document(3, "a")), Some(&tombstone)), none());
        assert_eq!(event("delete", Some(&tombstone), None), none());
        // A follower numbers a document that another program has inserted with a number.
        assert_eq!(
            event("update", Some(&document(17, "a")), Some(&document(1, "a"))),
            none()
        );
        assert_eq!(event("of a later server", None, None), none());
    }

    #[test]
    fn a_missing_image_and_a_dropped_collection_are_recognized() {
        let one = document(1, "a");
        for operation in ["insert", "update", "replace", "delete"] {
            assert_eq!(event(operation, None, None), Effect::Unknown);
        }
        assert_eq!(event("update", None, Some(&one)), Effect::Unknown);
        for operation in ["drop", "rename", "dropDatabase", "invalidate"] {
            assert_eq!(event(operation, None, None), Effect::Dropped);
        }
    }

    #[test]
    fn another_id_is_a_deletion_and_an_insert() {
        let old = document(3, "a");
        let new = rawdoc! { "_id": 5, "policyId": 2, "revision": 3 };
        let Effect::Foreign(writes) = event("update", Some(&old), Some(&new)) else {
            panic!("unknown");
        };
        let ids: Vec<_> = writes
            .iter()
            .map(|(id, write)| (id.clone(), write.before, write.after.is_some()))
            .collect();
        assert_eq!(
            ids,
            [
                (1.into(), Before::Number(Some(3)), false),
                (2.into(), Before::Absent, true)
            ]
        );
        let none = rawdoc! { "_id": 5, "name": "x" };
        assert_eq!(event("insert", None, Some(&none)), Effect::Foreign(Vec::new()));
    }
}
