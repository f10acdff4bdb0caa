//! The commands, as pure functions.

use mongo_patterns_core::new_document::NewDocument;
use mongo_patterns_core::update::{DocumentUpdate, add};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{FindOneAndUpdateOptions, FindOneOptions, Hint, ReturnDocument, UpdateModifications};

use crate::form::{END, Times};
use crate::settings::Settings;

/// The most milliseconds between the time of a write and the clock of the server.
const TOLERANCE: i64 = 1000;
/// The field of a read with the time of the server.
pub(crate) const NOW: &str = "mongo_patterns_now";

/// The document that a valid document becomes.
#[derive(Debug)]
pub(crate) enum Change {
    /// Some fields change.
    Update(DocumentUpdate),
    /// All fields change, but the ids and the interval.
    Replace(Document),
}

/// Matches all intervals of an id. By `$eq`, because an id may be a document with operators.
pub(crate) fn of_id(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.id.as_str(): { "$eq": id } }
}

/// Matches the valid document of an id.
pub(crate) fn valid(settings: &Settings, id: &Bson) -> Document {
    let mut filter = of_id(settings, id);
    filter.insert(settings.valid.as_str(), true);
    filter
}

/// Matches the valid document if its interval begins before a time, and at the expected one.
pub(crate) fn valid_before(settings: &Settings, id: &Bson, start: DateTime, expected: Option<DateTime>) -> Document {
    let mut filter = valid(settings, id);
    let mut from = doc! { "$lt": start };
    from.extend(expected.map(|expected| ("$eq".to_owned(), expected.into())));
    filter.insert(settings.from.as_str(), from);
    filter
}

/// Whether the clock of the server is near a time.
pub(crate) fn is_now(time: DateTime) -> Document {
    doc! { "$expr": { "$lt": [{ "$abs": { "$subtract": ["$$NOW", time] } }, TOLERANCE] } }
}

impl Change {
    /// Returns the update of the valid document, whose interval then begins at this time.
    pub(crate) fn update(&self, settings: &Settings, start: DateTime) -> UpdateModifications {
        let from = settings.from.as_str();
        match self {
            Self::Update(DocumentUpdate::Operators(operators)) => {
                let mut update = operators.clone();
                add(&mut update, "$set", from, start);
                update.into()
            }
            Self::Update(DocumentUpdate::Pipeline(stages)) => {
                let mut stages = stages.clone();
                stages.push(doc! { "$set": { from: start } });
                stages.into()
            }
            Self::Replace(document) => {
                let mut own = doc! { settings.id.as_str(): format!("${}", settings.id) };
                let valid_now = Times {
                    from: start,
                    to: END,
                    is_valid: true,
                };
                own.extend(valid_now.fields(settings));
                let merged = vec![doc! { "_id": "$_id" }, doc! { "$literal": document }, own];
                vec![doc! { "$replaceWith": { "$mergeObjects": merged } }].into()
            }
        }
    }
}

/// Matches no document, so that an upsert inserts one, unless the unique index has the id.
pub(crate) fn absent(settings: &Settings, id: &Bson) -> Document {
    valid_before(settings, id, DateTime::MIN, None)
}

/// Inserts a document that is valid from now, and not before the end of the last one.
pub(crate) fn insert(settings: &Settings, new: &NewDocument, last: Option<DateTime>) -> Vec<Document> {
    let mut own = doc! { settings.to.as_str(): END, settings.valid.as_str(): true };
    let from = match last {
        Some(last) => doc! { "$max": [last, "$$NOW"] }.into(),
        None => Bson::from("$$NOW"),
    };
    own.insert(settings.from.as_str(), from);
    let merged = vec![doc! { "$literal": &new.document }, own];
    vec![doc! { "$replaceWith": { "$mergeObjects": merged } }]
}

/// Ends the interval of the valid document.
pub(crate) fn end(settings: &Settings) -> Vec<Document> {
    let next = doc! { "$add": [format!("${}", settings.from), 1] };
    vec![doc! { "$set": {
        settings.to.as_str(): { "$max": [next, "$$NOW"] },
        settings.valid.as_str(): false,
    } }]
}

/// Matches the intervals that begin up to a time.
pub(crate) fn until(settings: &Settings, id: &Bson, time: DateTime) -> Document {
    let mut filter = of_id(settings, id);
    // By type, because an array matches by any of its elements.
    filter.insert(settings.from.as_str(), doc! { "$lte": time, "$type": "date" });
    filter
}

