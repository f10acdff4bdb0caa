//! The outlier pattern: pushes, overflow documents, removals, rebalances and deletes.
//!
//! Mirrors `crates/outlier/src`: `write`, the rewrites in `repair`, and `form/layout.rs`: what each command matches and
//! changes, what its transaction writes, and the reaction to a conflict.
//!
//! The model has one document. Elements are numbers. Left out: sessions, standalones, sizes in bytes, damage by other
//! programs, and the optimizations for tasks of one process, so that each client is a process of its own.

pub mod delete;
pub mod push;
pub mod rebalance;
pub mod remove;
#[cfg(test)]
mod tests;
pub mod update;

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};
use delete::Delete;
use push::{Ended, Push};
use rebalance::Rebalance;
use remove::Remove;
use update::{Outcome, Update, is_same};

/// The maximum number of elements in the array.
pub const THRESHOLD: usize = 2;
/// The maximum number of elements in an overflow document.
pub const CAP: usize = 2;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of the manual: reads the flag, pushes, and sets the flag if the array is too long by then. Overflow
    /// documents are written by an upsert without a unique index.
    Manual,
    /// Those of this project, but sets the flag after it opens overflow documents, and not in the same transaction.
    FlagLast,
    /// Those of this project, but deletes the main document and its overflow documents by a command each.
    DeleteApart,
    /// Those of this project, but a unique push to a known outlier never checks the array after it.
    NoCheck,
    /// Those of this project, but a rebalance that fills the array keeps the ids of overflow documents.
    SameIds,
    /// Those of this project, but an update that finds no element does not read a snapshot.
    NoSnapshot,
}

/// A document with its overflow documents, and clients that write to it.
#[derive(Clone, Debug)]
pub struct Outlier {
    /// Whose commands the clients send.
    pub form: Form,
    /// Whether elements are unique and pushed with `push_unique`.
    pub unique: bool,
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// The document and its overflow documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Documents {
    /// Whether the main document exists.
    pub exists: bool,
    /// The array.
    pub inline: Vec<u8>,
    /// The flag.
    pub flag: bool,
    /// The overflow documents, in the order of their positions.
    pub extras: Vec<Extra>,
    /// The id of the next overflow document.
    pub(crate) next_id: u8,
    pub(crate) transactions: Transactions,
}

/// An overflow document. Its count is the number of its elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Its id.
    pub id: u8,
    /// Its position.
    pub seq: u8,
    /// Its elements.
    pub elements: Vec<u8>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `push`, `push_many` or `push_unique`.
    Push(Push),
    /// `remove`.
    Remove(Remove),
    /// `rebalance`.
    Rebalance(Rebalance),
    /// `delete`.
    Delete(Delete),
    /// `update_element`.
    Update(Update),
}

/// The bit of the main document.
const MAIN: u64 = 1;

/// The commands that read from a snapshot whether an element is stored anywhere.
const IS_STORED: [&str; 3] = ["begin: read sales", "then: read extra_sales", "then: commitTransaction"];

/// Returns the bit of the overflow document at a position.
fn position_bit(seq: u8) -> u64 {
    1 << (1 + seq)
}

/// Returns the bits of the entries of elements in the unique index, if there is one.
fn entries(unique: bool, elements: &[u8]) -> u64 {
    let of_index = elements.iter().filter(|_| unique);
    of_index.fold(0, |names, element| names | 1 << (32 + element))
}

impl Documents {
    /// Returns documents with these elements in the array, and these in overflow documents.
    pub fn of(inline: &[u8], extras: &[&[u8]]) -> Self {
        let extras = extras.iter().zip(0..).map(|(elements, seq)| Extra {
            id: seq,
            seq,
            elements: elements.to_vec(),
        });
        let extras: Vec<Extra> = extras.collect();
        Self {
            exists: true,
            inline: inline.to_vec(),
            flag: !extras.is_empty(),
            next_id: u8::try_from(extras.len()).unwrap_or(u8::MAX),
            extras,
            transactions: Transactions::default(),
        }
    }

    /// Returns all elements, in order.
    pub fn elements(&self) -> impl Iterator<Item = u8> {
        let of_extras = self.extras.iter().flat_map(|extra| &extra.elements);
        self.inline.iter().chain(of_extras).copied()
    }

    /// Returns how often an element is stored, in any version.
    pub fn count(&self, element: u8) -> usize {
        self.elements().filter(|stored| is_same(*stored, element)).count()
    }

    /// Returns whether a reader that follows the flag finds an element, or the document is deleted.
    fn is_visible(&self, element: u8) -> bool {
        let is_inline = self.inline.iter().any(|stored| is_same(*stored, element));
        !self.exists || is_inline || self.flag && self.count(element) > 0
    }

