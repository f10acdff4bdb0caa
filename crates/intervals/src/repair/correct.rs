//! The intervals of one id, as they are stored and as they must be. Pure.
//!
//! # Design
//!
//! ## What is corrected?
//!
//! A field with one right value: a missing end is the start of the next interval, and the mark follows from the interval
//! now. The manual's recipe moves the end of the document from 1900-01-01 with each change: this end is the start of a later
//! document. All else is a contradiction, which is reported, and nothing of the id is changed.
//!
//! ## Why can a correction be interrupted?
//!
//! The documents are written from the last one to the first, after one without a start, so the rest come to the same
//! intervals again. The document that is marked as valid is written at the end, because the unique index allows only one.

#[cfg(test)]
mod tests;

use mongo_patterns_core::stored::{id_of, value};

use mongo_patterns_core::{DocumentId, document_id};
use mongodb::bson::{Bson, DateTime, Document, RawDocument, doc};

use super::finding::{Problem, Unrepaired};
use crate::form::{BEGIN, END, Times};
use crate::results::Corrections;
use crate::settings::Settings;

/// A field as it is stored: missing, of its type, or of another type.
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

    fn is_marked(&self) -> bool {
        self.valid == StoredField::Value(true)
    }

    /// Returns its end, unless that is the end of time.
    fn end(&self) -> Option<DateTime> {
        self.to.value().filter(|to| *to < END)
    }

    /// Returns whether none of its fields is stored.
    fn has_no_interval(&self) -> bool {
        (self.from, self.to, self.valid) == (StoredField::Missing, StoredField::Missing, StoredField::Missing)
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

/// Returns the problems of the intervals of one id at a time of the server, each with the document that has it.
pub(crate) fn problems(stored: &[StoredInterval], now: DateTime) -> Vec<(&StoredInterval, Problem)> {
    let mut problems = Vec::new();
    let mut previous: Option<Times> = None;
    let valid: Vec<&StoredInterval> = stored.iter().filter(|one| one.is_marked()).collect();
    if let [_, .., last] = valid[..] {
        let documents = valid.len() as u64;
        problems.push((last, Problem::SeveralValid { documents }));
    }
    for one in in_order(stored) {
        let times = match one.times() {
            _ if one.is_invalid() => {
                problems.push((one, Problem::Invalid));
                continue;
            }
            None => {
                problems.push((one, Problem::Missing));
                continue;
            }
            Some(times) => times,
        };
        if previous.is_some_and(|previous| times.from < previous.to || times.from == previous.from) {
            problems.push((one, Problem::Overlap));
        }
        if times.to <= times.from {
            problems.push((one, Problem::Reversed));
        }
        previous = Some(times);
    }
    match corrected(stored, now) {
        Ok(corrected) => {
            let is_outdated = |(one, times): &(&StoredInterval, Times)| {
                let stored = one.times();
                stored.is_some_and(|stored| (stored.from, stored.to) == (times.from, times.to) && stored != *times)
            };
            // Of several valid documents, one problem is enough.
            if valid.len() < 2 {
                let outdated = corrected.into_iter().filter(is_outdated);
                problems.extend(outdated.map(|(one, _)| (one, Problem::OutdatedMark)));
            }
        }
        Err((one, Unrepaired::Mark)) if problems.is_empty() => problems.push((one, Problem::ValidEnded)),
        Err(_) => {}
    }
    problems
}

/// Returns the intervals in the order of their starts.
fn in_order(stored: &[StoredInterval]) -> Vec<&StoredInterval> {
    let mut sorted: Vec<&StoredInterval> = stored.iter().collect();
    sorted.sort_by_cached_key(|one| (one.start(), document_id::bytes(&one.document_id)));
    sorted
}

/// The intervals as they must be, from the first to the last, or a document with a contradiction.
type Corrected<'a> = Result<Vec<(&'a StoredInterval, Times)>, (&'a StoredInterval, Unrepaired)>;

/// Returns the intervals of one id as they must be at a time of the server.
fn corrected(stored: &[StoredInterval], now: DateTime) -> Corrected<'_> {
    let order = with_starts(stored, now)?;
    let mut done: Vec<(&StoredInterval, Times)> = Vec::with_capacity(order.len());
    for (number, (from, one)) in order.iter().enumerate() {
        let next = order.get(number + 1).map(|(next, _)| *next);
        let to = match (one.end(), next) {
            (Some(end), Some(next)) if end > next => {
                let is_of_recipe = one.from == StoredField::Value(BEGIN)
                    && !one.is_marked()
                    && order.iter().any(|(_, later)| later.from.value() == Some(end));
                if !is_of_recipe {
                    return Err((one, Unrepaired::Overlap));
                }
                next
            }
            (Some(end), _) => end,
            (None, Some(next)) => next,
            (None, None) if one.valid == StoredField::Value(false) && one.to == StoredField::Missing => {
                return Err((one, Unrepaired::EndMissing));
            }
            (None, None) => one.to.value().unwrap_or(END),
        };
        if to <= *from {
            return Err((one, Unrepaired::Reversed));
        }
        let (from, is_valid) = (*from, one.is_marked());
        done.push((one, Times { from, to, is_valid }));
    }
    let ahead = |times: &Times| times.is_valid && times.from > now && times.is_current(now);
    let current = done.iter().rposition(|(_, times)| ahead(times));
    let current = current.or_else(|| done.iter().rposition(|(_, times)| times.contains(now)));
    check_marks(&done, current, now)?;
    for (number, (_, times)) in done.iter_mut().enumerate() {
        times.is_valid = Some(number) == current;
    }
    Ok(done)
}

