//! The commands that change a current document, and with it its revision.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::field::no_array;
use mongo_patterns_core::update::{DocumentUpdate, add};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::UpdateModifications;

use super::{current, number};
use crate::form::document::{Encoded, Head};
use crate::settings::Settings;

/// The document that a current document becomes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Some fields change.
    Update(DocumentUpdate),
    /// All fields except the id, the revision, the time and fields of others change.
    Replace(Document),
    /// As `Replace`, by a document that is whole.
    Restore(Document),
    /// It gets the number, the time and the mark of its deletion.
    Delete,
    /// Nothing changes: what another program changed becomes a revision.
    Nothing,
}

/// How a change sets the time of its revision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Clock {
    /// By the clock of the server, which must be after the previous time.
    Server,
    /// After the previous time, which the filter contains.
    After(Head, DateTime),
}

/// Matches the current document, if it is at the expected revision.
pub(crate) fn changeable(
    settings: &Settings,
    id: &Bson,
    expected: Option<u64>,
    change: &Change,
    clock: Clock,
) -> Document {
    let mut filter = current(settings, id);
    let (revision, time) = (settings.revision.as_str(), settings.time.as_str());
    match (clock, expected) {
        (Clock::After(head, _), _) => {
            filter.insert(revision, number(head.revision));
            filter.insert(time, head.time);
        }
        (Clock::Server, Some(expected)) => drop(filter.insert(revision, number(expected))),
        // A document without a revision is not managed.
        (Clock::Server, None) => drop(filter.insert(revision, doc! { "$gte": 1 })),
    }
    filter.insert(settings.deleted.as_str(), doc! { "$ne": true });
    if clock == Clock::Server {
        // The time of the server is after values of other types, too.
        filter.insert(time, no_array(doc! { "$type": "date" }));
    }
    if clock == Clock::Server && change.is_by_operators() {
        filter.insert("$expr", doc! { "$lt": [format!("${time}"), "$$NOW"] });
    }
    filter
}

impl Change {
    /// Returns whether the time of the server can be set, but not computed from the previous one.
    pub(crate) fn is_by_operators(&self) -> bool {
        matches!(self, Self::Update(DocumentUpdate::Operators(_)))
    }

    /// Returns whether it depends on what other repositories own in the document.
    pub(crate) fn concerns_others(&self) -> bool {
        matches!(self, Self::Replace(_) | Self::Restore(_) | Self::Delete)
    }

    /// Returns the update that applies the change, and sets the next revision, its time, and what describes the change.
    pub(crate) fn update(
        &self,
        settings: &Settings,
        clock: Clock,
        with: &Document,
        others: &Others,
    ) -> UpdateModifications {
        match self {
            Self::Update(DocumentUpdate::Operators(operators)) => {
                let mut update = operators.clone();
                let (revision, time) = (settings.revision.as_str(), settings.time.as_str());
                add(&mut update, "$inc", revision, 1);
                match clock {
                    Clock::Server => add(&mut update, "$currentDate", time, true),
                    Clock::After(_, now) => add(&mut update, "$set", time, now),
                }
                for field in settings.change_fields() {
                    match with.get(field) {
                        Some(value) => add(&mut update, "$set", field, value.clone()),
                        None => add(&mut update, "$unset", field, ""),
                    }
                }
                update.into()
            }
            Self::Update(DocumentUpdate::Pipeline(stages)) => {
                described(settings, stages.clone(), next(settings), with).into()
            }
            Self::Replace(document) => replace(settings, document, with, others).into(),
            Self::Restore(document) => replace(settings, document, with, &others.of_whole()).into(),
            Self::Nothing => vec![doc! { "$set": next(settings) }].into(),
            Self::Delete => {
                let mut own = next(settings);
                own.insert(settings.deleted.as_str(), true);
                described(settings, Vec::new(), own, with).into()
            }
        }
    }

    /// Returns the fields of the reply: the fields of the revision of a deletion. `None` for all.
    pub(crate) fn projection(&self, settings: &Settings, others: &Others) -> Option<Document> {
        let Self::Delete = self else { return None };
        let own = settings.own_fields().into_iter().map(FieldName::as_str);
        let own = own.chain([settings.id.as_str()]).chain(settings.change_fields());
        let kept = others.kept().iter().map(String::as_str);
        Some(own.chain(kept).map(|field| (field.to_owned(), 1.into())).collect())
    }
}

