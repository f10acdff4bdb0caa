//! The counts that are not in the database yet.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mongo_patterns_core::document_id::canonical;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result};
use mongodb::bson::Bson;

/// The number of documents from which counts are flushed before the interval ends: as many as one command updates.
pub(crate) const FULL: usize = 1000;
/// The most documents with counts in memory.
const MOST: usize = 100_000;
/// How long a batch of unknown outcome is retried: for less than documents keep the numbers of batches.
const KEPT: Duration = Duration::from_secs(45 * 60);

#[derive(Debug, PartialEq)]
pub(crate) struct Count {
    pub(crate) id: Bson,
    pub(crate) count: i64,
    /// Its number in the batch. Two counts of one batch can be of one document, if the server takes two ids for one.
    pub(crate) place: i64,
    /// Since when an earlier command may have added it.
    pub(crate) unknown_since: Option<Instant>,
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
        let (place, unknown_since) = (0, None);
        self.0.insert(
            text,
            Count {
                id,
                count,
                place,
                unknown_since,
            },
        );
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
}

impl Batch {
    /// Begins the next batch, if this one is done.
    pub(crate) fn next(&mut self, pending: &mut Pending) {
        if self.counts.is_empty() {
            self.number += 1;
            self.counts = pending.take();
        }
    }

    /// Notes that the last counts are sent, and returns since when the outcome of each was unknown before. From here on, a
    /// flush can be dropped.
    pub(crate) fn begin(&mut self, from: usize, now: Instant) -> Vec<Option<Instant>> {
        let mark = |count: &mut Count| {
            let before = count.unknown_since;
            count.unknown_since = before.or(Some(now));
            before
        };
        self.counts[from..].iter_mut().map(mark).collect()
    }

    /// Notes that the command had no effect.
    pub(crate) fn undo(&mut self, from: usize, before: &[Option<Instant>]) {
        for (count, before) in self.counts[from..].iter_mut().zip(before) {
            count.unknown_since = *before;
        }
    }

    /// Removes the last counts, which were all sent. Puts back refused counts, unless an earlier command may have added
    /// them.
    pub(crate) fn settle(
        &mut self,
        from: usize,
        before: &[Option<Instant>],
        pending: &mut Pending,
        outcome: impl Fn(usize) -> Outcome,
    ) {
        let sent = self.counts.split_off(from);
        for (index, mut count) in sent.into_iter().enumerate() {
            let before = before[index];
            match outcome(index) {
                Outcome::Added => {}
                Outcome::Unknown => self.counts.push(count),
                Outcome::Failed => {
                    count.unknown_since = before;
                    self.counts.push(count);
                }
                Outcome::Refused if before.is_some() => {}
                Outcome::Refused => pending.put_back(count),
            }
        }
    }

    /// Drops the counts whose outcome is unknown for longer than documents keep the number of the batch. Returns how many.
    pub(crate) fn give_up(&mut self, now: Instant) -> usize {
        let is_over = |since: Instant| now.saturating_duration_since(since) > KEPT;
        let before = self.counts.len();
        self.counts.retain(|count| !count.unknown_since.is_some_and(is_over));
        before - self.counts.len()
    }
}

/// What became of a count that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Added,
    Unknown,
    /// It was not added, and can be retried.
    Failed,
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
        batch.settle(0, &[None; 3], &mut pending, |index| outcomes[index]);
        batch.next(&mut pending);
        assert_eq!((batch.number, batch.counts.len()), (1, 1));
        batch.settle(0, &[None], &mut pending, |_| Outcome::Added);
        batch.next(&mut pending);
        let refused = Count {
            id: 1.into(),
            count: 11,
            place: 0,
            unknown_since: None,
        };
        assert_eq!((batch.number, &batch.counts), (2, &vec![refused]));
    }

    /// Returns a batch of this many counts.
    fn batch_of(counts: i32) -> (Pending, Batch) {
        let (mut pending, mut batch) = (Pending::default(), Batch::default());
        for n in 0..counts {
            pending.add(&id(n), 1).unwrap();
        }
        batch.next(&mut pending);
        (pending, batch)
    }

    #[test]
    fn a_count_of_unknown_outcome_is_given_up_before_its_number_is_forgotten_and_others_stay() {
        let (_, mut batch) = batch_of(3);
        let now = Instant::now();
        let later = now + KEPT + Duration::from_secs(1);
        // No server was found.
        let before = batch.begin(2, now);
        batch.undo(2, &before);
        assert_eq!(batch.give_up(later), 0);
        // A flush that is dropped, and another one, of the last count alone.
        batch.begin(2, now);
        let before = batch.begin(2, now + KEPT);
        batch.undo(2, &before);
        assert_eq!((batch.give_up(now + KEPT), batch.counts.len()), (0, 3));
        assert_eq!((batch.give_up(later), batch.counts.len()), (1, 2));
        assert_eq!(batch.give_up(later), 0);
    }

    /// A command of unknown outcome says nothing about the others of its batch.
    #[test]
    fn a_refused_count_is_dropped_only_if_a_command_may_have_added_it() {
        let (mut pending, mut batch) = batch_of(2);
        let now = Instant::now();
        batch.begin(1, now);
        let before = batch.begin(1, now);
        batch.settle(1, &before, &mut pending, |_| Outcome::Unknown);
        let before = batch.begin(0, now);
        batch.settle(0, &before, &mut pending, |_| Outcome::Refused);
        assert_eq!((batch.counts.len(), pending.take().len()), (0, 1));
        // One that failed is retried as if for the first time.
        let (mut pending, mut batch) = batch_of(1);
        for (outcome, left) in [(Outcome::Failed, 1), (Outcome::Refused, 0)] {
            let before = batch.begin(0, now);
            batch.settle(0, &before, &mut pending, |_| outcome);
            assert_eq!(batch.counts.len(), left);
        }
        assert_eq!(pending.take().len(), 1);
    }
}
