//! The invariants of all states, and the situations that some state must reach.

use stateright::Property;

use super::append::Ended;
use super::remove::Remove;
use super::{Bucket, Client, Collision, Moment, Page, appends, bytes, deletions, is_first, removals};
use crate::world::World;

pub(super) fn properties() -> Vec<Property<World<Bucket>>> {
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
            state.documents.open(&world.protocol) <= 1
        }),
        Property::always(
            "a bucket has between one item and a page of items",
            |world, state: &Moment| {
                let mut pages = state.documents.pages.iter();
                pages.all(|page| (1..=world.protocol.page_size).contains(&page.items.len()))
            },
        ),
        Property::always(
            "a bucket of several items does not exceed the bound",
            |world, state: &Moment| {
                let exceeds = |page: &Page| world.protocol.most.is_some_and(|most| bytes(&page.items) > most);
                let mut pages = state.documents.pages.iter();
                pages.all(|page| page.items.len() == 1 || !exceeds(page))
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
        Property::sometimes("a bucket is closed", |world, state: &Moment| {
            world.protocol.most.is_none() || state.documents.pages.iter().any(|page| page.closed)
        }),
        Property::sometimes("two clients open a bucket concurrently", |_, state: &Moment| {
            appends(state).any(|call| call.has_collided(Collision::Open))
        }),
        Property::sometimes("an `_id` is taken", |world, state: &Moment| {
            let is_left_out = world.protocol.has_removals() || world.protocol.has_deletions();
            is_left_out || appends(state).any(|call| call.has_collided(Collision::Id))
        }),
        Property::sometimes("a repeated item is recognized", |world, state: &Moment| {
            !world.protocol.item_ids || appends(state).any(|call| call.ended() == Some(Ended::Repeated))
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

/// Returns whether a call removes the item or deletes its key.
fn is_removed(state: &Moment, item: u8) -> bool {
    deletions(state).next().is_some() || removals(state).any(|call| call.item == item)
}
