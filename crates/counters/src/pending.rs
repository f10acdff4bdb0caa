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
    /// Its number in the batch. Two counts of one batch can be of one document: the server can take two ids for one, by the
    /// values of numbers or by the collation of the collection.
    pub(crate) place: i64,
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
    fn put_back(&mut self, Count { id, count, .. }: Count) {
        let text = canonical(&id);
        match self.0.get_mut(&text) {
            Some(known) => known.count = known.count.saturating_add(count),
            None => self.put(text, id, count),
        }
    }

    fn put(&mut self, text: String, id: Bson, count: i64) {
        let place = 0;
        self.0.insert(text, Count { id, count, place });
    }

    fn take(&mut self) -> Vec<Count> {
        let counts = std::mem::take(&mut self.0).into_values();
        let counts = counts.filter(|count| count.count != 0).zip(0..);
        counts.map(|(count, place)| Count { place, ..count }).collect()
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
    /// Since when the outcome of one of them is unknown.
    unknown_since: Option<Instant>,
}

impl Batch {
    /// Begins the next batch, if this one is done.
    pub(crate) fn next(&mut self, pending: &mut Pending) {
        if self.counts.is_empty() {
            self.number += 1;
            self.counts = pending.take();
            self.unknown_since = None;
        }
    }

    /// Removes the last counts, all of which were sent, but for those to retry. Puts back those that were refused, unless an
    /// earlier attempt may have added them: these are dropped.
    pub(crate) fn settle(
        &mut self,
        from: usize,
        may_be_added: bool,
        pending: &mut Pending,
        outcome: impl Fn(usize) -> Outcome,
    ) {
        let sent = self.counts.split_off(from);
        for (index, count) in sent.into_iter().enumerate() {
            match outcome(index) {
                Outcome::Added => {}
                Outcome::Unknown => self.counts.push(count),
                Outcome::Refused if may_be_added => {}
                Outcome::Refused => pending.put_back(count),
            }
        }
    }

    /// Notes that it is sent, and returns since when its outcome was unknown before. A flush can be dropped from here on.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<Instant> {
        let before = self.unknown_since;
        self.unknown_since = before.or(Some(now));
        before
    }

    /// Notes that the outcome of what was sent is known.
    pub(crate) fn end(&mut self, before: Option<Instant>) {
        self.unknown_since = before;
    }

    /// Drops the batch after the time for which documents are sure to have its number. Returns whether it did.
    pub(crate) fn is_given_up(&mut self, now: Instant) -> bool {
        let since = self.unknown_since;
        let is_over = since.is_some_and(|since| now.saturating_duration_since(since) > KEPT);
        if is_over {
            self.counts.clear();
            self.unknown_since = None;
        }
        is_over
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
        let expected = [(Bson::from(1), 6), ("1".into(), 5)];
        let counts: Vec<_> = counts.into_iter().map(|count| (count.id, count.count)).collect();
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
        batch.settle(0, false, &mut pending, |index| outcomes[index]);
        batch.next(&mut pending);
        assert_eq!((batch.number, batch.counts.len()), (1, 1));
        batch.settle(0, false, &mut pending, |_| Outcome::Added);
        batch.next(&mut pending);
        let refused = Count {
            id: 1.into(),
            count: 11,
            place: 0,
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
        // No server was found.
        let before = batch.begin(now);
        batch.end(before);
        assert!(!batch.is_given_up(later));
        // A flush that is dropped, and another one.
        batch.begin(now);
        let before = batch.begin(now + KEPT);
        batch.end(before);
        assert!(!batch.is_given_up(now + KEPT) && batch.counts.len() == 1);
        assert!(batch.is_given_up(later) && batch.counts.is_empty());
        assert!(!batch.is_given_up(later));
    }

    #[test]
    fn a_refused_count_that_may_be_added_is_dropped() {
        for (may_be_added, expected) in [(false, 1), (true, 0)] {
            let (mut pending, mut batch) = (Pending::default(), Batch::default());
            pending.add(&id(1), 1).unwrap();
            batch.next(&mut pending);
            batch.settle(0, may_be_added, &mut pending, |_| Outcome::Refused);
            assert_eq!(pending.take().len(), expected);
        }
    }
}