/// Adds the fields of the pattern, and those that describe the change, to an update.
fn described(settings: &Settings, mut stages: Vec<Document>, mut own: Document, with: &Document) -> Vec<Document> {
    own.extend(literals(with));
    stages.push(doc! { "$set": own });
    let fields = settings.change_fields();
    let absent: Vec<&str> = fields.filter(|field| !with.contains_key(field)).collect();
    if !absent.is_empty() {
        stages.push(doc! { "$unset": absent });
    }
    stages
}

/// Replaces all fields except the ids, the revision, the time, and fields of others.
fn replace(settings: &Settings, document: &Document, with: &Document, others: &Others) -> Vec<Document> {
    let mut own = doc! { settings.id.as_str(): format!("${}", settings.id) };
    own.extend(next(settings));
    own.extend(literals(with));
    others.replace(doc! { "_id": "$_id" }, document.clone(), own)
}

/// Values as expressions.
fn literals(values: &Document) -> impl Iterator<Item = (String, Bson)> {
    let literal = |(field, value): (&String, &Bson)| (field.clone(), doc! { "$literal": value }.into());
    values.iter().map(literal)
}

/// The revision and the time after the previous ones, as expressions.
fn next(settings: &Settings) -> Document {
    let (revision, time) = (settings.revision.as_str(), settings.time.as_str());
    doc! {
        revision: { "$add": [format!("${revision}"), 1] },
        time: { "$max": [{ "$add": [format!("${time}"), 1] }, "$$NOW"] },
    }
}

/// Matches no document, so that an upsert inserts one, unless the unique index has the id.
pub(crate) fn absent(settings: &Settings, id: &Bson) -> Document {
    let mut filter = current(settings, id);
    filter.insert(settings.revision.as_str(), doc! { "$lt": 0 });
    filter
}

/// Inserts a document with the revision and a time after the newest one.
pub(crate) fn insert(
    settings: &Settings,
    Encoded { document, with, .. }: &Encoded,
    newest: Option<Head>,
) -> Vec<Document> {
    let mut own = after(settings, newest);
    own.extend(literals(with));
    let merged = vec![doc! { "$literal": document }, own];
    vec![doc! { "$replaceWith": { "$mergeObjects": merged } }]
}

/// Adds the revision and a time after the newest one to a document to insert.
pub(crate) fn numbered(
    settings: &Settings,
    Encoded { document, with, .. }: Encoded,
    newest: Option<Head>,
    now: DateTime,
) -> Document {
    let mut numbered = document;
    let revision = newest.map_or(0, |newest| newest.revision) + 1;
    numbered.insert(settings.revision.as_str(), number(revision));
    let time = newest.map_or(now, |newest| newest.next_time().max(now));
    numbered.insert(settings.time.as_str(), time);
    numbered.extend(with);
    numbered
}

/// Gives a current document the revision and a time after the newest one.
pub(crate) fn number_after(settings: &Settings, newest: Option<Head>) -> Vec<Document> {
    vec![doc! { "$set": after(settings, newest) }]
}

