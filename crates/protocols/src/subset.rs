//! The subset pattern: writing a child and what its parent shows of its children.
//!
//! Mirrors `crates/subset/src/write.rs`, `write/*.rs` and `read/unmanaged.rs`: what each command
//! matches, what is read before what, and when a refresh is done that lost. Whoever changes those changes [`write`](mod@write) or
//! [`delete_parent`] here, too. [`crate::moving`] has the documents and the writers from here.
//!
//! All is about one parent, which shows the first two of its children: those of the highest rank, and of the lowest id
//! among equals. Left out: sessions, several parents in one call, and a parent that is deleted and inserted again.

pub mod delete_parent;
#[cfg(test)]
mod tests;
pub mod write;

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, Stored, World};
use delete_parent::DeleteParent;
use write::{Change, Ended, Mode, Write};

/// How many children a parent shows.
pub const SIZE: usize = 2;

/// The commands that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// This project's.
    Ours,
    /// The first children are read, and set.
    ReadAndSet,
    /// A new child is pushed and a deleted one pulled, and the next one pushed in its place.
    PushAndPull,
}

/// A parent with its children, and clients that write to them.
#[derive(Clone, Debug)]
pub struct Subset {
    /// Whose commands.
    pub form: Form,
    /// Whether the parent says how many children there are.
    pub total: bool,
    /// The documents and clients at the start.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// A child: its id and its rank.
pub type Child = (u8, u8);

/// The parent and the children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The parent.
    pub parent: Option<Parent>,
    /// The children, by id.
    pub children: Vec<Child>,
    /// A move: which call is at work.
    pub run: u8,
    /// A move: how many copies are under way.
    pub copies: u8,
    pub(crate) transactions: Transactions,
}

/// The parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parent {
    /// `None` where no repository has written it.
    pub version: Option<u8>,
    /// What is embedded.
    pub subset: Vec<Child>,
    /// How many children there are, where it says so.
    pub total: Option<u8>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `insert`, `update`, `delete` or `rebuild`.
    Write(Write),
    /// `delete_parent`.
    DeleteParent(DeleteParent),
}

/// The parent, among the names of what is written.
pub(crate) const PARENT: u64 = 1;

/// A child.
pub(crate) fn name(child: u8) -> u64 {
    1 << (1 + child)
}

/// The first of some children.
pub fn top(children: &[Child]) -> Vec<Child> {
    let mut top = children.to_vec();
    top.sort_unstable_by_key(|(id, rank)| (u8::MAX - rank, *id));
    top.truncate(SIZE);
    top
}

impl Documents {
    /// With a parent that shows the first of these children.
    pub fn of(children: &[Child], total: bool) -> Self {
        let count = u8::try_from(children.len()).unwrap_or(u8::MAX);
        Self {
            parent: Some(Parent {
                version: Some(1),
                subset: top(children),
                total: total.then_some(count),
            }),
            children: children.to_vec(),
            ..Self::default()
        }
    }

    /// With a parent that has all its children embedded.
    pub fn embedded(embedded: &[Child]) -> Self {
        Self {
            parent: Some(Parent {
                subset: embedded.to_vec(),
                ..Parent::default()
            }),
            ..Self::default()
        }
    }

    /// Whether there is a child with this id.
    pub fn has(&self, id: u8) -> bool {
        self.children.iter().any(|(child, _)| *child == id)
    }

    /// How many children there are.
    pub(crate) fn count(&self) -> u8 {
        u8::try_from(self.children.len()).unwrap_or(u8::MAX)
    }

    /// Whether the parent shows what it should. One that no repository has written shows what it has.
    pub fn is_right(&self, total: bool) -> bool {
        self.parent.as_ref().is_none_or(|parent| {
            let is_total = !total || parent.total == Some(self.count());
            parent.is_unwritten() || parent.subset == top(&self.children) && is_total
        })
    }

    /// Puts a child in, instead of the one with its id.
    pub(crate) fn put(&mut self, child: Child) {
        self.children.retain(|(id, _)| *id != child.0);
        self.children.push(child);
        self.children.sort_unstable();
    }
}

impl Parent {
    /// Whether it has embedded children, and no repository has written it.
    pub fn is_unwritten(&self) -> bool {
        self.version.is_none() && !self.subset.is_empty()
    }

    /// The ids of what is embedded.
    pub(crate) fn ids(&self) -> Vec<u8> {
        self.subset.iter().map(|(id, _)| *id).collect()
    }

