//! The reference pattern: sources, and orders with a copy of a source.
//!
//! Mirrors `write` and `query` of `crates/reference/src`: the version that guards every write of a copy, the second read of
//! an insert, the mark of a deletion, and what a transaction locks.
//!
//! The content of a source is the number of its version, and that of a copy is the number of the version that it was copied
//! from. So a copy is stale if the two differ, in the naive forms too, which do not compare them. Left out: the source
//! key, which names a source in the first read alone, arrays, several reference fields and collections, the deletions that
//! keep or clear the copies, retries of one command, and damage by other programs.

pub mod change;
pub mod delete;
mod documents;
pub mod link;
#[cfg(test)]
mod tests;

use stateright::Property;

use crate::world::{Protocol, Ran, State, World};
use change::Change;
use delete::Delete;
pub use documents::{Copied, Documents, Ended, Form, Mode, Source};
use link::Link;

/// Sources and orders, and clients that write to them.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Whose commands the clients send.
    pub form: Form,
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `insert` or `set_reference`.
    Link(Link),
    /// `update_source`, or a sweep alone.
    Change(Change),
    /// `delete_source`, which refuses to delete a source with references.
    Delete(Delete),
}

/// A state of the model.
type Moment = State<Documents, Client>;

impl Protocol for Reference {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Link(call) => call.run(self.form, documents, me),
            Client::Change(call) => call.run(self.form, documents, me),
            Client::Delete(call) => call.run(self.form, documents, me),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        ended(client).is_some()
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Link(call) => call.sends(),
            Client::Change(call) => call.sends(),
            Client::Delete(call) => call.sends(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Link(call) => call.writes(),
            Client::Change(call) => call.writes(),
            Client::Delete(call) => call.writes(),
        }
    }

    fn is_mid_command(&self, client: &Client) -> bool {
        matches!(client, Client::Change(call) if call.is_mid_command())
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Link(call) => Client::Link(call.unknown()),
            Client::Change(call) => Client::Change(call.retry()),
            Client::Delete(call) => Client::Delete(call.retry(self.form)),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        let mut properties = invariants();
        properties.extend(situations());
        properties
    }
}

fn ended(client: &Client) -> Option<Ended> {
    match client {
        Client::Link(call) => call.ended(),
        Client::Change(call) => call.ended(),
        Client::Delete(call) => call.ended(),
    }
}

/// Returns whether all calls have returned, without a fault.
fn have_returned(world: &World<Reference>, state: &Moment) -> bool {
    world.is_quiet(state) && state.is_without_faults(world.faults)
}

fn invariants() -> Vec<Property<World<Reference>>> {
    vec![
        Property::always(
            "when all calls have returned, no copy is stale",
            |world, state: &Moment| !have_returned(world, state) || !state.documents.is_stale(),
        ),
        Property::always(
            "when all calls have returned, no reference is dangling",
            |world, state: &Moment| !have_returned(world, state) || !state.documents.is_dangling(),
        ),
        Property::always(
            "a source that another repository keeps is deleted, once",
            |_, state: &Moment| {
                let deleted = state.documents.sources.iter().filter(|source| source.is_none());
                usize::from(state.documents.kept) <= deleted.count()
            },
        ),
        Property::always("a copy never goes back to an older version", |_, state: &Moment| {
            !state.documents.went_back
        }),
        Property::always("no copy is newer than its source", |_, state: &Moment| {
            let documents = &state.documents;
            let mut copies = documents.orders.values().flatten();
            copies.all(|copied| {
                let source = documents.source(copied.source);
                source.is_none_or(|source| copied.version <= source.version)
            })
        }),
        Property::always(
            "an acknowledged change is in every copy whose writer has returned",
            |_, state: &Moment| {
                let pending = |order: u8| {
                    let mut own = links(state).filter(|link| link.order == order);
                    own.any(|link| link.ended() != Some(Ended::Done))
                };
                let mut changed = changes(state).filter_map(|change| Some((change.source, change.acknowledged()?)));
                changed.all(|(source, version)| {
                    let mut copies = state.documents.references(source);
                    copies.all(|(order, copied)| copied.version >= version || pending(order))
                })
            },
        ),
        Property::always("an acknowledged insert is stored", |_, state: &Moment| {
            let mut inserts = links(state).filter(|link| link.is_insert);
            inserts.all(|link| link.ended() != Some(Ended::Done) || state.documents.orders.contains_key(&link.order))
        }),
        Property::always("a refused insert is not stored", |_, state: &Moment| {
            let mut inserts = links(state).filter(|link| link.is_insert);
            inserts
                .all(|link| link.ended() != Some(Ended::NotFound) || !state.documents.orders.contains_key(&link.order))
        }),
        Property::always("a sweep corrects every final state", |world, state: &Moment| {
            if !world.is_quiet(state) {
                return true;
            }
            let mut documents = state.documents.clone();
            change::sweep_now(&mut documents);
            !documents.is_stale() && documents.went_back == state.documents.went_back
        }),
    ]
}