/// Matches the intervals that begin after a time, or before it.
pub(crate) fn beyond(settings: &Settings, id: &Bson, time: Option<DateTime>, newest_first: bool) -> Document {
    let mut filter = of_id(settings, id);
    if let Some(time) = time {
        let operator = if newest_first { "$lt" } else { "$gt" };
        filter.insert(settings.from.as_str(), doc! { operator: time });
    }
    filter
}

/// The order of the index by start.
pub(crate) fn order(settings: &Settings, newest_first: bool) -> Document {
    let direction = if newest_first { -1 } else { 1 };
    doc! { settings.id.as_str(): direction, settings.from.as_str(): direction }
}

/// The fields of an interval.
pub(crate) fn head(settings: &Settings) -> Document {
    let fields = [&settings.id, &settings.from, &settings.to, &settings.valid].into_iter();
    fields.map(|field| (field.to_string(), Bson::Int32(1))).collect()
}

fn hint(index: &str) -> Hint {
    Hint::Name(index.to_owned())
}

pub(crate) fn find_valid(settings: &Settings) -> FindOneOptions {
    FindOneOptions::builder().hint(hint(&settings.valid_index)).build()
}

/// Only the interval, with the time of the server.
pub(crate) fn find_valid_now(settings: &Settings) -> FindOneOptions {
    let mut options = find_valid(settings);
    let mut fields = head(settings);
    fields.insert(NOW, "$$NOW");
    options.projection = Some(fields);
    options
}

/// The newest interval.
pub(crate) fn find_newest(settings: &Settings, projection: Option<Document>) -> FindOneOptions {
    FindOneOptions::builder()
        .sort(order(settings, true))
        .hint(hint(&settings.start_index))
        .projection(projection)
        .build()
}

/// A change of the valid document, or an insert, and which form of it the server returns.
pub(crate) fn change(settings: &Settings, upsert: bool, returned: ReturnDocument) -> FindOneAndUpdateOptions {
    FindOneAndUpdateOptions::builder()
        .hint(hint(&settings.valid_index))
        .upsert(upsert.then_some(true))
        .return_document(returned)
        .build()
}

#[cfg(test)]
mod tests {
    use mongo_patterns_core::new_document::NewDocument;
    use mongo_patterns_core::update::DocumentUpdate;
    use mongodb::bson::{Bson, DateTime, doc};
    use mongodb::options::UpdateModifications;

    use super::{Change, insert, valid_before};
    use crate::form::END;
    use crate::settings::Settings;

    fn time(millis: i64) -> DateTime {
        DateTime::from_millis(millis)
    }

    #[test]
    fn a_hostile_id_and_content_are_values() {
        let settings = Settings::example();
        let id = Bson::from(doc! { "$gt": 1 });
        assert_eq!(
            valid_before(&settings, &id, time(7), Some(time(5))),
            doc! { "item": { "$eq": { "$gt": 1 } }, "isValid": true, "validFrom": { "$lt": time(7), "$eq": time(5) } }
        );
        let replaced = Change::Replace(doc! { "price": "$$NOW" }).update(&settings, time(7));
        let UpdateModifications::Pipeline(stages) = replaced else {
            panic!("not a pipeline");
        };
        let merged = vec![
            doc! { "_id": "$_id" },
            doc! { "$literal": { "price": "$$NOW" } },
            doc! { "item": "$item", "validFrom": time(7), "validTo": END, "isValid": true },
        ];
        assert_eq!(stages, [doc! { "$replaceWith": { "$mergeObjects": merged } }]);
    }

    #[test]
    fn an_update_sets_the_start() {
        let settings = Settings::example();
        let operators = Change::Update(DocumentUpdate::Operators(doc! { "$set": { "price": 7 } }));
        let UpdateModifications::Document(update) = operators.update(&settings, time(5)) else {
            panic!("not a document");
        };
        assert_eq!(update, doc! { "$set": { "price": 7, "validFrom": time(5) } });
    }

    #[test]
    fn an_insert_starts_at_the_end_of_the_last_interval_or_later() {
        let new = NewDocument {
            id: 1.into(),
            document: doc! { "item": 1 },
        };
        let own = |last| {
            let stages = insert(&Settings::example(), &new, last);
            let merge = stages[0].get_document("$replaceWith").unwrap();
            merge.get_array("$mergeObjects").unwrap()[1].clone()
        };
        let expected = |from: Bson| Bson::from(doc! { "validTo": END, "isValid": true, "validFrom": from });
        assert_eq!(own(None), expected("$$NOW".into()));
        assert_eq!(own(Some(time(5))), expected(doc! { "$max": [time(5), "$$NOW"] }.into()));
    }
}
