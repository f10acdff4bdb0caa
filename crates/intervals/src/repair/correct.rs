//! The intervals of one id, as they are stored and as they must be. Pure.
//!
//! # Design
//!
//! ## Which document stays valid?
//!
//! That which is valid and began last, as a read of the valid document shows it today. Its interval begins after all others: the
//! clock of its writer can have been behind.
//!
//! ## Why can a correction be interrupted?
//!
//! The documents are written from the last one to the first, so those that are left come to the same intervals again. One that is
//! valid, which none else is then, is written at the end, because the unique index allows only one.

use mongo_patterns_core::stored::{id_of, value};

use mongo_patterns_core::{DocumentId, document_id};
use mongodb::bson::{Bson, DateTime, Document, RawDocument, doc};

use super::finding::Problem;
use crate::form::{BEGIN, END, Times, after};
use crate::settings::Settings;

/// A field as it is stored: missing, of the type that it must have, or of another one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StoredField<T> {
    Missing,
    Value(T),
    Invalid,
}

impl<T> StoredField<T> {
    fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing | Self::Invalid => None,
        }
    }

    fn read(stored: Option<Bson>, value: impl Fn(&Bson) -> Option<T>) -> Self {
        match stored {
            None | Some(Bson::Null) => Self::Missing,
            Some(stored) => value(&stored).map_or(Self::Invalid, Self::Value),
        }
    }
}

/// A stored interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredInterval {
    /// The `_id` of its document.
    pub(crate) document_id: Bson,
    /// The id; null if it has none.
    pub(crate) id: Bson,
    from: StoredField<DateTime>,
    to: StoredField<DateTime>,
    valid: StoredField<bool>,
}

impl StoredInterval {
    pub(crate) fn read(settings: &Settings, document: &RawDocument) -> Self {
        let time = |field| StoredField::read(value(document, field), |value| value.as_datetime().copied());
        Self {
            document_id: id_of(document),
            id: value(document, &settings.id).unwrap_or(Bson::Null),
            from: time(&settings.from),
            to: time(&settings.to),
            valid: StoredField::read(value(document, &settings.valid), Bson::as_bool),
        }
    }

    /// Returns whether two documents have the same id.
    pub(crate) fn has_same_id(&self, other: &Self) -> bool {
        document_id::canonical(&self.id) == document_id::canonical(&other.id)
    }

    fn start(&self) -> DateTime {
        self.from.value().unwrap_or(BEGIN)
    }

    fn is_invalid(&self) -> bool {
        DocumentId::new(self.id.clone()).is_err()
            || self.valid == StoredField::Invalid
            || [self.from, self.to].contains(&StoredField::Invalid)
    }

    /// Returns its interval, if all of its fields are stored.
    fn times(&self) -> Option<Times> {
        Some(Times {
            from: self.from.value()?,
            to: self.to.value()?,
            is_valid: self.valid.value()?,
        })
    }
}

/// Returns the problems of the intervals of one id, each with the document that has it.
pub(crate) fn problems(stored: &[StoredInterval]) -> Vec<(&StoredInterval, Problem)> {
    let mut problems = Vec::new();
    let mut previous: Option<Times> = None;
    let valid: Vec<&StoredInterval> = stored
        .iter()
        .filter(|one| one.valid == StoredField::Value(true))
        .collect();
    if let [_, .., last] = valid[..] {
        let documents = valid.len() as u64;
        problems.push((last, Problem::SeveralValid { documents }));
    }
    for one in in_order(stored) {
        let Some(times) = one.times() else {
            problems.push((
                one,
                if one.is_invalid() {
                    Problem::Invalid
                } else {
                    Problem::Missing
                },
            ));
            continue;
        };
        if one.is_invalid() {
            problems.push((one, Problem::Invalid));
        }
        if previous.is_some_and(|previous| times.from < previous.to.max(after(previous.from))) {
            problems.push((one, Problem::Overlap));
        }
        if times.to <= times.from {
            problems.push((one, Problem::Reversed));
        }
        match (times.is_valid, times.to >= END) {
            (true, false) => problems.push((one, Problem::ValidEnds)),
            (false, true) => problems.push((one, Problem::EndMissing)),
            _ => {}
        }
        previous = Some(times);
    }
    problems
}

