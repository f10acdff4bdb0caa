//! The commands, as pure functions.

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::field::no_array;
use mongo_patterns_core::new_document::NewDocument;
use mongo_patterns_core::update::{DocumentUpdate, add};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{
    AggregateOptions, FindOneAndUpdateOptions, FindOneOptions, Hint, ReturnDocument, UpdateModifications,
};

use crate::form::AHEAD;
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
    /// All fields change, except the ids, the interval, and fields of other repositories.
    Replace(Document),
}

/// Matches all intervals of an id. By `$eq`, because an id may be a document with operators.
pub(crate) fn of_id(settings: &Settings, id: &Bson) -> Document {
    doc! { settings.id.as_str(): { "$eq": id } }
}

pub(crate) fn valid(settings: &Settings, id: &Bson) -> Document {
    let mut filter = of_id(settings, id);
    filter.insert(settings.valid.as_str(), true);
    filter
}

/// Matches the valid document to change. By type, so that it matches none that a read reports as corrupt.
pub(crate) fn changeable(settings: &Settings, id: &Bson, expected: Option<DateTime>) -> Document {
    let date = || no_array(doc! { "$type": "date" });
    let (mut filter, mut from) = (of_id(settings, id), date());
    filter.insert(settings.valid.as_str(), no_array(doc! { "$eq": true }));
    filter.insert(settings.to.as_str(), date());
    from.extend(expected.map(|expected| ("$eq".to_owned(), expected.into())));
    filter.insert(settings.from.as_str(), from);
    filter
}

/// Matches the valid document to change, if its interval begins before a time, and at the expected one.
pub(crate) fn valid_before(settings: &Settings, id: &Bson, start: DateTime, expected: Option<DateTime>) -> Document {
    let mut filter = changeable(settings, id, expected);
    if let Ok(from) = filter.get_document_mut(settings.from.as_str()) {
        from.insert("$lt", start);
    }
    filter
}

/// Whether the clock of the server is near a time.
pub(crate) fn is_now(time: DateTime) -> Document {
    doc! { "$expr": { "$lt": [{ "$abs": { "$subtract": ["$$NOW", time] } }, TOLERANCE] } }
}

impl Change {
    /// Returns the update of the valid document, whose interval then begins at this time.
    pub(crate) fn update(&self, settings: &Settings, start: DateTime, others: &Others) -> UpdateModifications {
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
                let mut own = doc! { settings.id.as_str(): format!("${}", settings.id), from: start };
                let kept = [&settings.to, &settings.valid].into_iter();
                own.extend(kept.map(|field| (field.to_string(), format!("${field}").into())));
                others.replace(doc! { "_id": "$_id" }, document.clone(), own).into()
            }
        }
    }
}

/// Matches no document, so that an upsert inserts one, unless the unique index has the id.
pub(crate) fn absent(settings: &Settings, id: &Bson) -> Document {
    let mut filter = valid(settings, id);
    filter.insert(settings.from.as_str(), doc! { "$lt": DateTime::MIN });
    filter
}

/// Inserts a document with this interval, which is marked as valid.
pub(crate) fn insert(settings: &Settings, new: &NewDocument, from: impl Into<Bson>, to: DateTime) -> Vec<Document> {
    let own = doc! {
        settings.to.as_str(): to,
        settings.valid.as_str(): true,
        settings.from.as_str(): from.into(),
    };
    let merged = vec![doc! { "$literal": &new.document }, own];
    vec![doc! { "$replaceWith": { "$mergeObjects": merged } }]
}

/// Ends the interval of the valid document at a time.
pub(crate) fn end(settings: &Settings, now: impl Into<Bson>) -> Vec<Document> {
    let next = doc! { "$add": [format!("${}", settings.from), 1] };
    let to = settings.to.as_str();
    vec![doc! { "$set": {
        to: { "$min": [format!("${to}"), { "$max": [next, now.into()] }] },
        settings.valid.as_str(): false,
    } }]
}

