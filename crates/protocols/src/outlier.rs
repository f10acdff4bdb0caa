//! The outlier pattern: pushing, going on in extras, removing, and putting elements where they belong.
//!
//! Mirrors `crates/outlier/src/store.rs`, `open.rs`, `action/remove.rs`, `rewrite.rs`, `mend.rs` and `layout.rs`: what each
//! command matches and changes, what its transaction writes, and what is done when it loses. Whoever changes those changes
//! [`push`], [`remove`] or [`rebalance`] here, too.
//!
//! All is about one document. Elements are numbers. Left out: sessions, standalones, sizes in bytes, damage by others, and
//! what tasks of one process spare each other, so that each client is a process of its own.

pub mod push;
pub mod rebalance;
pub mod remove;

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, Stored, World};
use push::{Ended, Push};
use rebalance::Rebalance;
use remove::Remove;

/// How many elements the array has at most.
pub const THRESHOLD: usize = 2;
/// How many elements an extras document has at most.
pub const CAP: usize = 2;

/// The commands that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// This project's.
    Ours,
    /// The manual's: reads the flag, pushes, and sets the flag where the array is too long by then. Extras by an upsert
    /// without a unique index.
    Manual,
    /// Ours, but the flag is set after the extras are opened, and not in one transaction with them.
    FlagLast,
}

/// A document with its extras, and clients that write to it.
#[derive(Clone, Debug)]
pub struct Outlier {
    /// Whose commands.
    pub form: Form,
    /// Whether elements are unique, and pushed once.
    pub unique: bool,
    /// The documents and clients at the start.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// The document and its extras.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The array.
    pub inline: Vec<u8>,
    /// The flag.
    pub flag: bool,
    /// In the order of their places.
    pub extras: Vec<Extra>,
    pub(crate) transactions: Transactions,
}

/// An extras document. Its count is the number of its elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Its place.
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
}

/// The main document, among the names of what is written.
const MAIN: u64 = 1;

/// The extras document at a place.
fn place(seq: u8) -> u64 {
    1 << (1 + seq)
}

/// An element's entry in the unique index of the extras' elements, where there is one.
fn entries(unique: bool, elements: &[u8]) -> u64 {
    let of_index = elements.iter().filter(|_| unique);
    of_index.fold(0, |names, element| names | 1 << (32 + element))
}

impl Documents {
    /// With these elements in the array, and these in extras.
    pub fn of(inline: &[u8], extras: &[&[u8]]) -> Self {
        let extras = extras.iter().zip(0..).map(|(elements, seq)| Extra {
            seq,
            elements: elements.to_vec(),
        });
        let extras: Vec<Extra> = extras.collect();
        Self {
            inline: inline.to_vec(),
            flag: !extras.is_empty(),
            extras,
            transactions: Transactions::default(),
        }
    }

    /// All elements, in order.
    pub fn elements(&self) -> impl Iterator<Item = u8> {
        let of_extras = self.extras.iter().flat_map(|extra| &extra.elements);
        self.inline.iter().chain(of_extras).copied()
    }

    /// How often an element is stored.
    pub fn count(&self, element: u8) -> usize {
        self.elements().filter(|stored| *stored == element).count()
    }

    /// Whether who looks for extras only where there is a flag finds an element.
    fn is_seen(&self, element: u8) -> bool {
        self.inline.contains(&element) || self.flag && self.count(element) > 0
    }

    fn extras_have(&self, element: u8) -> bool {
        self.extras.iter().any(|extra| extra.elements.contains(&element))
    }
}

impl Stored for Documents {
    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions {
        &mut self.transactions
    }
}