/// Returns the intervals in the order of their starts.
fn in_order(stored: &[StoredInterval]) -> Vec<&StoredInterval> {
    let mut sorted: Vec<&StoredInterval> = stored.iter().collect();
    sorted.sort_by_cached_key(|one| (one.start(), document_id::bytes(&one.document_id)));
    sorted
}

/// Returns whether a document is valid, as one without an interval is.
fn is_valid(one: &StoredInterval) -> bool {
    one.valid != StoredField::Value(false)
}

/// Returns the intervals as they must be, from the first to the last.
fn corrected(stored: &[StoredInterval]) -> Vec<(&StoredInterval, Times)> {
    let mut order = in_order(stored);
    let valid = order.iter().rposition(|one| is_valid(one));
    if let Some(valid) = valid {
        let last = order.remove(valid);
        order.push(last);
    }
    let mut done: Vec<(&StoredInterval, Times)> = Vec::with_capacity(order.len());
    for (number, one) in order.iter().enumerate() {
        let is_last = number + 1 == order.len();
        let mut from = one.start();
        if let Some((_, previous)) = done.last_mut() {
            if from <= previous.from {
                // The end of the previous one, if only this start is wrong.
                from = match is_last && previous.to < END {
                    true => previous.to,
                    false => after(previous.from),
                };
            }
            previous.to = previous.to.min(from);
        }
        let to = one.to.value().filter(|to| *to > from && *to < END);
        let ends = one.to.value().is_some_and(|to| to < END);
        let times = match (is_last, valid.is_some() || !ends) {
            (true, true) => (END, true),
            // Its end was before its start.
            (true, false) => (to.unwrap_or(after(from)), false),
            (false, _) => (to.unwrap_or(END), false),
        };
        let (to, is_valid) = times;
        done.push((*one, Times { from, to, is_valid }));
    }
    done
}

/// Returns the documents whose interval is wrong, with the right one, in the order in which they are written.
fn wrong(stored: &[StoredInterval]) -> Vec<(&StoredInterval, Times)> {
    let mut wrong = corrected(stored);
    wrong.retain(|(one, times)| one.times() != Some(*times));
    wrong.reverse();
    if stored.iter().any(is_valid) {
        wrong.sort_by_key(|(_, times)| times.is_valid);
    }
    wrong
}