/// Whether the document that is marked as valid is the current one, by its times.
pub(crate) fn is_current(settings: &Settings) -> Document {
    let [from, to] = [&settings.from, &settings.to].map(|field| format!("${field}"));
    doc! { "$expr": { "$and": [{ "$lte": [from, latest()] }, { "$gt": [to, "$$NOW"] }] } }
}

/// The latest start that a clock that is ahead can have set.
fn latest() -> Document {
    doc! { "$add": ["$$NOW", AHEAD] }
}

/// Matches the intervals of an id that have begun. The newest is the current one, unless it has ended.
pub(crate) fn begun(settings: &Settings, id: &Bson) -> Document {
    let [from, valid] = [&settings.from, &settings.valid].map(|field| format!("${field}"));
    let is_ahead = doc! { "$eq": [valid, true] };
    let has_begun = vec![
        doc! { "$gt": [&from, null] },
        // A bound of the index.
        doc! { "$lte": [&from, latest()] },
        doc! { "$or": [{ "$lte": [from, "$$NOW"] }, is_ahead] },
    ];
    let mut filter = of_id(settings, id);
    filter.insert("$expr", doc! { "$and": has_begun });
    filter
}

/// The stages that return the current document of an id.
pub(crate) fn current(settings: &Settings, id: &Bson) -> [Document; 4] {
    let to = format!("${}", settings.to);
    let has_no_time = doc! { "$ne": [{ "$type": &to }, "date"] };
    [
        doc! { "$match": begun(settings, id) },
        doc! { "$sort": order(settings, true) },
        doc! { "$limit": 1 },
        doc! { "$match": { "$expr": { "$or": [{ "$gt": [to, "$$NOW"] }, has_no_time] } } },
    ]
}

/// Moves the mark of a valid document to this one.
pub(crate) fn mark(settings: &Settings, id: &Bson, document_id: &Bson) -> Vec<Document> {
    vec![
        unmark(settings, id),
        doc! { "q": of_document(settings, id, document_id), "u": { "$set": { settings.valid.as_str(): true } } },
    ]
}

/// Removes the mark from the document of an id that has it.
pub(crate) fn unmark(settings: &Settings, id: &Bson) -> Document {
    let unset = doc! { "$set": { settings.valid.as_str(): false } };
    doc! { "q": valid(settings, id), "u": unset, "hint": &settings.valid_index }
}

pub(crate) fn of_document(settings: &Settings, id: &Bson, document_id: &Bson) -> Document {
    let mut filter = of_id(settings, id);
    filter.insert("_id", doc! { "$eq": document_id });
    filter
}

/// The statements that insert a document that is marked as valid, in place of the marked one.
pub(crate) fn insert_current(settings: &Settings, new: &NewDocument, from: DateTime, to: DateTime) -> Vec<Document> {
    let (absent, inserted) = (absent(settings, &new.id), insert(settings, new, from, to));
    let upsert = doc! { "q": absent, "u": inserted, "upsert": true, "hint": &settings.valid_index };
    vec![unmark(settings, &new.id), upsert]
}

