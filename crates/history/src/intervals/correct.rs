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

use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::stored::{id_of, value};

use super::finding::Problem;
use super::form::{BEGIN, END, Times, after};
use super::settings::Settings;
use crate::prelude::*;

/// A field as it is stored: missing, of the type that it must have, or of another one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stored<T> {
    Missing,
    Value(T),
    Invalid,
}

impl<T> Stored<T> {
    fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing | Self::Invalid => None,
        }
    }

    fn of(stored: Option<Bson>, value: impl Fn(&Bson) -> Option<T>) -> Self {
        match stored {
            None | Some(Bson::Null) => Self::Missing,
            Some(stored) => value(&stored).map_or(Self::Invalid, Self::Value),
        }
    }
}

/// A stored interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    /// The `_id` of its document.
    pub(crate) document_id: Bson,
    /// The id; null if it has none.
    pub(crate) id: Bson,
    from: Stored<DateTime>,
    to: Stored<DateTime>,
    valid: Stored<bool>,
}

impl Given {
    pub(crate) fn of(settings: &Settings, document: &RawDocument) -> Self {
        let time = |field| Stored::of(value(document, field), |value| value.as_datetime().copied());
        Self {
            document_id: id_of(document),
            id: value(document, &settings.id).unwrap_or(Bson::Null),
            from: time(&settings.from),
            to: time(&settings.to),
            valid: Stored::of(value(document, &settings.valid), Bson::as_bool),
        }
    }

