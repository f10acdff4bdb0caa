//! The bucket pattern: appends, opening buckets, batches, removals from full pages, and deleting a key.
//!
//! Mirrors the writes of `crates/bucket/src/write` and the chain of pages in `form`: the filters, the unique indexes,
//! the order of the commands, and the reaction to a collision.
//!
//! The model has one key. The `_id` of a bucket is a second and a suffix; the seconds are 0 and 1. An item is a number
//! whose tens are its second. Left out: sessions, damage by other programs, and the optimizations for tasks of one
//! process, so that each client is a process of its own.

pub mod append;
pub mod delete;
mod documents;
pub mod remove;
#[cfg(test)]
mod tests;

use stateright::Property;

use crate::world::{Protocol, Ran, State, World};
use append::{Append, Ended};
use delete::Delete;
pub use documents::{Buckets, Collision, Form, Page, Rules};
use remove::Remove;

/// The buckets of one key, and the clients that write to them.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The settings of the calls.
    pub rules: Rules,
    /// The initial states.
    pub starts: Vec<(Buckets, Vec<Client>)>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `append` or `append_many`.
    Append(Append),
    /// `remove_item`.
    Remove(Remove),
    /// `delete_key`.
    Delete(Delete),
}

impl Bucket {
    fn has_removals(&self) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.any(|client| matches!(client, Client::Remove(_)))
    }

    fn has_deletions(&self) -> bool {
        let mut clients = self.starts.iter().flat_map(|(_, clients)| clients);
        clients.any(|client| matches!(client, Client::Delete(_)))
    }
}

/// A state of the model.
type Moment = State<Buckets, Client>;

impl Protocol for Bucket {
    type Documents = Buckets;
    type Client = Client;

    fn starts(&self) -> Vec<(Buckets, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, buckets: &mut Buckets, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Append(call) => call.run(&self.rules, buckets),
            Client::Remove(call) => call.run(&self.rules, buckets, me),
            Client::Delete(call) => call.run(&self.rules, buckets),
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Append(call) => call.ended().is_some(),
            Client::Remove(call) => call.has_ended(),
            Client::Delete(call) => call.has_ended(),
        }
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Append(call) => call.sends(),
            Client::Remove(call) => call.sends(),
            Client::Delete(call) => call.sends(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Append(call) => call.writes(),
            Client::Remove(call) => call.writes(),
            Client::Delete(call) => call.writes(),
        }
    }

    fn is_mid_command(&self, client: &Client) -> bool {
        match client {
            Client::Append(call) => call.is_mid_command(),
            Client::Remove(_) => false,
            Client::Delete(call) => call.is_mid_command(),
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Append(call) => Client::Append(call.unknown(&self.rules)),
            Client::Remove(call) => Client::Remove(call.retry()),
            Client::Delete(call) => Client::Delete(call.retry()),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        let mut properties = of_all_states();
        properties.extend(of_deletions());
        properties
    }
}

/// Returns the invariants of all states, and the situations that some state must reach.
fn of_all_states() -> Vec<Property<World<Bucket>>> {
    vec![
        Property::always("an acknowledged item is stored once", |_, state: &Moment| {
            appends(state).all(|call| match call.ended() {
                Some(Ended::Stored | Ended::Repeated) => call
                    .items
                    .iter()
                    .all(|item| is_removed(state, *item) || state.documents.count(*item) == 1),
                _ => true,
            })
        }),
        Property::always("no item is stored twice", |_, state: &Moment| {
            let stored = state.documents.pages.iter().flat_map(|page| &page.items);
            let mut stored: Vec<u8> = stored.copied().collect();
            stored.sort_unstable();
            stored.windows(2).all(|two| two[0] != two[1])
        }),
        Property::always(
            "the items of the initial state stay, in their order",
            |world, state: &Moment| {
                // The items of the initial state are numbered in their order, below those that clients append.
                let stored = state.documents.pages.iter().flat_map(|page| &page.items);
                let first: Vec<u8> = stored.copied().filter(|item| is_first(*item)).collect();
                let in_order = first.windows(2).all(|two| two[0] < two[1]);
                let (buckets, _) = &world.protocol.starts[state.start];
                let mut then = buckets.pages.iter().flat_map(|page| &page.items);
                in_order && then.all(|item| is_removed(state, *item) || first.contains(item))
            },
        ),
        Property::always("a removed item is not stored", |_, state: &Moment| {
            removals(state).all(|call| !call.has_ended() || state.documents.count(call.item) == 0)
        }),
        Property::always("a key has at most one open bucket", |world, state: &Moment| {
            state.documents.open(&world.protocol.rules) <= 1
        }),
        Property::always(
            "a bucket has between one item and a page of items",
            |world, state: &Moment| {
                let mut pages = state.documents.pages.iter();
                pages.all(|page| (1..=world.protocol.rules.page_size).contains(&page.items.len()))
            },
        ),
        Property::always("a prefix of each batch is stored", |_, state: &Moment| {
            // Only for items that no other call appends.
            let is_exclusive = |item: &u8| {
                !is_removed(state, *item) && appends(state).filter(|call| call.items.contains(item)).count() == 1
            };
            appends(state)
                .filter(|call| call.items.iter().all(is_exclusive))
                .all(|call| {
                    let is_stored = |item: &u8| state.documents.count(*item) > 0;
                    let first = call.items.iter().take_while(|item| is_stored(item)).count();
                    !call.items[first..].iter().any(is_stored)
                })
        }),
        Property::always("no call is refused", |_, state: &Moment| {
            appends(state).all(|call| call.ended() != Some(Ended::Refused))
        }),
        Property::always(
            "without faults, all items are stored when all calls have ended",
            |world, state: &Moment| {
                !world.is_quiet(state)
                    || !state.is_without_faults(world.faults)
                    || appends(state)
                        .flat_map(|call| &call.items)
                        .all(|item| is_removed(state, *item) || state.documents.count(*item) == 1)
            },
        ),
        Property::sometimes("a second bucket is opened", |_, state: &Moment| {
            state.documents.pages.len() > 2
        }),
        Property::sometimes("two clients open a bucket concurrently", |_, state: &Moment| {
            appends(state).any(|call| call.has_collided(Collision::Open))
        }),
        Property::sometimes("an `_id` is taken", |world, state: &Moment| {
            let is_left_out = world.protocol.has_removals() || world.protocol.has_deletions();
            is_left_out || appends(state).any(|call| call.has_collided(Collision::Id))
        }),
        Property::sometimes("a repeated item is recognized", |world, state: &Moment| {
            !world.protocol.rules.item_ids || appends(state).any(|call| call.ended() == Some(Ended::Repeated))
        }),
        Property::sometimes("a client dies in the middle of a batch", |_, state: &Moment| {
            let mut clients = state.clients.iter().enumerate();
            clients.any(|(at, client)| state.is_dead(at) && matches!(client, Client::Append(call) if call.is_between()))
        }),
        Property::sometimes("a command outlives its client", |_, state: &Moment| {
            !state.late.is_empty()
        }),
        Property::sometimes("a removal loses to another writer", |world, state: &Moment| {
            !world.protocol.has_removals() || removals(state).any(Remove::is_retried)
        }),
        Property::sometimes(
            "a client dies in the middle of a transaction",
            |world, state: &Moment| {
                let mut clients = state.clients.iter().enumerate();
                !world.protocol.has_removals()
                    || clients.any(|(at, client)| {
                        state.is_dead(at) && matches!(client, Client::Remove(call) if call.commits())
                    })
            },
        ),
    ]
}