/// Returns the intervals in the order of their starts. One document can have no start.
fn with_starts(
    stored: &[StoredInterval],
    now: DateTime,
) -> Result<Vec<(DateTime, &StoredInterval)>, (&StoredInterval, Unrepaired)> {
    let order = in_order(stored);
    if let Some(invalid) = order.iter().find(|one| one.is_invalid()) {
        return Err((invalid, Unrepaired::Invalid));
    }
    let mut without = order.iter().filter(|one| one.from == StoredField::Missing);
    if let (Some(_), Some(second)) = (without.next(), without.next()) {
        return Err((second, Unrepaired::SameStart));
    }
    let mut starts: Vec<(DateTime, &StoredInterval)> = order.into_iter().map(|one| (one.start(), one)).collect();
    // Inserted by another program after all others have ended. Otherwise it is the first one, before a change by the recipe.
    let ends = starts
        .iter()
        .filter(|(_, one)| !one.has_no_interval())
        .map(|(_, one)| one.end());
    let last = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max());
    let last = last.filter(|last| *last <= now && starts.iter().all(|(from, _)| from < last));
    if let (Some(last), [(from, first), ..]) = (last, &mut starts[..])
        && first.has_no_interval()
    {
        *from = last;
        starts.rotate_left(1);
    }
    match starts.windows(2).find(|two| two[0].0 == two[1].0) {
        Some(two) => Err((two[1].1, Unrepaired::SameStart)),
        None => Ok(starts),
    }
}

/// Refuses a mark that contradicts the times, unless a scheduled interval has begun since, or begins later.
fn check_marks<'a>(
    done: &[(&'a StoredInterval, Times)],
    current: Option<usize>,
    now: DateTime,
) -> Result<(), (&'a StoredInterval, Unrepaired)> {
    if current.is_some_and(|current| done[current].0.is_marked()) {
        return Ok(());
    }
    let contradicts = |(one, times): &&(&StoredInterval, Times)| {
        let is_over = one.is_marked() && times.to <= now;
        is_over && (current.is_none() || one.end().is_none())
    };
    match done.iter().find(contradicts) {
        Some((one, _)) => Err((one, Unrepaired::Mark)),
        None => Ok(()),
    }
}

/// Returns the documents whose interval is wrong, with the right one, in the order in which they are written.
fn wrong(corrected: Vec<(&StoredInterval, Times)>) -> Vec<(&StoredInterval, Times)> {
    let mut wrong = corrected;
    wrong.retain(|(one, times)| one.times() != Some(*times));
    wrong.reverse();
    // Stable. The one without a start is first, because its start depends on the ends of the others.
    wrong.sort_by_key(|(one, times)| (times.is_valid, one.from != StoredField::Missing));
    wrong
}

/// Returns the update statements that correct the intervals of one id, and counts what they correct.
pub(crate) fn corrections<'a>(
    settings: &Settings,
    stored: &'a [StoredInterval],
    now: DateTime,
    count: &mut Corrections,
) -> Result<Vec<Document>, (&'a StoredInterval, Unrepaired)> {
    let statement = |(one, times): (&StoredInterval, Times)| {
        count.starts += u64::from(one.from.value() != Some(times.from));
        count.ends += u64::from(one.to.value() != Some(times.to));
        count.marks += u64::from(one.valid.value() != Some(times.is_valid));
        // Unless another client has changed it since. Null matches a missing field too.
        let mut filter = doc! { "_id": { "$eq": &one.document_id }, settings.id.as_str(): { "$eq": &one.id } };
        filter.insert(settings.from.as_str(), one.from.value());
        filter.insert(settings.to.as_str(), one.to.value());
        filter.insert(settings.valid.as_str(), one.valid.value());
        doc! { "q": filter, "u": { "$set": times.fields(settings) } }
    };
    Ok(wrong(corrected(stored, now)?).into_iter().map(statement).collect())
}