    /// Returns whether two documents have the same id.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        canonical(&self.id) == canonical(&other.id)
    }

    fn start(&self) -> DateTime {
        self.from.value().unwrap_or(BEGIN)
    }

    fn is_invalid(&self) -> bool {
        DocumentId::new(self.id.clone()).is_err()
            || self.valid == Stored::Invalid
            || [self.from, self.to].contains(&Stored::Invalid)
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
pub(crate) fn problems(given: &[Given]) -> Vec<(&Given, Problem)> {
    let mut found = Vec::new();
    let mut previous: Option<Times> = None;
    let valid: Vec<&Given> = given.iter().filter(|one| one.valid == Stored::Value(true)).collect();
    if let [_, .., last] = valid[..] {
        let documents = valid.len() as u64;
        found.push((last, Problem::SeveralValid { documents }));
    }
    for one in in_order(given) {
        let Some(times) = one.times() else {
            found.push((
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
            found.push((one, Problem::Invalid));
        }
        if previous.is_some_and(|previous| times.from < previous.to.max(after(previous.from))) {
            found.push((one, Problem::Overlap));
        }
        if times.to <= times.from {
            found.push((one, Problem::Reversed));
        }
        match (times.is_valid, times.to >= END) {
            (true, false) => found.push((one, Problem::ValidEnds)),
            (false, true) => found.push((one, Problem::EndMissing)),
            _ => {}
        }
        previous = Some(times);
    }
    found
}

/// Returns the intervals in the order of their starts.
fn in_order(given: &[Given]) -> Vec<&Given> {
    let mut sorted: Vec<&Given> = given.iter().collect();
    sorted.sort_by_cached_key(|one| (one.start(), document_id::bytes(&one.document_id)));
    sorted
}

/// Returns whether a document is valid, as one without an interval is.
fn is_valid(one: &Given) -> bool {
    one.valid != Stored::Value(false)
}

/// Returns the intervals as they must be, from the first to the last.
fn corrected(given: &[Given]) -> Vec<(&Given, Times)> {
    let mut order = in_order(given);
    let valid = order.iter().rposition(|one| is_valid(one));
    if let Some(valid) = valid {
        let last = order.remove(valid);
        order.push(last);
    }
    let mut done: Vec<(&Given, Times)> = Vec::with_capacity(order.len());
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
fn wrong(given: &[Given]) -> Vec<(&Given, Times)> {
    let mut wrong = corrected(given);
    wrong.retain(|(one, times)| one.times() != Some(*times));
    wrong.reverse();
    if given.iter().any(is_valid) {
        wrong.sort_by_key(|(_, times)| times.is_valid);
    }
    wrong
}

/// Returns the update statements that correct the intervals of one id.
pub(crate) fn corrections(settings: &Settings, given: &[Given]) -> Vec<Document> {
    let statement = |(one, times): (&Given, Times)| {
        // Unless another client has changed it since. Null matches a missing field too.
        let mut filter = doc! { "_id": { "$eq": &one.document_id }, settings.id.as_str(): { "$eq": &one.id } };
        filter.insert(settings.from.as_str(), one.from.value());
        filter.insert(settings.to.as_str(), one.to.value());
        filter.insert(settings.valid.as_str(), one.valid.value());
        doc! { "q": filter, "u": { "$set": times.fields(settings) } }
    };
    wrong(given).into_iter().map(statement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> DateTime {
        DateTime::from_millis(millis)
    }

    fn given(number: i32, from: Option<DateTime>, to: Option<DateTime>, valid: Option<bool>) -> Given {
        Given {
            document_id: number.into(),
            id: "pants".into(),
            from: from.map_or(Stored::Missing, Stored::Value),
            to: to.map_or(Stored::Missing, Stored::Value),
            valid: valid.map_or(Stored::Missing, Stored::Value),
        }
    }

    /// Stores the first corrections.
    fn written(before: &[Given], documents: usize) -> Vec<Given> {
        let mut after = before.to_vec();
        for (one, times) in wrong(before).into_iter().take(documents) {
            let place = after.iter_mut().find(|other| other.document_id == one.document_id);
            let place = place.unwrap();
            place.from = Stored::Value(times.from);
            place.to = Stored::Value(times.to);
            place.valid = Stored::Value(times.is_valid);
        }
        after
    }

    fn times(given: &[Given]) -> Vec<(i64, i64, bool)> {
        let millis = |time: DateTime| time.timestamp_millis();
        let times = corrected(given).into_iter();
        times
            .map(|(_, times)| (millis(times.from), millis(times.to), times.is_valid))
            .collect()
    }

    /// Every fifth group of three documents, of all combinations of fields.
    #[test]
    fn a_correction_leaves_no_problem_and_can_be_interrupted() {
        let starts = [None, Some(at(5)), Some(at(6))];
        let ends = [None, Some(at(4)), Some(at(7)), Some(END)];
        let valid = [None, Some(false), Some(true)];
        let mut all = Vec::new();
        for from in starts {
            for to in ends {
                all.extend(valid.map(|valid| (from, to, valid)));
            }
        }
        let one = |number: i32, choice: usize| given(number, all[choice].0, all[choice].1, all[choice].2);
        for choices in (0..all.len().pow(3)).step_by(5) {
            let before: Vec<Given> = (0..3_u32)
                .map(|n| one(n as i32, choices / all.len().pow(n) % all.len()))
                .collect();
            let done = written(&before, 3);
            assert_eq!(problems(&done), [], "{before:?}");
            let expected = times(&before);
            assert!(expected[..2].iter().all(|(_, _, is_valid)| !is_valid), "{before:?}");
            let valid = |given: &[Given]| given.iter().filter(|one| one.valid == Stored::Value(true)).count();
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
        let valid = |n: i32| given(n, Some(at(i64::from(n))), Some(END), Some(true));
        let before = [
            given(0, Some(BEGIN), Some(at(3)), Some(false)),
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
            given(0, Some(BEGIN), Some(at(10)), Some(false)),
            given(1, Some(at(10)), Some(at(5)), Some(false)),
            given(2, Some(at(5)), Some(END), Some(true)),
        ];
        let (begin, end) = (BEGIN.timestamp_millis(), END.timestamp_millis());
        assert_eq!(times(&before), [(begin, 10, false), (10, 11, false), (11, end, true)]);
    }

    #[test]
    fn gaps_stay() {
        let before = [
            given(0, Some(at(5)), Some(at(7)), Some(false)),
            given(1, Some(at(9)), Some(at(11)), Some(false)),
        ];
        assert_eq!(problems(&before), []);
        assert_eq!(corrections(&Settings::example(), &before), []);
    }
}
