//! The history pattern: a current document, and a copy of each of its revisions.
//!
//! Mirrors `write` and `query` of `crates/history/src`: what each command matches and changes, and what a transaction
//! writes.
//!
//! The model has one id. A change adds a bit of its own to the content of the document, so that a lost one is missed. Left
//! out: times, sessions, the locks that tasks of one process share, and damage by other programs.

pub mod delete_old;
mod documents;
#[cfg(test)]
mod tests;
pub mod write;

use stateright::Property;

use crate::world::{Protocol, Ran, State, World};
use delete_old::DeleteOld;
pub use documents::{Documents, Form, Version};
use write::{Change, Ended, Write};

/// A document with its revisions, and clients that write to it.
#[derive(Clone, Debug)]
pub struct History {
    /// Whose commands the clients send.
    pub form: Form,
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `insert`, `update`, `upsert`, `delete` or `restore`.
    Write(Write),
    /// `delete_before` or `keep_last`.
    DeleteOld(DeleteOld),
}

/// A state of the model.
type Moment = State<Documents, Client>;

impl Protocol for History {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Write(call) => call.run(documents, me),
            Client::DeleteOld(call) => call.run(documents),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Write(call) => call.ended().is_some(),
            Client::DeleteOld(call) => call.has_ended(),
        }
    }

    fn sends(&self, before: &Client, after: &Client) -> Vec<&'static str> {
        match (before, after) {
            (Client::Write(before), Client::Write(after)) => before.sends(after),
            (Client::DeleteOld(call), _) => call.sends(),
            (Client::Write(_), Client::DeleteOld(_)) => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Write(call) => call.writes(),
            Client::DeleteOld(call) => call.writes(),
        }
    }

    fn is_mid_command(&self, client: &Client) -> bool {
        matches!(client, Client::DeleteOld(call) if call.is_mid_command())
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Write(call) => Client::Write(call.unknown(self.form)),
            Client::DeleteOld(call) => Client::DeleteOld(call.retry()),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        let mut properties = invariants();
        properties.extend(situations());
        properties
    }
}

fn invariants() -> Vec<Property<World<History>>> {
    vec![
        Property::always("the current document is the newest revision", |_, state: &Moment| {
            let documents = &state.documents;
            match &documents.current {
                Some(current) => documents.log.last() == Some(current) && !current.deleted,
                None => documents.log.last().is_none_or(|version| version.deleted),
            }
        }),
        Property::always("each change has a number of its own", |_, state: &Moment| {
            let mut log = state.documents.log.iter().zip(1..);
            log.all(|(version, number)| version.revision == number)
        }),
        Property::always("a copy is the revision of its number", |_, state: &Moment| {
            let documents = &state.documents;
            let mut copies = documents.copies.iter();
            copies.all(|copy| documents.log.get(usize::from(copy.revision) - 1) == Some(copy))
        }),
        Property::always("no revision is stored twice", |_, state: &Moment| {
            let copies = &state.documents.copies;
            copies.windows(2).all(|two| two[0].revision < two[1].revision)
        }),
        Property::always("every revision has a copy", |_, state: &Moment| {
            state.documents.is_complete()
        }),
        Property::always("an acknowledged change is a stored revision", |_, state: &Moment| {
            let documents = &state.documents;
            writes(state).all(|call| match call.ended() {
                Some(Ended::Done(revision)) => {
                    let copy = documents.copy(revision);
                    revision <= documents.deleted_to || copy.is_some_and(|copy| copy.author == call.author)
                }
                _ => true,
            })
        }),
        Property::always(
            "a trash has what was deleted through it, as it was",
            |_, state: &Moment| {
                let documents = &state.documents;
                let is_before_deletion = |kept: &Version| {
                    let next = documents.log.get(usize::from(kept.revision));
                    documents.log.contains(kept) && next.is_some_and(|version| version.deleted)
                };
                let mut deletions = writes(state).filter(|call| call.change == Change::DeleteThrough);
                documents.trash.iter().all(is_before_deletion)
                    && deletions.all(|call| match call.ended() {
                        Some(Ended::Done(revision)) => {
                            documents
                                .trash
                                .iter()
                                .filter(|kept| kept.revision + 1 == revision)
                                .count()
                                == 1
                        }
                        _ => true,
                    })
            },
        ),
        Property::always("no update is lost", |_, state: &Moment| {
            state.documents.log.windows(2).all(|two| {
                let (before, after) = (two[0], two[1]);
                let is_update = |call: &Write| call.author == after.author && matches!(call.change, Change::Update(_));
                !writes(state).any(is_update) || before.changes & !after.changes == 0
            })
        }),
        Property::always("no update is applied twice", |_, state: &Moment| {
            let log = &state.documents.log;
            writes(state).all(|call| {
                let own = log.iter().filter(|version| version.author == call.author);
                !matches!(call.change, Change::Update(_) | Change::Upsert | Change::Restore(_)) || own.count() <= 1
            })
        }),
        Property::always("no call finds damage", |_, state: &Moment| {
            writes(state).all(|call| call.ended() != Some(Ended::Corrupt))
        }),
        Property::always(
            "a deletion of old revisions keeps the newest one",
            |_, state: &Moment| usize::from(state.documents.deleted_to) < state.documents.log.len().max(1),
        ),
    ]
}

fn situations() -> Vec<Property<World<History>>> {
    vec![
        Property::sometimes("a transaction loses to another writer", |_, state: &Moment| {
            writes(state).any(|call| call.has_conflicted)
        }),
        Property::sometimes("an expected revision has changed", |world, state: &Moment| {
            let expects = |call: &Write| matches!(call.change, Change::Update(Some(_)));
            world.protocol.has_no(expects) || writes(state).any(|call| call.ended() == Some(Ended::Mismatch))
        }),
        Property::sometimes("an old revision is deleted", |world, state: &Moment| {
            !world.protocol.deletes_old() || state.documents.deleted_to > 0
        }),
        Property::sometimes("a command outlives its client", |world, state: &Moment| {
            !world.protocol.deletes_old() || !state.late.is_empty()
        }),
    ]
}

impl History {
    fn clients(&self) -> impl Iterator<Item = &Client> {
        self.starts.iter().flat_map(|(_, clients)| clients)
    }

    fn has_no(&self, is_one: impl Fn(&Write) -> bool) -> bool {
        !self
            .clients()
            .any(|client| matches!(client, Client::Write(call) if is_one(call)))
    }

    fn deletes_old(&self) -> bool {
        self.clients().any(|client| matches!(client, Client::DeleteOld(_)))
    }
}

fn writes(state: &Moment) -> impl Iterator<Item = &Write> {
    state.clients.iter().filter_map(|client| match client {
        Client::Write(call) => Some(call),
        Client::DeleteOld(_) => None,
    })
}