    /// Whether it is as it was seen, as far as a refresh compares it.
    pub(crate) fn is_as(&self, seen: &Self) -> bool {
        match seen.version {
            Some(_) => self.version == seen.version,
            None => self.version.is_none() && self.ids() == seen.ids(),
        }
    }
}

impl Stored for Documents {
    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions {
        &mut self.transactions
    }

    fn is_waited_for(&self) -> bool {
        self.transactions.are_any() || self.copies > 0
    }
}

/// The documents and clients at a moment.
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
            Client::DeleteParent(call) => call.run(documents),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Write(call) => call.ended().is_some(),
            Client::DeleteParent(call) => call.has_ended(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Write(call) => call.writes(),
            Client::DeleteParent(_) => true,
        }
    }

    fn is_within(&self, client: &Client) -> bool {
        matches!(client, Client::DeleteParent(call) if call.is_within())
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Write(call) => Client::Write(call.again(self.form)),
            Client::DeleteParent(call) => Client::DeleteParent(call.again()),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("an acknowledged write is stored", |_, state: &Moment| {
                writes(state).all(|call| is_stored(&state.documents, call) || deletes_parent(state))
            }),
            Property::always(
                "when all calls have returned, the parent is right",
                |world, state: &Moment| {
                    !world.is_quiet(state) || state.dead != 0 || state.documents.is_right(world.protocol.total)
                },
            ),
            Property::always(
                "in transactions the parent is right at every moment",
                |world, state: &Moment| {
                    let (start, _) = &world.protocol.starts[state.start];
                    let mut modes = writes(state).map(|call| call.mode);
                    !start.is_right(world.protocol.total)
                        || !modes.all(|mode| mode == Mode::Transactional)
                        || state.documents.is_right(world.protocol.total)
                },
            ),
            Property::always(
                "when all calls have returned, no child is left without its parent",
                |world, state: &Moment| {
                    // An insert that runs when its caller has given it up is found by verify.
                    !world.is_quiet(state)
                        || !state.is_without_faults(world.faults)
                        || state.documents.parent.is_some()
                        || state.documents.children.is_empty()
                },
            ),
            Property::always(
                "what is left is put right by the next rebuild",
                |world, state: &Moment| {
                    if !world.is_quiet(state) || state.documents.parent.is_none() {
                        return true;
                    }
                    let mut documents = state.documents.clone();
                    let mut rebuild = Write::new(Form::Ours, Mode::Eventual, Change::Nothing);
                    while rebuild.ended().is_none() {
                        rebuild.run(Form::Ours, world.protocol.total, &mut documents, 0);
                    }
                    documents.is_right(world.protocol.total)
                },
            ),
            Property::sometimes("a parent is not right for a moment", |world, state: &Moment| {
                !state.documents.is_right(world.protocol.total) || world.protocol.is_all(Mode::Transactional)
            }),
            Property::sometimes("a refresh loses to two others", |world, state: &Moment| {
                let takes_three = world.protocol.starts.iter().all(|(_, clients)| clients.len() < 3);
                takes_three || world.protocol.is_all(Mode::Transactional) || writes(state).any(Write::has_lost_to_two)
            }),
            Property::sometimes("a client dies between child and parent", |world, state: &Moment| {
                let mut clients = state.clients.iter().enumerate();
                world.protocol.is_all(Mode::Transactional)
                    || clients.any(|(at, client)| {
                        state.is_dead(at) && matches!(client, Client::Write(call) if call.is_between())
                    })
            }),
            Property::sometimes("a transaction loses to another", |world, state: &Moment| {
                world.protocol.is_all(Mode::Eventual) || writes(state).any(Write::has_conflicted)
            }),
            Property::sometimes("a command is left that may run late", |world, state: &Moment| {
                !state.late.is_empty() || world.protocol.is_all(Mode::Transactional)
            }),
        ]
    }
}

impl Subset {
    fn is_all(&self, mode: Mode) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.all(|client| match client {
            Client::Write(call) => call.mode == mode,
            Client::DeleteParent(_) => true,
        })
    }
}

/// Whether what a call has acknowledged is so. No two calls of a start are about one child.
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
        Client::DeleteParent(_) => None,
    })
}

fn deletes_parent(state: &Moment) -> bool {
    let mut clients = state.clients.iter();
    clients.any(|client| matches!(client, Client::DeleteParent(_)))
}