/// The documents and clients at a moment.
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
            Client::Rebalance(call) => call.run(self.unique, documents, me),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Push(call) => call.ended().is_some(),
            Client::Remove(call) => call.has_ended(),
            Client::Rebalance(call) => call.has_ended(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Push(call) => call.writes(),
            Client::Remove(call) => call.writes(),
            Client::Rebalance(call) => call.writes(),
        }
    }

    fn is_within(&self, _: &Client) -> bool {
        false
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Push(call) => Client::Push(call.unknown(self)),
            Client::Remove(call) => Client::Remove(Remove::new(call.element)),
            Client::Rebalance(_) => Client::Rebalance(Rebalance::default()),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("an acknowledged element is stored", |_, state: &Moment| {
                acknowledged(state).all(|element| state.documents.count(element) > 0)
            }),
            Property::always(
                "an acknowledged element is seen by who follows the flag",
                |_, state: &Moment| acknowledged(state).all(|element| state.documents.is_seen(element)),
            ),
            Property::always("no element is stored twice", |world, state: &Moment| {
                // One that is to be there once may be there twice for a moment, and after a fault until a rebalance.
                let may_be = world.protocol.unique && (!world.is_quiet(state) || state.faults < world.faults);
                may_be || (0..ELEMENTS).all(|element| state.documents.count(element) <= 1)
            }),
            Property::always("what was there stays", |world, state: &Moment| {
                let (documents, _) = &world.protocol.starts[state.start];
                let mut stayed = documents.elements().filter(|element| !is_removed(state, *element));
                stayed.all(|element| state.documents.is_seen(element))
            }),
            Property::always("a removed element is gone", |_, state: &Moment| {
                let mut removed = removals(state).filter(|call| call.has_ended());
                removed.all(|call| state.documents.count(call.element) == 0)
            }),
            Property::always("there are no extras without a flag", |_, state: &Moment| {
                state.documents.flag || state.documents.extras.is_empty()
            }),
            Property::always("the array has a threshold of elements at most", |_, state: &Moment| {
                state.documents.inline.len() <= THRESHOLD
            }),
            Property::always(
                "extras have their cap of elements at most, and a place each",
                |_, state: &Moment| {
                    let extras = &state.documents.extras;
                    extras.iter().all(|extra| extra.elements.len() <= CAP)
                        && extras.windows(2).all(|two| two[0].seq < two[1].seq)
                },
            ),
            Property::always("a batch is stored from its first element on", |_, state: &Moment| {
                pushes(state).all(|call| {
                    let is_stored = |element: &u8| state.documents.count(*element) > 0;
                    let first = call.elements.iter().take_while(|element| is_stored(element)).count();
                    !call.elements[first..].iter().any(is_stored)
                })
            }),
            Property::always("a rebalance of what is left puts it right", |world, state: &Moment| {
                if !world.is_quiet(state) {
                    return true;
                }
                let mut documents = state.documents.clone();
                rebalance::at_once(world.protocol.unique, &mut documents);
                (0..ELEMENTS).all(|element| documents.count(element) == state.documents.count(element).min(1))
                    && rebalance::is_right(&documents)
            }),
            Property::sometimes("extras are opened", |_, state: &Moment| {
                pushes(state).any(Push::opens) || state.documents.extras.len() > 1
            }),
            Property::sometimes("two clients open extras at once", |_, state: &Moment| {
                pushes(state).filter(|call| call.opens()).count() > 1
            }),
            Property::sometimes("a rebalance clears the flag", |world, state: &Moment| {
                world.protocol.has_no_rebalance() || rebalances(state).any(Rebalance::has_cleared)
            }),
            Property::sometimes("a rebalance loses to another writer", |world, state: &Moment| {
                world.protocol.has_no_rebalance() || rebalances(state).any(Rebalance::has_lost)
            }),
            Property::sometimes("a client dies between the flag and the extras", |_, state: &Moment| {
                let mut clients = state.clients.iter().enumerate();
                clients.any(|(at, client)| {
                    state.is_dead(at)
                        && matches!(client, Client::Push(call) if call.is_between())
                        && state.documents.flag
                })
            }),
            Property::sometimes("a command is left that may run late", |_, state: &Moment| {
                !state.late.is_empty()
            }),
        ]
    }
}

/// Elements are below this number.
const ELEMENTS: u8 = 16;

impl Outlier {
    fn has_no_rebalance(&self) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        !clients.any(|client| matches!(client, Client::Rebalance(_)))
    }
}

/// The elements of pushes that have ended well, unless someone removes them.
fn acknowledged(state: &Moment) -> impl Iterator<Item = u8> {
    let ended = pushes(state).filter(|call| matches!(call.ended(), Some(Ended::Stored | Ended::IsThere)));
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

fn rebalances(state: &Moment) -> impl Iterator<Item = &Rebalance> {
    state.clients.iter().filter_map(|client| match client {
        Client::Rebalance(call) => Some(call),
        _ => None,
    })
}