/// Returns the update statements that correct the intervals of one id.
pub(crate) fn corrections(settings: &Settings, stored: &[StoredInterval]) -> Vec<Document> {
    let statement = |(one, times): (&StoredInterval, Times)| {
        // Unless another client has changed it since. Null matches a missing field too.
        let mut filter = doc! { "_id": { "$eq": &one.document_id }, settings.id.as_str(): { "$eq": &one.id } };
        filter.insert(settings.from.as_str(), one.from.value());
        filter.insert(settings.to.as_str(), one.to.value());
        filter.insert(settings.valid.as_str(), one.valid.value());
        doc! { "q": filter, "u": { "$set": times.fields(settings) } }
    };
    wrong(stored).into_iter().map(statement).collect()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::{StoredField, StoredInterval, corrected, corrections, problems, wrong};
    use crate::form::{BEGIN, END};
    use crate::settings::Settings;

    fn time(millis: i64) -> DateTime {
        DateTime::from_millis(millis)
    }

    fn stored(number: i32, from: Option<DateTime>, to: Option<DateTime>, valid: Option<bool>) -> StoredInterval {
        StoredInterval {
            document_id: number.into(),
            id: "pants".into(),
            from: from.map_or(StoredField::Missing, StoredField::Value),
            to: to.map_or(StoredField::Missing, StoredField::Value),
            valid: valid.map_or(StoredField::Missing, StoredField::Value),
        }
    }

    /// Stores the first corrections.
    fn written(before: &[StoredInterval], documents: usize) -> Vec<StoredInterval> {
        let mut after = before.to_vec();
        for (one, times) in wrong(before).into_iter().take(documents) {
            let place = after.iter_mut().find(|other| other.document_id == one.document_id);
            let place = place.unwrap();
            place.from = StoredField::Value(times.from);
            place.to = StoredField::Value(times.to);
            place.valid = StoredField::Value(times.is_valid);
        }
        after
    }

    fn times(stored: &[StoredInterval]) -> Vec<(i64, i64, bool)> {
        let millis = |time: DateTime| time.timestamp_millis();
        let times = corrected(stored).into_iter();
        times
            .map(|(_, times)| (millis(times.from), millis(times.to), times.is_valid))
            .collect()
    }

    /// Every fifth group of three documents, of all combinations of fields.
    #[test]
    fn a_correction_leaves_no_problem_and_can_be_interrupted() {
        let starts = [None, Some(time(5)), Some(time(6))];
        let ends = [None, Some(time(4)), Some(time(7)), Some(END)];
        let valid = [None, Some(false), Some(true)];
        let mut all = Vec::new();
        for from in starts {
            for to in ends {
                all.extend(valid.map(|valid| (from, to, valid)));
            }
        }
        let one = |number: i32, choice: usize| stored(number, all[choice].0, all[choice].1, all[choice].2);
        for choices in (0..all.len().pow(3)).step_by(5) {
            let before: Vec<StoredInterval> = (0..3_u32)
                .map(|n| one(n as i32, choices / all.len().pow(n) % all.len()))
                .collect();
            let done = written(&before, 3);
            assert_eq!(problems(&done), [], "{before:?}");
            let expected = times(&before);
            assert!(expected[..2].iter().all(|(_, _, is_valid)| !is_valid), "{before:?}");
            let valid = |intervals: &[StoredInterval]| {
                intervals
                    .iter()
                    .filter(|one| one.valid == StoredField::Value(true))
                    .count()
            };
            for documents in 1..=3 {
                assert!(
                    valid(&written(&before, documents)) <= valid(&before).max(1),
                    "{before:?}"
                );
                assert_eq!(
                    times(&written(&before, documents)),
                    expected,
                    "{documents} of {before:?}"
                );
            }
            let is_correct = corrections(&Settings::example(), &before).is_empty();
            assert_eq!(problems(&before).is_empty(), is_correct, "{before:?}");
        }
    }

    #[test]
    fn what_the_manual_leaves_after_three_changes_is_corrected() {
        let valid = |n: i32| stored(n, Some(time(i64::from(n))), Some(END), Some(true));
        let before = [
            stored(0, Some(BEGIN), Some(time(3)), Some(false)),
            valid(1),
            valid(2),
            valid(3),
        ];
        let names: Vec<&str> = problems(&before).iter().map(|(_, problem)| problem.name()).collect();
        assert_eq!(names, ["SeveralValid", "Overlap", "Overlap", "Overlap"]);
        let (begin, end) = (BEGIN.timestamp_millis(), END.timestamp_millis());
        assert_eq!(
            times(&before),
            [(begin, 1, false), (1, 2, false), (2, 3, false), (3, end, true)]
        );
    }

    #[test]
    fn the_valid_document_stays_valid_although_its_writer_had_a_clock_that_is_behind() {
        let before = [
            stored(0, Some(BEGIN), Some(time(10)), Some(false)),
            stored(1, Some(time(10)), Some(time(5)), Some(false)),
            stored(2, Some(time(5)), Some(END), Some(true)),
        ];
        let (begin, end) = (BEGIN.timestamp_millis(), END.timestamp_millis());
        assert_eq!(times(&before), [(begin, 10, false), (10, 11, false), (11, end, true)]);
    }

    #[test]
    fn gaps_stay() {
        let before = [
            stored(0, Some(time(5)), Some(time(7)), Some(false)),
            stored(1, Some(time(9)), Some(time(11)), Some(false)),
        ];
        assert_eq!(problems(&before), []);
        assert_eq!(corrections(&Settings::example(), &before), []);
    }
}
