//! The intervals pattern: documents with the intervals in which they are valid.
//!
//! Mirrors `write` and `query` of `crates/intervals/src`: what each command matches and changes, and what a transaction
//! writes.
//!
//! The model has one id. The server's clock advances with each write. Each client has a clock of its own, which is
//! ahead or behind, and takes its time before it sends a command. Left out: sessions, lanes, and damage by other programs.

mod documents;
#[cfg(test)]
mod tests;
pub mod write;

use stateright::Property;

use crate::world::{Protocol, Ran, State, World};
pub use documents::{Documents, Form, Interval};
use write::{Change, Ended, Write};

/// The documents of an id, and clients that write them.
#[derive(Clone, Debug)]
pub struct Intervals {
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Write>)>,
}

/// A state of the model.
type Moment = State<Documents, Write>;

impl Protocol for Intervals {
    type Documents = Documents;
    type Client = Write;

    fn starts(&self) -> Vec<(Documents, Vec<Write>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Write) -> Ran {
        client.run(documents, me)
    }

    fn has_ended(&self, client: &Write) -> bool {
        client.ended().is_some()
    }

    fn sends(&self, before: &Write, after: &Write) -> Vec<&'static str> {
        before.sends(after)
    }

    fn may_run_late(&self, client: &Write) -> bool {
        client.writes()
    }

    fn unknown(&self, client: &Write) -> Write {
        client.unknown()
    }

    fn properties() -> Vec<Property<World<Self>>> {
        let mut properties = invariants();
        properties.extend(situations());
        properties
    }
}

fn invariants() -> Vec<Property<World<Intervals>>> {
    vec![
        Property::always("at most one document is valid", |_, state: &Moment| {
            let valid = state.documents.intervals.iter().filter(|one| one.is_marked);
            valid.count() <= 1
        }),
        Property::always("intervals do not overlap", |_, state: &Moment| {
            let intervals = &state.documents.intervals;
            intervals.iter().all(|one| one.from < one.to) && intervals.windows(2).all(|two| two[0].to <= two[1].from)
        }),
        Property::always("a gap follows an end", |_, state: &Moment| {
            let intervals = &state.documents.intervals;
            intervals
                .windows(2)
                .all(|two| two[0].was_ended || two[0].to == two[1].from)
        }),
        Property::always("no mark is ahead of its interval", |_, state: &Moment| {
            let (documents, now) = (&state.documents, state.documents.now);
            documents
                .marked()
                .is_none_or(|marked| marked.from <= now || marked.is_current(now))
        }),
        Property::always(
            "the mark is of the current document, or another one has begun since",
            |_, state: &Moment| {
                let (documents, now) = (&state.documents, state.documents.now);
                let marked = documents.marked();
                documents
                    .current()
                    .is_none_or(|current| current.is_marked || marked.is_none_or(|marked| marked.to <= now))
            },
        ),
        Property::always("a scheduled interval stays", |_, state: &Moment| {
            let intervals = &state.documents.intervals;
            let stays = |from: u8| intervals.iter().any(|one| one.from == from && one.author == u8::MAX);
            state.documents.scheduled.is_none_or(stays)
        }),
        Property::always("an acknowledged change has its interval", |_, state: &Moment| {
            let intervals = &state.documents.intervals;
            state.clients.iter().all(|call| match call.ended() {
                Some(Ended::Begun(from)) => intervals
                    .iter()
                    .any(|one| one.author == call.author && one.from == from),
                _ => true,
            })
        }),
        Property::always("no change takes effect twice", |_, state: &Moment| {
            let intervals = &state.documents.intervals;
            state.clients.iter().all(|call| {
                let own = intervals.iter().filter(|one| one.author == call.author);
                matches!(call.change, Change::Insert | Change::InsertFrom(_)) || own.count() <= 1
            })
        }),
        Property::always("a change follows the expected start", |_, state: &Moment| {
            let follows = |call: &Write, expected: u8| {
                let mut pairs = state.documents.intervals.windows(2);
                pairs.all(|two| two[1].author != call.author || two[0].from == expected)
            };
            state.clients.iter().all(|call| match call.change {
                Change::Update(Some(expected)) => follows(call, expected),
                _ => true,
            })
        }),
        Property::always("no call finds damage", |_, state: &Moment| {
            state.clients.iter().all(|call| call.ended() != Some(Ended::Corrupt))
        }),
    ]
}

fn situations() -> Vec<Property<World<Intervals>>> {
    vec![
        Property::sometimes("a transaction loses to another writer", |_, state: &Moment| {
            state.clients.iter().any(|call| call.has_conflicted)
        }),
        Property::sometimes("the server refuses the time of a client", |_, state: &Moment| {
            state.clients.iter().any(|call| call.is_by_the_server)
        }),
        Property::sometimes("an expected start has changed", |_, state: &Moment| {
            state.clients.iter().any(|call| call.ended() == Some(Ended::Mismatch))
        }),
        Property::sometimes(
            "a mark moves to a scheduled interval that has begun",
            |_, state: &Moment| state.clients.iter().any(|call| call.has_marked),
        ),
        Property::sometimes("an interval begins after a gap", |_, state: &Moment| {
            let intervals = &state.documents.intervals;
            intervals.windows(2).any(|two| two[0].to < two[1].from)
        }),
    ]
}