    /// Inserts overflow documents, with new ids.
    fn insert(&mut self, extras: Vec<Extra>) {
        for extra in extras {
            self.extras.push(Extra {
                id: self.next_id,
                ..extra
            });
            self.next_id += 1;
        }
        self.extras.sort_by_key(|extra| extra.seq);
    }

    fn extras_have(&self, element: u8) -> bool {
        self.extras.iter().any(|extra| extra.elements.contains(&element))
    }
}

crate::stored!(Documents);

/// A state of the model.
type Moment = State<Documents, Client>;

impl Protocol for Outlier {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Push(call) => call.run(self, documents, me),
            Client::Remove(call) => call.run(documents),
            Client::Rebalance(call) => call.run(self, documents, me),
            Client::Delete(call) => call.run(self.form, self.unique, documents, me),
            Client::Update(call) => call.run(self.form, documents),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Push(call) => call.ended().is_some(),
            Client::Remove(call) => call.has_ended(),
            Client::Rebalance(call) => call.has_ended(),
            Client::Delete(call) => call.has_ended(),
            Client::Update(call) => call.ended().is_some(),
        }
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Push(call) => call.sends(),
            Client::Remove(call) => call.sends(),
            Client::Rebalance(call) => call.sends(),
            Client::Delete(call) => call.sends(),
            Client::Update(call) => call.sends(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Push(call) => call.writes(),
            Client::Remove(call) => call.writes(),
            Client::Rebalance(call) => call.writes(),
            Client::Delete(call) => call.writes(),
            Client::Update(call) => call.writes(),
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Push(call) => Client::Push(call.unknown(self)),
            Client::Remove(call) => Client::Remove(Remove::new(call.element)),
            Client::Rebalance(_) => Client::Rebalance(Rebalance::default()),
            Client::Delete(_) => Client::Delete(Delete::new(false)),
            Client::Update(call) => Client::Update(call.unknown()),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("an acknowledged element is stored", |_, state: &Moment| {
                let mut elements = acknowledged(state);
                !state.documents.exists || elements.all(|element| state.documents.count(element) > 0)
            }),
            Property::always(
                "a reader who follows the flag finds each acknowledged element",
                |_, state: &Moment| acknowledged(state).all(|element| state.documents.is_visible(element)),
            ),
            Property::always(
                "a push stores its elements where readers find them",
                |_, state: &Moment| !pushes(state).any(Push::was_hidden),
            ),
            Property::always("no element is stored twice", |world, state: &Moment| {
                // A unique element can be stored twice for a moment, and after a fault until a rebalance.
                let may_be = world.protocol.unique && (!world.is_quiet(state) || state.faults < world.faults);
                may_be || (0..ELEMENTS).all(|element| state.documents.count(element) <= 1)
            }),
            Property::always("the elements of the initial state stay", |world, state: &Moment| {
                let (documents, _) = &world.protocol.starts[state.start];
                let mut stayed = documents.elements().filter(|element| !is_removed(state, *element));
                stayed.all(|element| state.documents.is_visible(element))
            }),
            Property::always("a removed element is not stored", |_, state: &Moment| {
                let mut removed = removals(state).filter(|call| call.has_ended());
                removed.all(|call| state.documents.count(call.element) == 0)
            }),
            Property::always("an update is neither lost nor applied twice", |_, state: &Moment| {
                state.documents.elements().all(|stored| {
                    let (done, possible) = updates_of(state, stored);
                    (done..=possible).contains(&usize::from(stored / ELEMENTS))
                })
            }),
            Property::always("an update finds its element", |_, state: &Moment| {
                !state.documents.exists || updates(state).all(|(_, call)| call.ended() != Some(Outcome::NotFound))
            }),
            Property::always("overflow documents exist only with the flag", |_, state: &Moment| {
                state.documents.flag || state.documents.extras.is_empty()
            }),
            Property::always("the array does not exceed the threshold", |_, state: &Moment| {
                state.documents.inline.len() <= THRESHOLD
            }),
            Property::always(
                "overflow documents do not exceed their cap, and have distinct positions",
                |_, state: &Moment| {
                    let extras = &state.documents.extras;
                    extras.iter().all(|extra| extra.elements.len() <= CAP)
                        && extras.windows(2).all(|two| two[0].seq < two[1].seq)
                },
            ),
            Property::always("a prefix of each batch is stored", |_, state: &Moment| {
                pushes(state).all(|call| {
                    let is_stored = |element: &u8| state.documents.count(*element) > 0;
                    let first = call.elements.iter().take_while(|element| is_stored(element)).count();
                    !state.documents.exists || !call.elements[first..].iter().any(is_stored)
                })
            }),
            Property::always("a rebalance repairs every final state", |world, state: &Moment| {
                if !world.is_quiet(state) || !state.documents.exists {
                    return true;
                }
                let mut documents = state.documents.clone();
                rebalance::apply_now(&world.protocol, &mut documents);
                (0..ELEMENTS).all(|element| documents.count(element) == state.documents.count(element).min(1))
                    && rebalance::is_correct(&documents)
            }),
            Property::sometimes("overflow documents are opened", |_, state: &Moment| {
                pushes(state).any(Push::opens) || state.documents.extras.len() > 1
            }),
            Property::sometimes(
                "two clients open overflow documents concurrently",
                |_, state: &Moment| pushes(state).filter(|call| call.opens()).count() > 1,
            ),
            Property::sometimes("a rebalance clears the flag", |world, state: &Moment| {
                world.protocol.has_no_rebalance() || rebalances(state).any(Rebalance::has_cleared)
            }),
            Property::sometimes("a rebalance loses to another writer", |world, state: &Moment| {
                world.protocol.has_no_rebalance() || rebalances(state).any(Rebalance::is_retried)
            }),
            Property::sometimes(
                "a client dies between the flag and the overflow documents",
                |_, state: &Moment| {
                    let mut clients = state.clients.iter().enumerate();
                    clients.any(|(at, client)| {
                        state.is_dead(at)
                            && matches!(client, Client::Push(call) if call.is_between())
                            && state.documents.flag
                    })
                },
            ),
            Property::sometimes("a known outlier takes an element", |world, state: &Moment| {
                world
                    .protocol
                    .has_no(|client| matches!(client, Client::Push(call) if call.is_known()))
                    || pushes(state).any(|call| call.was_known() && call.ended() == Some(Ended::Stored))
            }),
            Property::sometimes(
                "a process finds that a known outlier is none",
                |world, state: &Moment| {
                    world
                        .protocol
                        .has_no(|client| matches!(client, Client::Push(call) if call.is_known()))
                        || pushes(state).any(Push::was_wrong)
                },
            ),
            Property::sometimes("a push finds no document", |world, state: &Moment| {
                world.protocol.has_no(|client| matches!(client, Client::Delete(_)))
                    || pushes(state).any(|call| call.ended() == Some(Ended::NotFound))
            }),
            Property::sometimes("an update misses an element that moves", |world, state: &Moment| {
                world.protocol.has_no(|client| matches!(client, Client::Update(_)))
                    || updates(state).any(|(_, call)| call.was_again())
            }),
            Property::sometimes("a command outlives its client", |_, state: &Moment| {
                !state.late.is_empty()
            }),
        ]
    }
}

