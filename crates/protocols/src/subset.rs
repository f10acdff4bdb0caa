//! The subset pattern: writing a child, and the subset in its parent.
//!
//! Mirrors `write` and `read.rs` of `crates/subset/src`: what each command matches, the order of the commands of a
//! transaction, and when a refresh that lost is done.
//! [`rebuild_all`] mirrors `repair/rebuild.rs`. [`crate::migration`] uses the documents and the writers of this module.
//!
//! The model has one parent, whose subset is the first two of its children: those with the highest rank, and among
//! equals with the lowest id. It can have a second subset of one child, which is read at a later moment. Left out:
//! sessions, several parents in one call, and a parent that is deleted and inserted again.

pub mod delete_parent;
mod documents;
pub mod rebuild_all;
#[cfg(test)]
mod tests;
pub mod write;

use stateright::Property;

use crate::world::{Protocol, Ran, State, World};
use delete_parent::DeleteParent;
pub use documents::{Child, Documents, Form, Parent, SIZE, top};
pub(crate) use documents::{PARENT, name};
use rebuild_all::RebuildAll;
use write::{Change, Ended, Write};

/// A parent with its children, and clients that write to them.
#[derive(Clone, Debug)]
pub struct Subset {
    /// Whose commands the clients send.
    pub form: Form,
    /// Whether the parent has the number of its children.
    pub total: bool,
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `insert`, `update` or `delete`, or a refresh.
    Write(Write),
    /// `delete_parent`.
    DeleteParent(DeleteParent),
    /// `refresh_all`, after a change without the repository.
    RebuildAll(RebuildAll),
}

/// A state of the model.
type Moment = State<Documents, Client>;

impl Protocol for Subset {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Write(call) => call.run(self.form, self.total, documents, me),
            Client::DeleteParent(call) => {
                call.run(documents, me);
                Ran::Done
            }
            Client::RebuildAll(call) => call.run(self.total, documents, me),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Write(call) => call.ended().is_some(),
            Client::DeleteParent(call) => call.has_ended(),
            Client::RebuildAll(call) => call.has_ended(),
        }
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Write(call) => call.sends(self.total),
            Client::DeleteParent(call) => call.sends(),
            Client::RebuildAll(call) => call.sends(self.total),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Write(call) => call.writes(),
            Client::DeleteParent(_) => false,
            Client::RebuildAll(call) => call.may_run_late(),
        }
    }

    fn is_mid_command(&self, client: &Client) -> bool {
        match client {
            Client::Write(_) | Client::DeleteParent(_) => false,
            Client::RebuildAll(call) => call.is_mid_command(),
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Write(call) => Client::Write(call.retry(self.form)),
            Client::DeleteParent(_) => Client::DeleteParent(DeleteParent::default()),
            Client::RebuildAll(call) => Client::RebuildAll(call.retry()),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("an acknowledged write is stored", |_, state: &Moment| {
                writes(state).all(|call| is_stored(&state.documents, call) || deletes_parent(state))
            }),
            Property::always(
                "when all calls have returned, the parent is correct",
                |world, state: &Moment| {
                    !world.is_quiet(state) || state.dead != 0 || state.documents.is_correct(world.protocol.total)
                },
            ),
            Property::always(
                "writers alone keep the parent correct in every state",
                |world, state: &Moment| {
                    let (start, _) = &world.protocol.starts[state.start];
                    let total = world.protocol.total;
                    // The program deletes a child without a transaction.
                    !start.is_correct(total) || world.protocol.rebuilds_all() || state.documents.is_correct(total)
                },
            ),
            Property::always("no child is without its parent", |_, state: &Moment| {
                state.documents.parent.is_some() || state.documents.children.is_empty()
            }),
            Property::always("the next rebuild repairs every final state", |world, state: &Moment| {
                if !world.is_quiet(state) || state.documents.parent.is_none() {
                    return true;
                }
                let (mut documents, mut rebuild) = (state.documents.clone(), Write::refresh());
                while rebuild.ended().is_none() {
                    rebuild.run(Form::Ours, world.protocol.total, &mut documents, 0);
                }
                documents.is_correct(world.protocol.total)
            }),
            Property::sometimes("a refresh loses to two other writes", |world, state: &Moment| {
                world.protocol.total || !world.protocol.refreshes() || writes(state).any(Write::has_lost_to_two)
            }),
            Property::sometimes("a transaction loses to another", |_, state: &Moment| {
                writes(state).any(Write::has_conflicted)
            }),
            Property::sometimes("a rebuild of all parents checks again", |world, state: &Moment| {
                let mut clients = state.clients.iter();
                !world.protocol.rebuilds_all()
                    || clients.any(|client| matches!(client, Client::RebuildAll(call) if call.was_disturbed()))
            }),
            Property::sometimes("a command outlives its client", |world, state: &Moment| {
                !state.late.is_empty() || !world.protocol.refreshes() && !world.protocol.rebuilds_all()
            }),
        ]
    }
}

impl Subset {
    fn refreshes(&self) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.any(|client| matches!(client, Client::Write(call) if call.is_refresh))
    }

    fn rebuilds_all(&self) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.any(|client| matches!(client, Client::RebuildAll(_)))
    }
}

/// Returns whether the acknowledged change is stored. No two calls of an initial state change the same child.
pub(crate) fn is_stored(documents: &Documents, call: &Write) -> bool {
    match (call.ended(), call.change) {
        (Some(Ended::Done | Ended::Exists), Change::Insert(child)) | (Some(Ended::Done), Change::Update(child)) => {
            documents.children.contains(&child)
        }
        (Some(Ended::Done), Change::Delete(id)) => !documents.has(id),
        _ => true,
    }
}

fn writes(state: &Moment) -> impl Iterator<Item = &Write> {
    state.clients.iter().filter_map(|client| match client {
        Client::Write(call) => Some(call),
        Client::DeleteParent(_) | Client::RebuildAll(_) => None,
    })
}

fn deletes_parent(state: &Moment) -> bool {
    let mut clients = state.clients.iter();
    clients.any(|client| matches!(client, Client::DeleteParent(_)))
}
