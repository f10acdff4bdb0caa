//! The counts that are not in the database yet.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result};
use mongodb::bson::Bson;

/// The number of documents from which counts are flushed before the interval ends: those of one command.
pub(crate) const FULL: usize = 1000;
/// The most documents with counts in memory.
const MOST: usize = 100_000;
/// How long a batch of unknown outcome is retried: for less than documents keep the numbers of batches.
const KEPT: Duration = Duration::from_secs(45 * 60);

/// A count of one document.
#[derive(Debug, PartialEq)]
pub(crate) struct Count {
    pub(crate) id: Bson,
    pub(crate) count: i64,
}

/// What was counted since the last batch, by the text of the id.
#[derive(Debug, Default)]
pub(crate) struct Pending(HashMap<String, Count>);

impl Pending {
    /// Adds a count. Returns whether this makes it full.
    pub(crate) fn add(&mut self, id: &DocumentId, count: i64) -> Result<bool> {
        let (text, id) = (canonical(id.value()), id.value());
        if let Some(known) = self.0.get_mut(&text) {
            let sum = known.count.checked_add(count);
            known.count = sum.ok_or_else(too_large)?;
            return Ok(false);
        }
        if self.0.len() >= MOST {
            return Err(Error::new(
                ErrorKind::LimitReached,
                "the counts of 100,000 documents wait for a flush, this one was not added: keep run() running, and see the error that it ended with",
            ));
        }
        self.put(text, id.clone(), count);
        Ok(self.0.len() == FULL)
    }

    /// Adds what a batch did not add to its document.
    fn put_back(&mut self, Count { id, count }: Count) {
        let text = canonical(&id);
        match self.0.get_mut(&text) {
            Some(known) => known.count = known.count.saturating_add(count),
            None => self.put(text, id, count),
        }
    }

    fn put(&mut self, text: String, id: Bson, count: i64) {
        self.0.insert(text, Count { id, count });
    }

    fn take(&mut self) -> Vec<Count> {
        let counts = std::mem::take(&mut self.0).into_values();
        counts.filter(|count| count.count != 0).collect()
    }
}

fn too_large() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "the sum of the counts exceeds 64 bits, this one was not added: pass a smaller one",
    )
}

/// The batch that is sent. It keeps its number until the outcome of each of its counts is known.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) number: i64,
    /// The counts that are not known to be added.
    pub(crate) counts: Vec<Count>,
    /// Since when the outcome of one of them is unknown, and the last error.
    unknown: Option<(Instant, Error)>,
}

impl Batch {
    /// Begins the next batch, if this one is done.
    pub(crate) fn next(&mut self, pending: &mut Pending) {
        if self.counts.is_empty() {
            self.number += 1;
            self.counts = pending.take();
            self.unknown = None;
        }
    }

    /// Removes the last counts, all of which were sent, but for those to retry. Puts back those that were
    /// refused.
    pub(crate) fn settle(&mut self, from: usize, pending: &mut Pending, outcome: impl Fn(usize) -> Outcome) {
        let sent = self.counts.split_off(from);
        for (index, count) in sent.into_iter().enumerate() {
            match outcome(index) {
                Outcome::Added => {}
                Outcome::Unknown => self.counts.push(count),
                Outcome::Refused => pending.put_back(count),
            }
        }
    }

    /// Notes that the outcome of a count is unknown.
    pub(crate) fn note_unknown(&mut self, error: &Error, now: Instant) {
        let since = self.unknown.take().map_or(now, |(since, _)| since);
        self.unknown = Some((since, error.clone()));
    }

    /// Drops the batch after the time for which documents are sure to have its number, and returns the last error.
    pub(crate) fn give_up(&mut self, now: Instant) -> Option<Error> {
        let is_over = |unknown: &mut (Instant, Error)| now.saturating_duration_since(unknown.0) > KEPT;
        let (_, error) = self.unknown.take_if(is_over)?;
        self.counts.clear();
        Some(error.with_text(
            "the outcome of a batch was unknown for 45 minutes, its counts are dropped, because they could be added twice: see as_driver_error() for the reason",
        ))
    }
}

/// What became of a count that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Added,
    Unknown,
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: impl Into<Bson>) -> DocumentId {
        DocumentId::new(id.into()).unwrap()
    }

    #[test]
    fn counts_of_equal_ids_are_one() {
        let mut pending = Pending::default();
        for equal in [Bson::from(1), 1_i64.into(), 1.0.into()] {
            pending.add(&id(equal), 2).unwrap();
        }
        pending.add(&id("1"), 5).unwrap();
        pending.add(&id("gone"), 5).unwrap();
        pending.add(&id("gone"), -5).unwrap();
        let mut counts = pending.take();
        counts.sort_by_key(|count| count.count);
        let expected = [(Bson::from(1), 6), ("1".into(), 5)].map(|(id, count)| Count { id, count });
        assert_eq!(counts.iter().map(|count| count.count).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(counts, expected.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_sum_and_the_number_of_documents_have_bounds() {
        let mut pending = Pending::default();
        pending.add(&id(0), i64::MAX).unwrap();
        let error = pending.add(&id(0), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let filled: Vec<i64> = (1..100_000).filter(|n| pending.add(&id(*n), 1).unwrap()).collect();
        assert_eq!(filled, [999]);
        assert_eq!(
            pending.add(&id("one more"), 1).unwrap_err().kind(),
            ErrorKind::LimitReached
        );
        assert!(!pending.add(&id(7), 1).unwrap());
    }

    #[test]
    fn a_batch_keeps_its_number_until_each_outcome_is_known() {
        let (mut pending, mut batch) = (Pending::default(), Batch::default());
        for n in 0..3 {
            pending.add(&id(n), 1).unwrap();
        }
        batch.next(&mut pending);
        batch.counts.sort_by_key(|count| count.id.as_i32());
        pending.add(&id(1), 10).unwrap();
        let outcomes = [Outcome::Added, Outcome::Refused, Outcome::Unknown];
        batch.settle(0, &mut pending, |index| outcomes[index]);
        batch.next(&mut pending);
        assert_eq!((batch.number, batch.counts.len()), (1, 1));
        batch.settle(0, &mut pending, |_| Outcome::Added);
        batch.next(&mut pending);
        let refused = Count {
            id: 1.into(),
            count: 11,
        };
        assert_eq!((batch.number, &batch.counts), (2, &vec![refused]));
    }

    #[test]
    fn a_batch_of_unknown_outcome_is_given_up_before_its_number_is_forgotten() {
        let (mut pending, mut batch) = (Pending::default(), Batch::default());
        pending.add(&id(1), 1).unwrap();
        batch.next(&mut pending);
        let now = Instant::now();
        let later = now + KEPT + Duration::from_secs(1);
        assert!(batch.give_up(later).is_none());
        let error = Error::new(ErrorKind::Network, "the connection broke");
        batch.note_unknown(&error, now);
        batch.note_unknown(&error, now + KEPT);
        assert!(batch.give_up(now + KEPT).is_none() && batch.counts.len() == 1);
        let error = batch.give_up(later).unwrap();
        assert!(
            error.is_outcome_unknown() && error.to_string().contains("45 minutes"),
            "{error}"
        );
        assert!(batch.counts.is_empty() && batch.give_up(later).is_none());
    }
}
