//! What the transactions read.

use super::super::documents::{Documents, END, Interval};
use super::{Change, Ended, Next, TOLERANCE, Write};

impl Write {
    /// Reads the interval to change or to end.
    pub(super) fn read(&mut self, documents: &mut Documents, me: usize) -> Next {
        let (snapshot, now) = (self.snapshot.clone(), documents.now);
        let is_expected = |one: &Interval| !matches!(self.change, Change::Update(Some(start)) if start != one.from);
        match self.next {
            Next::Begin(time) => {
                let is_now = now.abs_diff(time) < TOLERANCE;
                let is_in = |one: &Interval| one.from < time && time < one.to;
                match snapshot.marked().filter(|one| is_now && is_in(one) && is_expected(one)) {
                    Some(marked) => self.change_marked(documents, me, marked, time),
                    None => Next::ReadCurrent,
                }
            }
            Next::ReadCurrent => match snapshot.current() {
                None => Next::Ended(Ended::NotFound),
                Some(current) if !is_expected(&current) => Next::Ended(Ended::Mismatch),
                Some(current) => {
                    self.is_by_the_server = true;
                    change_current(current, now.max(current.from + 1))
                }
            },
            Next::BeginFrom(from) => match snapshot.at(from) {
                None => Next::Ended(Ended::NotFound),
                Some(divided) if divided.from == from => Next::Ended(Ended::Exists),
                Some(divided) if from <= now && divided.is_current(now) => change_current(divided, from),
                Some(divided) if divided.is_current(now) => mark_beside(divided, divided, from),
                Some(divided) => Next::ReadBeside(divided, from),
            },
            Next::ReadBeside(divided, from) => match snapshot.current() {
                Some(current) => mark_beside(current, divided, from),
                None => Next::Shorten(divided, from),
            },
            _ => match snapshot.current() {
                None => Next::Ended(Ended::NotFound),
                Some(current) if current.is_marked => Next::EndMarked(current, now),
                Some(current) => Next::Mark(current, now),
            },
        }
    }

    /// Reads the gap of an insert.
    pub(super) fn read_for_insert(&mut self, now: u8) -> Next {
        let snapshot = &self.snapshot;
        let chosen = match self.change {
            Change::InsertFrom(from) => Some(from),
            _ => None,
        };
        let gap = |from: u8| match (snapshot.at(from), snapshot.current()) {
            (Some(_), _) => Next::Ended(Ended::Exists),
            (None, Some(_)) if chosen.is_none() => Next::Ended(Ended::Exists),
            _ if chosen.is_some() && snapshot.newest().is_some() => Next::ReadMarked(from, snapshot.next_start(from)),
            _ => Next::Upsert(from, snapshot.next_start(from)),
        };
        match self.next {
            Next::BeginInsert => match snapshot.newest() {
                None => Next::Upsert(chosen.unwrap_or(now), END),
                Some(newest) => {
                    // It was ended by a clock that was ahead.
                    let is_ahead = !newest.is_marked && newest.to != END && newest.to > now;
                    let from = chosen.unwrap_or(if is_ahead { newest.to } else { now });
                    match newest.from <= from {
                        true => gap(from),
                        false => Next::ReadAdjacent(from),
                    }
                }
            },
            Next::ReadAdjacent(from) => gap(from),
            Next::ReadMarked(from, to) => Next::Upsert(from, to),
            next => next,
        }
    }
}

fn change_current(current: Interval, from: u8) -> Next {
    match current {
        _ if from >= current.to => Next::Ended(Ended::Exists),
        current if current.is_marked => Next::Update(current, from),
        current => Next::Mark(current, from),
    }
}

/// Divides a document, after the current one has the mark.
fn mark_beside(current: Interval, divided: Interval, from: u8) -> Next {
    match current.is_marked {
        true => Next::Shorten(divided, from),
        false => Next::MarkBeside(current, divided, from),
    }
}