/// The number that all elements are below.
const ELEMENTS: u8 = 16;

impl Outlier {
    fn has_no_rebalance(&self) -> bool {
        self.has_no(|client| matches!(client, Client::Rebalance(_)))
    }

    fn has_no(&self, is_one: impl Fn(&Client) -> bool) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        !clients.any(is_one)
    }
}

/// Returns the elements of pushes that have succeeded and that no client removes.
fn acknowledged(state: &Moment) -> impl Iterator<Item = u8> {
    let ended = pushes(state).filter(|call| matches!(call.ended(), Some(Ended::Stored | Ended::Exists)));
    let elements = ended.flat_map(|call| call.elements.iter().copied());
    elements.filter(|element| !is_removed(state, *element))
}

fn is_removed(state: &Moment, element: u8) -> bool {
    removals(state).any(|call| call.element == element)
}

fn pushes(state: &Moment) -> impl Iterator<Item = &Push> {
    state.clients.iter().filter_map(|client| match client {
        Client::Push(call) => Some(call),
        _ => None,
    })
}

fn removals(state: &Moment) -> impl Iterator<Item = &Remove> {
    state.clients.iter().filter_map(|client| match client {
        Client::Remove(call) => Some(call),
        _ => None,
    })
}

fn updates(state: &Moment) -> impl Iterator<Item = (usize, &Update)> {
    let clients = state.clients.iter().enumerate();
    clients.filter_map(|(at, client)| match client {
        Client::Update(call) => Some((at, call)),
        _ => None,
    })
}

/// Returns how many updates of an element have succeeded, and how many may have been applied.
fn updates_of(state: &Moment, element: u8) -> (usize, usize) {
    let of_element = || updates(state).filter(|(_, call)| is_same(call.element, element));
    let done = of_element().filter(|(_, call)| call.ended() == Some(Outcome::Updated));
    let is_possible = |at: usize, call: &Update| {
        state.is_dead(at) || matches!(call.ended(), Some(Outcome::Updated | Outcome::Unknown))
    };
    let possible = of_element().filter(|(at, call)| is_possible(*at, call));
    (done.count(), possible.count())
}

fn rebalances(state: &Moment) -> impl Iterator<Item = &Rebalance> {
    state.clients.iter().filter_map(|client| match client {
        Client::Rebalance(call) => Some(call),
        _ => None,
    })
}