/// Returns the invariants of a deletion, and the situations that some state must reach.
fn of_deletions() -> Vec<Property<World<Bucket>>> {
    vec![
        Property::always(
            "the items at the start of a deletion are deleted when it ends",
            |world, state: &Moment| {
                // If several calls append an item, it can be stored again after it was deleted.
                let counts = |item: &&u8| {
                    let calls = appends(state).filter(|call| call.items.contains(item)).count();
                    is_first(**item) || calls == 1 && state.is_without_faults(world.faults)
                };
                let mut ended = deletions(state).filter(|call| call.has_ended());
                ended.all(|call| {
                    let mut before = call.before.iter().filter(counts);
                    before.all(|item| state.documents.count(*item) == 0)
                })
            },
        ),
        Property::always("a deletion that finds no bucket leaves none", |_, state: &Moment| {
            let mut ended = deletions(state).filter(|call| call.has_ended() && !call.found);
            ended.all(|call| {
                call.before
                    .iter()
                    .all(|item| state.documents.count(*item) == 0 || !is_first(*item))
            })
        }),
        Property::sometimes("a deletion skips a bucket", |world, state: &Moment| {
            let has_both = world.protocol.has_deletions() && world.protocol.has_removals();
            !has_both || deletions(state).any(Delete::has_skipped)
        }),
        Property::sometimes("a client dies in the middle of a deletion", |world, state: &Moment| {
            let mut clients = state.clients.iter().enumerate();
            !world.protocol.has_deletions()
                || clients.any(|(at, client)| {
                    state.is_dead(at) && matches!(client, Client::Delete(call) if call.found && !call.has_ended())
                })
        }),
        Property::sometimes(
            "an item is stored during the deletion of its key",
            |world, state: &Moment| {
                !world.protocol.has_deletions()
                    || deletions(state).any(|call| {
                        let is_new = |item: &u8| !call.before.contains(item);
                        call.found
                            && call.has_ended()
                            && state.documents.pages.iter().any(|page| page.items.iter().any(is_new))
                    })
            },
        ),
    ]
}

/// In each second, items from this number on are those of clients.
const OF_CLIENTS: u8 = 4;

fn is_first(item: u8) -> bool {
    item % 10 < OF_CLIENTS
}

fn appends(state: &Moment) -> impl Iterator<Item = &Append> {
    state.clients.iter().filter_map(|client| match client {
        Client::Append(call) => Some(call),
        _ => None,
    })
}

fn removals(state: &Moment) -> impl Iterator<Item = &Remove> {
    state.clients.iter().filter_map(|client| match client {
        Client::Remove(call) => Some(call),
        _ => None,
    })
}

fn deletions(state: &Moment) -> impl Iterator<Item = &Delete> {
    state.clients.iter().filter_map(|client| match client {
        Client::Delete(call) => Some(call),
        _ => None,
    })
}

/// Returns whether a call removes the item or deletes its key.
fn is_removed(state: &Moment, item: u8) -> bool {
    deletions(state).next().is_some() || removals(state).any(|call| call.item == item)
}
