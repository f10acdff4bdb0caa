//! The outlier pattern: pushes, overflow documents, removals, refreshes and deletes.
//!
//! Mirrors `crates/outlier/src`: `write`, the rewrites in `repair`, and `form/layout.rs`: what each command matches and
//! changes, what its transaction writes, and the reaction to a conflict.
//!
//! The model has one document. Elements are numbers. Left out: sessions, standalones, sizes in bytes, damage by other
//! programs, and the optimizations for tasks of one process, so that each client is a process of its own.

pub mod delete;
mod documents;
pub mod push;
pub mod refresh;
pub mod remove;
#[cfg(test)]
mod tests;
pub mod update;

use stateright::Property;

use crate::world::{Protocol, Ran, State, World};
use delete::Delete;
pub use documents::{CAP, Documents, Extra, Form, Rules, THRESHOLD};
use documents::{ELEMENTS, is_same};
use push::{Ended, Push};
use refresh::Refresh;
use remove::Remove;
use update::{Outcome, Update};

/// A document with its overflow documents, and clients that write to it.
#[derive(Clone, Debug)]
pub struct Outlier {
    /// The settings of the calls.
    pub rules: Rules,
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `push`, `push_many` or `push_unique`.
    Push(Push),
    /// `remove`.
    Remove(Remove),
    /// `refresh`.
    Refresh(Refresh),
    /// `delete`.
    Delete(Delete),
    /// `update_element`.
    Update(Update),
}

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
            Client::Push(call) => call.run(&self.rules, documents, me),
            Client::Remove(call) => call.run(documents),
            Client::Refresh(call) => call.run(&self.rules, documents, me),
            Client::Delete(call) => call.run(self.rules.form, self.rules.unique, documents, me),
            Client::Update(call) => call.run(self.rules.form, documents),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Push(call) => call.ended().is_some(),
            Client::Remove(call) => call.has_ended(),
            Client::Refresh(call) => call.has_ended(),
            Client::Delete(call) => call.has_ended(),
            Client::Update(call) => call.ended().is_some(),
        }
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Push(call) => call.sends(),
            Client::Remove(call) => call.sends(),
            Client::Refresh(call) => call.sends(),
            Client::Delete(call) => call.sends(),
            Client::Update(call) => call.sends(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Push(call) => call.writes(),
            Client::Remove(call) => call.writes(),
            Client::Refresh(call) => call.writes(),
            Client::Delete(call) => call.writes(),
            Client::Update(call) => call.writes(),
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Push(call) => Client::Push(call.unknown(&self.rules)),
            Client::Remove(call) => Client::Remove(Remove::new(call.element)),
            Client::Refresh(_) => Client::Refresh(Refresh::default()),
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
                // A unique element can be stored twice for a moment, and after a fault until a refresh.
                let may_be = world.protocol.rules.unique && (!world.is_quiet(state) || state.faults < world.faults);
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
            Property::always("a refresh repairs every final state", |world, state: &Moment| {
                if !world.is_quiet(state) || !state.documents.exists {
                    return true;
                }
                let mut documents = state.documents.clone();
                refresh::apply_now(&world.protocol.rules, &mut documents);
                (0..ELEMENTS).all(|element| documents.count(element) == state.documents.count(element).min(1))
                    && refresh::is_correct(&documents)
            }),
            Property::sometimes("overflow documents are opened", |_, state: &Moment| {
                pushes(state).any(Push::opens) || state.documents.extras.len() > 1
            }),
            Property::sometimes(
                "two clients open overflow documents concurrently",
                |_, state: &Moment| pushes(state).filter(|call| call.opens()).count() > 1,
            ),
            Property::sometimes("a refresh clears the flag", |world, state: &Moment| {
                world.protocol.has_no_refresh() || refreshes(state).any(Refresh::has_cleared)
            }),
            Property::sometimes("a refresh loses to another writer", |world, state: &Moment| {
                world.protocol.has_no_refresh() || refreshes(state).any(Refresh::is_retried)
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

impl Outlier {
    fn has_no_refresh(&self) -> bool {
        self.has_no(|client| matches!(client, Client::Refresh(_)))
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

fn refreshes(state: &Moment) -> impl Iterator<Item = &Refresh> {
    state.clients.iter().filter_map(|client| match client {
        Client::Refresh(call) => Some(call),
        _ => None,
    })
}