fn after(settings: &Settings, newest: Option<Head>) -> Document {
    let revision = number(newest.map_or(0, |newest| newest.revision) + 1);
    let time = match newest {
        Some(newest) => doc! { "$max": [newest.next_time(), "$$NOW"] }.into(),
        None => Bson::from("$$NOW"),
    };
    doc! { settings.revision.as_str(): revision, settings.time.as_str(): time }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators() -> Change {
        Change::Update(DocumentUpdate::Operators(
            doc! { "$push": { "items": "watch" }, "$inc": { "price": 2 } },
        ))
    }

    fn update(settings: &Settings, change: &Change, clock: Clock) -> UpdateModifications {
        change.update(settings, clock, &Document::new(), &Others::default())
    }

    fn head() -> Head {
        Head {
            revision: 3,
            time: DateTime::from_millis(1000),
            is_deleted: false,
        }
    }

    fn document(update: UpdateModifications) -> Document {
        match update {
            UpdateModifications::Document(update) => update,
            _ => panic!("not a document"),
        }
    }

    #[test]
    fn an_update_by_operators_is_the_manuals() {
        let settings = Settings::example();
        let update = document(update(&settings, &operators(), Clock::Server));
        let expected = doc! {
            "$push": { "items": "watch" },
            "$inc": { "price": 2, "revision": 1 },
            "$currentDate": { "dateSet": true },
        };
        assert_eq!(update, expected);
        assert_eq!(
            changeable(&settings, &Bson::Int32(1), None, &operators(), Clock::Server),
            doc! {
                "policyId": { "$eq": 1 },
                "revision": { "$gte": 1 },
                "deleted": { "$ne": true },
                "dateSet": { "$type": "date", "$not": { "$type": "array" } },
                "$expr": { "$lt": ["$dateSet", "$$NOW"] },
            }
        );
    }

    #[test]
    fn a_clock_that_went_back_is_replaced_by_the_previous_time() {
        let settings = Settings::example();
        let clock = Clock::After(head(), head().next_time());
        let update = document(update(&settings, &operators(), clock));
        let time = DateTime::from_millis(1001);
        assert_eq!(update.get_document("$set").unwrap(), &doc! { "dateSet": time });
        let filter = changeable(&settings, &Bson::Int32(1), Some(3), &operators(), clock);
        assert_eq!(filter.get_i32("revision").unwrap(), 3);
        assert_eq!(*filter.get_datetime("dateSet").unwrap(), head().time);
        assert!(!filter.contains_key("$expr"));
    }

    #[test]
    fn a_replacement_keeps_the_ids_and_is_never_an_expression() {
        let settings = Settings::example();
        let change = Change::Replace(doc! { "name": "$policyId" });
        let UpdateModifications::Pipeline(stages) = update(&settings, &change, Clock::Server) else {
            panic!("not a pipeline");
        };
        let next = doc! {
            "policyId": "$policyId",
            "revision": { "$add": ["$revision", 1] },
            "dateSet": { "$max": [{ "$add": ["$dateSet", 1] }, "$$NOW"] },
        };
        let merged = vec![
            doc! { "_id": "$_id" },
            doc! { "$literal": { "name": "$policyId" } },
            next,
        ];
        assert_eq!(stages, [doc! { "$replaceWith": { "$mergeObjects": merged } }]);
    }

    #[test]
    fn a_document_to_insert_has_the_next_revision_and_time() {
        let settings = Settings::example();
        let numbered = |newest, now: i64| {
            let encoded = Encoded {
                id: 1.into(),
                document: doc! { "_id": 5, "revision": 99, "policyId": 1, "name": "$$NOW" },
                with: doc! { "by": "ann" },
            };
            numbered(&settings, encoded, newest, DateTime::from_millis(now))
        };
        for (newest, now, revision, time) in [
            (None, 7, 1, 7),
            (Some(head()), 7, 4, 1001),
            (Some(head()), 5000, 4, 5000),
        ] {
            let time = DateTime::from_millis(time);
            assert_eq!(
                numbered(newest, now),
                doc! { "_id": 5, "revision": revision, "policyId": 1, "name": "$$NOW", "dateSet": time, "by": "ann" }
            );
        }
    }

    #[test]
    fn a_change_is_described_by_the_fields_of_its_call_alone() {
        let settings = Settings::with_change_fields();
        let with = doc! { "reason": "$price" };
        let update = |change: Change| change.update(&settings, Clock::Server, &with, &Others::default());
        let operators = document(update(operators()));
        assert_eq!(operators.get_document("$set").unwrap(), &with);
        assert_eq!(operators.get_document("$unset").unwrap(), &doc! { "changedBy": "" });
        let literal = Bson::from(doc! { "$literal": "$price" });
        let stages = |change: Change| match update(change) {
            UpdateModifications::Pipeline(stages) => stages,
            _ => panic!("not a pipeline"),
        };
        let pipeline = stages(Change::Update(DocumentUpdate::Pipeline(vec![
            doc! { "$set": { "a": 1 } },
        ])));
        assert_eq!(pipeline[1].get_document("$set").unwrap().get("reason"), Some(&literal));
        assert_eq!(pipeline[2], doc! { "$unset": ["changedBy"] });
        let deleted = stages(Change::Delete);
        assert_eq!(deleted[0].get_document("$set").unwrap().get("reason"), Some(&literal));
        assert_eq!(deleted[1], doc! { "$unset": ["changedBy"] });
        assert_eq!(stages(Change::Nothing).len(), 1);
    }

    #[test]
    fn an_insert_continues_after_the_newest_revision() {
        let settings = Settings::example();
        let own = |newest| {
            let encoded = Encoded {
                id: 1.into(),
                document: doc! { "policyId": 1 },
                with: Document::new(),
            };
            let stages = insert(&settings, &encoded, newest);
            let merged = stages[0]
                .get_document("$replaceWith")
                .unwrap()
                .get_array("$mergeObjects")
                .unwrap();
            merged[1].clone()
        };
        assert_eq!(own(None), Bson::from(doc! { "revision": 1, "dateSet": "$$NOW" }));
        let time = DateTime::from_millis(1001);
        assert_eq!(
            own(Some(head())),
            Bson::from(doc! { "revision": 4, "dateSet": { "$max": [time, "$$NOW"] } })
        );
    }
}
