//! The commands, filters, updates and aggregations, as pure functions.

pub(crate) mod change;
pub(crate) mod follow;
pub(crate) mod migrate;
pub(crate) mod options;
pub(crate) mod scan;
pub(crate) mod validator;

use mongo_patterns_core::document_id;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::form::document::Head;
use crate::settings::Settings;

/// Matches a current document. By `$eq`, because an id may be a document with operators.
pub(crate) fn current(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.id.as_str(): { "$eq": id } }
}

pub(crate) fn revisions(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.document_id.as_str(): { "$eq": id } }
}

/// The fields that name the newest revision of each of some documents.
pub(crate) fn newest_of(settings: &Settings, ids: &[Bson]) -> Vec<Document> {
    let id = settings.document_id.as_str();
    vec![
        doc! { "$match": document_id::with_ids(id, ids) },
        doc! { "$sort": { id: -1, settings.revision.as_str(): -1 } },
        doc! { "$group": { "_id": format!("${id}"), "newest": { "$first": "$$ROOT" } } },
        doc! { "$replaceWith": "$newest" },
        doc! { "$project": head(settings) },
    ]
}

/// Returns a number of a revision as it is stored.
pub(crate) fn number(revision: u64) -> Bson {
    let revision = i64::try_from(revision).unwrap_or(i64::MAX);
    i32::try_from(revision).map_or(Bson::Int64(revision), Bson::Int32)
}

pub(crate) fn revision(settings: &Settings, id: &Bson, revision: u64) -> Document {
    let mut filter = revisions(settings, id);
    filter.insert(settings.revision.as_str(), number(revision));
    filter
}

/// Matches the revisions that were stored up to a time.
pub(crate) fn until(settings: &Settings, id: &Bson, time: DateTime) -> Document {
    let mut filter = revisions(settings, id);
    // By type, because a date is greater than every string, and an array matches by any of its elements.
    filter.insert(settings.time.as_str(), doc! { "$lte": time, "$type": "date" });
    filter
}

/// Matches the revisions after a number, or before it.
pub(crate) fn beyond(settings: &Settings, id: &Bson, revision: Option<u64>, newest_first: bool) -> Document {
    let mut filter = revisions(settings, id);
    if let Some(revision) = revision {
        let operator = if newest_first { "$lt" } else { "$gt" };
        filter.insert(settings.revision.as_str(), doc! { operator: number(revision) });
    }
    filter
}

/// Matches the current document while it is at a revision.
pub(crate) fn at_head(settings: &Settings, id: &Bson, head: Head) -> Document {
    let mut filter = current(settings, id);
    filter.insert(settings.revision.as_str(), number(head.revision));
    filter.insert(settings.time.as_str(), head.time);
    filter
}

/// The fields of a revision that name it.
pub(crate) fn head(settings: &Settings) -> Document {
    let mut fields = doc! { settings.document_id.as_str(): 1 };
    fields.extend(
        settings
            .own_fields()
            .map(|field| (field.as_str().to_owned(), Bson::Int32(1))),
    );
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_operators_is_a_value() {
        let settings = Settings::example();
        let id = Bson::from(doc! { "$gt": 1 });
        assert_eq!(current(&settings, &id), doc! { "policyId": { "$eq": { "$gt": 1 } } });
        assert_eq!(
            revision(&settings, &id, 2),
            doc! { "policyId": { "$eq": { "$gt": 1 } }, "revision": 2 }
        );
    }

    #[test]
    fn the_id_of_a_document_is_in_another_field_of_its_revisions() {
        let (settings, id) = (Settings::by_id(), Bson::Int32(1));
        assert_eq!(current(&settings, &id), doc! { "_id": { "$eq": 1 } });
        assert_eq!(
            revision(&settings, &id, 2),
            doc! { "documentId": { "$eq": 1 }, "revision": 2 }
        );
        assert_eq!(head(&settings).keys().next().unwrap(), "documentId");
        let stages = newest_of(&settings, &[id]);
        assert_eq!(stages[1], doc! { "$sort": { "documentId": -1, "revision": -1 } });
    }

    #[test]
    fn the_newest_revisions_of_documents_are_read_together() {
        let settings = Settings::example();
        let ids = [Bson::Int32(1), Bson::Int32(2)];
        let stages = newest_of(&settings, &ids);
        assert_eq!(stages[0], doc! { "$match": { "policyId": { "$in": [1, 2] } } });
        assert_eq!(stages[1], doc! { "$sort": { "policyId": -1, "revision": -1 } });
        let hostile = [Bson::Int32(1), Bson::from(doc! { "$gt": 1 })];
        assert_eq!(
            newest_of(&settings, &hostile)[0],
            doc! { "$match": { "$or": [{ "policyId": { "$eq": 1 } }, { "policyId": { "$eq": { "$gt": 1 } } }] } }
        );
    }

    #[test]
    fn a_number_is_stored_as_the_server_increments_it() {
        assert_eq!(number(7), Bson::Int32(7));
        assert_eq!(number(1 << 31), Bson::Int64(1 << 31));
        assert_eq!(number(u64::MAX), Bson::Int64(i64::MAX));
    }

    #[test]
    fn a_page_begins_after_its_position_in_either_direction() {
        let settings = Settings::example();
        let page = |position, newest_first| beyond(&settings, &Bson::Int32(1), position, newest_first);
        assert_eq!(page(None, true), doc! { "policyId": { "$eq": 1 } });
        assert_eq!(
            page(Some(5), true),
            doc! { "policyId": { "$eq": 1 }, "revision": { "$lt": 5 } }
        );
        assert_eq!(
            page(Some(5), false),
            doc! { "policyId": { "$eq": 1 }, "revision": { "$gt": 5 } }
        );
    }
}