fn situations() -> Vec<Property<World<Reference>>> {
    vec![
        Property::sometimes("a second read finds a newer version", |world, state: &Moment| {
            world.protocol.lacks_race(is_rename) || links(state).any(|link| link.has_refreshed)
        }),
        Property::sometimes(
            "a second read finds no source, and withdraws",
            |world, state: &Moment| world.protocol.lacks_race(is_delete) || links(state).any(|link| link.has_withdrawn),
        ),
        Property::sometimes(
            "a second read removes the mark of a deletion",
            |world, state: &Moment| world.protocol.lacks_race(is_delete) || links(state).any(|link| link.has_unmarked),
        ),
        Property::sometimes("a deletion loses its mark and starts again", |world, state: &Moment| {
            world.protocol.lacks_race(is_delete) || deletes(state).any(|delete| delete.has_restarted)
        }),
        Property::sometimes("a deletion is refused", |world, state: &Moment| {
            !world.protocol.has(is_delete) || deletes(state).any(|delete| delete.ended() == Some(Ended::Referenced))
        }),
        Property::sometimes("a source is deleted", |world, state: &Moment| {
            !world.protocol.has(is_delete) || state.documents.sources[0].is_none()
        }),
        Property::sometimes(
            "a sweep passes a copy that another one has updated",
            |world, state: &Moment| {
                let mut starts = world.protocol.starts.iter();
                let has_two =
                    starts.any(|(_, clients)| clients.iter().filter(|client| is_single_rename(client)).count() > 1);
                let mut sweeps = changes(state).filter_map(Change::sweeps_to);
                !has_two
                    || sweeps.any(|version| {
                        state
                            .documents
                            .references(0)
                            .any(|(_, copied)| copied.version > version)
                    })
            },
        ),
        Property::sometimes(
            "a client dies between a change and its sweep",
            |world, state: &Moment| {
                let mut clients = state.clients.iter().enumerate();
                !world.protocol.has(is_single_rename)
                    || clients.any(|(at, client)| {
                        state.is_dead(at) && matches!(client, Client::Change(change) if change.sweeps_to().is_some())
                    })
            },
        ),
        Property::sometimes("a transaction loses to another writer", |world, state: &Moment| {
            !world.protocol.has(is_in_transaction)
                || links(state).any(|link| link.has_conflicted)
                || changes(state).any(|change| change.has_conflicted)
        }),
        Property::sometimes("a command outlives its client", |world, state: &Moment| {
            !world.protocol.has(|client| !is_in_transaction(client)) || !state.late.is_empty()
        }),
    ]
}

impl Reference {
    fn has(&self, is_one: impl Fn(&Client) -> bool) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.any(is_one)
    }

    /// Returns whether no initial state has both such a client and a single insert or `set_reference`.
    fn lacks_race(&self, is_one: impl Fn(&Client) -> bool) -> bool {
        let is_single_link = |client: &Client| matches!(client, Client::Link(link) if link.mode == Mode::Single);
        !self
            .starts
            .iter()
            .any(|(_, clients)| clients.iter().any(&is_one) && clients.iter().any(is_single_link))
    }
}

fn is_rename(client: &Client) -> bool {
    matches!(client, Client::Change(change) if !change.is_sweep)
}

fn is_single_rename(client: &Client) -> bool {
    matches!(client, Client::Change(change) if !change.is_sweep && change.mode == Mode::Single)
}

fn is_delete(client: &Client) -> bool {
    matches!(client, Client::Delete(delete) if delete.mode == Mode::Single)
}

fn is_in_transaction(client: &Client) -> bool {
    let mode = match client {
        Client::Link(call) => call.mode,
        Client::Change(call) => call.mode,
        Client::Delete(call) => call.mode,
    };
    mode == Mode::Transaction
}

fn links(state: &Moment) -> impl Iterator<Item = &Link> {
    state.clients.iter().filter_map(|client| match client {
        Client::Link(call) => Some(call),
        _ => None,
    })
}

fn changes(state: &Moment) -> impl Iterator<Item = &Change> {
    state.clients.iter().filter_map(|client| match client {
        Client::Change(call) => Some(call),
        _ => None,
    })
}

fn deletes(state: &Moment) -> impl Iterator<Item = &Delete> {
    state.clients.iter().filter_map(|client| match client {
        Client::Delete(call) => Some(call),
        _ => None,
    })
}