/// The statements that insert a document with an interval that the caller has chosen.
///
/// It is marked at first, whatever its interval is, because concurrent inserts into one gap conflict on the entry of the id
/// in the unique index. `kept` is the `_id` of the current document, which has the mark again afterwards.
pub(crate) fn insert_between(
    settings: &Settings,
    new: &NewDocument,
    (from, to): (DateTime, DateTime),
    kept: Option<&Bson>,
) -> Vec<Document> {
    let mut statements = insert_current(settings, new, from, to);
    match kept {
        Some(kept) => statements.extend(mark(settings, &new.id, kept)),
        None => {
            let is_current = doc! { "$and": [{ "$lte": [from, "$$NOW"] }, { "$gt": [to, "$$NOW"] }] };
            let update = vec![doc! { "$set": { settings.valid.as_str(): is_current } }];
            statements.push(doc! { "q": valid(settings, &new.id), "u": update, "hint": &settings.valid_index });
        }
    }
    statements
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

/// The fields of an interval, with the time of the server.
pub(crate) fn head_now(settings: &Settings) -> Document {
    let mut fields = head(settings);
    fields.insert(NOW, "$$NOW");
    fields
}

/// The newest interval.
pub(crate) fn find_newest(settings: &Settings, projection: Option<Document>) -> FindOneOptions {
    FindOneOptions::builder()
        .sort(order(settings, true))
        .hint(hint(&settings.start_index))
        .projection(projection)
        .build()
}

/// The first interval.
pub(crate) fn find_oldest(settings: &Settings) -> FindOneOptions {
    let mut options = find_newest(settings, Some(head(settings)));
    options.sort = Some(order(settings, false));
    options
}

/// An aggregation over the intervals of an id.
pub(crate) fn by_start(settings: &Settings) -> AggregateOptions {
    AggregateOptions::builder().hint(hint(&settings.start_index)).build()
}

/// The end of an earlier interval, which returns it as it was.
pub(crate) fn shorten(settings: &Settings) -> FindOneAndUpdateOptions {
    FindOneAndUpdateOptions::builder()
        .hint(hint(&settings.start_index))
        .return_document(ReturnDocument::Before)
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
    use mongo_patterns_core::catalog::Others;
    use mongo_patterns_core::new_document::NewDocument;
    use mongo_patterns_core::update::DocumentUpdate;
    use mongodb::bson::{Bson, DateTime, doc};
    use mongodb::options::UpdateModifications;

    use super::{Change, insert_between, unmark, valid_before};
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
            doc! {
                "item": { "$eq": { "$gt": 1 } },
                "isValid": { "$eq": true, "$not": { "$type": "array" } },
                "validTo": { "$type": "date", "$not": { "$type": "array" } },
                "validFrom": { "$type": "date", "$not": { "$type": "array" }, "$eq": time(5), "$lt": time(7) },
            }
        );
        let replaced = Change::Replace(doc! { "price": "$$NOW" });
        let replaced = replaced.update(&settings, time(7), &Others::default());
        let UpdateModifications::Pipeline(stages) = replaced else {
            panic!("not a pipeline");
        };
        let merged = vec![
            doc! { "_id": "$_id" },
            doc! { "$literal": { "price": "$$NOW" } },
            doc! { "item": "$item", "validFrom": time(7), "validTo": "$validTo", "isValid": "$isValid" },
        ];
        assert_eq!(stages, [doc! { "$replaceWith": { "$mergeObjects": merged } }]);
    }

    #[test]
    fn an_update_sets_the_start() {
        let settings = Settings::example();
        let operators = Change::Update(DocumentUpdate::Operators(doc! { "$set": { "price": 7 } }));
        let UpdateModifications::Document(update) = operators.update(&settings, time(5), &Others::default()) else {
            panic!("not a document");
        };
        assert_eq!(update, doc! { "$set": { "price": 7, "validFrom": time(5) } });
    }

    #[test]
    fn an_insert_takes_the_key_of_its_id_before_it_gives_the_mark_back() {
        let new = NewDocument {
            id: 1.into(),
            document: doc! { "item": 1 },
        };
        let settings = Settings::example();
        for (kept, expected) in [(None, 3), (Some(Bson::from(7)), 4)] {
            let statements = insert_between(&settings, &new, (time(5), time(9)), kept.as_ref());
            assert_eq!(statements.len(), expected);
            assert_eq!(statements[0], unmark(&settings, &new.id));
            let own = doc! { "validTo": time(9), "isValid": true, "validFrom": time(5) };
            let merged = vec![doc! { "$literal": { "item": 1 } }, own];
            let inserted = Bson::from(doc! { "$replaceWith": { "$mergeObjects": merged } });
            assert_eq!(statements[1].get_array("u").unwrap(), &[inserted]);
        }
    }
}
