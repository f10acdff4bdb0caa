//! Moving embedded children into a collection, while writers go on.
//!
//! Mirrors `FromEmbedded` of `crates/subset/src/migrate/from_embedded.rs`, the stages of `EmbeddedChildren::copy` in
//! `query/from_embedded.rs`, `rebuild` of `query/whole.rs`, and `Record` of `crates/core/src/migration/record.rs`. An aggregation is not run as a whole: each
//! of its lookups sees the server as it is by then, and what it merges is inserted one by one. Whoever changes the order
//! of its stages changes [`Mover`] here, too. The writers are those of [`crate::subset`].
//!
//! All is about one parent. Left out: the checks before, and chunks.

use stateright::Property;

use crate::subset::write::{Change, Ended, Write};
use crate::subset::{self, Child, Documents, PARENT, Parent, is_stored, name, top};
use crate::world::{Protocol, Ran, State, World};

/// The commands that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// This project's.
    Ours,
    /// Ours, but looks at the parent before it looks for what is missing.
    ParentFirst,
    /// Ours, but takes no note of which call is at work, and waits for no earlier copy.
    Unfenced,
    /// By hand: reads what is embedded, inserts it, and cuts the array, while programs go on that embed children.
    ByHand,
}

/// A parent with embedded children, calls that move them, and writers.
#[derive(Clone, Debug)]
pub struct Moving {
    /// Whose commands.
    pub form: Form,
    /// The documents and clients at the start.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `migrate_from_embedded`.
    Mover(Mover),
    /// A write by a repository.
    Write(Write),
    /// A program that embeds a child, as before the move.
    Embed(Child, bool),
}

/// A move, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mover {
    /// By which the record names it.
    run: u8,
    /// The ids that the collection has, as the copy saw them.
    there: Vec<u8>,
    /// What is embedded, as the copy or the rebuild saw it.
    parent: Parent,
    at: At,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Notes in the record that it is at work.
    Record,
    /// Waits until no copy is under way.
    Wait,
    /// The copy: whether it is still at work, by the record.
    Fence,
    /// ... which children are there.
    There,
    /// ... whether the parent is still unwritten.
    Parent,
    /// ... inserts those that are missing, one by one.
    Insert(Vec<Child>),
    /// The rebuild: the parent, if it is unwritten.
    Rebuild,
    /// ... whether all that is embedded is there.
    Found,
    /// ... the first of the children.
    Top,
    /// ... writes the parent, if it is as it was seen.
    Merge(Vec<Child>),
    /// Notes that it has come to its end.
    Finish,
    /// Whether it came to its end.
    Ended(bool),
}

impl Mover {
    /// The call, with a number of its own.
    pub fn new(run: u8) -> Self {
        Self {
            run,
            there: Vec::new(),
            parent: Parent::default(),
            at: At::Record,
        }
    }

    fn has_moved(&self) -> bool {
        self.at == At::Ended(true)
    }

    fn is_copying(&self) -> bool {
        matches!(self.at, At::There | At::Parent | At::Insert(_))
    }

    fn is_within(&self) -> bool {
        self.is_copying() || matches!(self.at, At::Found | At::Top | At::Merge(_))
    }

    fn run(&mut self, form: Form, documents: &mut Documents) -> Ran {
        self.at = match &mut self.at {
            At::Record => {
                documents.run = self.run;
                match form {
                    Form::ByHand => At::Parent,
                    Form::Unfenced => At::Fence,
                    Form::Ours | Form::ParentFirst => At::Wait,
                }
            }
            At::Wait if documents.copies > 0 => return Ran::Waits,
            At::Wait => At::Fence,
            At::Fence if documents.run != self.run && form != Form::Unfenced => At::Rebuild, // nothing to copy
            At::Fence => {
                documents.copies += 1;
                match form {
                    Form::ParentFirst => At::Parent,
                    _ => At::There,
                }
            }
            At::There => {
                self.there = documents.children.iter().map(|(id, _)| *id).collect();
                match form {
                    Form::ParentFirst => self.insert_next(form, documents),
                    _ => At::Parent,
                }
            }
            At::Parent => {
                let unwritten = documents.parent.clone().filter(Parent::is_unwritten);
                self.parent = unwritten.unwrap_or_default();
                match form {
                    Form::ParentFirst => At::There,
                    Form::ByHand if self.parent.subset.is_empty() => At::Finish,
                    Form::ByHand => At::Insert(self.parent.subset.clone()),
                    _ => self.insert_next(form, documents),
                }
            }
            At::Insert(missing) => {
                let child = missing.remove(0);
                if documents.transactions.is_held(name(child.0)) {
                    missing.insert(0, child);
                    return Ran::Waits;
                }
                if documents.has(child.0) && form != Form::ByHand {
                    // A duplicate key: the call ends, and is run again by whoever called it.
                    documents.copies -= 1;
                    At::Record
                } else {
                    documents.put(child);
                    documents.transactions.wrote(name(child.0));
                    match std::mem::take(missing) {
                        missing if missing.is_empty() => self.copied(form, documents),
                        missing => At::Insert(missing),
                    }
                }
            }
            At::Rebuild => {
                let unwritten = documents.parent.clone().filter(Parent::is_unwritten);
                match unwritten {
                    Some(parent) => {
                        self.parent = parent;
                        At::Found
                    }
                    None => At::Finish,
                }
            }
            At::Found => match self.parent.ids().iter().all(|id| documents.has(*id)) {
                true => At::Top,
                false => At::Finish,
            },
            At::Top => At::Merge(top(&documents.children)),
            At::Merge(top) => {
                let top = top.clone();
                if documents.transactions.is_held(PARENT) {
                    return Ran::Waits;
                }
                if let Some(parent) = &mut documents.parent
                    && (form == Form::ByHand || parent.is_as(&self.parent))
                {
                    *parent = Parent {
                        version: Some(parent.version.unwrap_or(0) + 1),
                        subset: top,
                        total: None,
                    };
                    documents.transactions.wrote(PARENT);
                }
                At::Finish
            }
            At::Finish => {
                let is_moved = documents.parent.as_ref().is_none_or(|parent| !parent.is_unwritten());
                At::Ended(is_moved && documents.run == self.run)
            }
            At::Ended(moved) => At::Ended(*moved),
        };
        Ran::Done
    }

    fn insert_next(&self, form: Form, documents: &mut Documents) -> At {
        let embedded = self.parent.subset.iter().copied();
        let missing: Vec<Child> = embedded.filter(|(id, _)| !self.there.contains(id)).collect();
        match missing.is_empty() {
            true => self.copied(form, documents),
            false => At::Insert(missing),
        }
    }

    fn copied(&self, form: Form, documents: &mut Documents) -> At {
        match form {
            Form::ByHand => At::Merge(top(&self.parent.subset)),
            _ => {
                documents.copies -= 1;
                At::Rebuild
            }
        }
    }
}

/// The documents and clients at a moment.
type Moment = State<Documents, Client>;

impl Protocol for Moving {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Mover(mover) => mover.run(self.form, documents),
            Client::Write(call) => call.run(subset::Form::Ours, false, documents, me),
            Client::Embed(child, has_ended) => {
                if let Some(parent) = &mut documents.parent {
                    parent.subset.push(*child);
                }
                *has_ended = true;
                Ran::Done
            }
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Mover(mover) => matches!(mover.at, At::Ended(_)),
            Client::Write(call) => call.ended().is_some(),
            Client::Embed(_, has_ended) => *has_ended,
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Mover(mover) => !matches!(mover.at, At::Wait | At::Finish),
            Client::Write(call) => call.writes(),
            Client::Embed(..) => false,
        }
    }

    fn is_within(&self, client: &Client) -> bool {
        matches!(client, Client::Mover(mover) if mover.is_within())
    }

    fn stopped(&self, documents: &mut Documents, client: &Client) {
        if let Client::Mover(mover) = client
            && mover.is_copying()
            && self.form != Form::ByHand
        {
            documents.copies -= 1;
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Mover(mover) => Client::Mover(Mover::new(mover.run + AGAIN)),
            Client::Write(call) => Client::Write(call.again(subset::Form::Ours)),
            Client::Embed(child, _) => Client::Embed(*child, true),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("no child is lost", |world, state: &Moment| {
                let (start, _) = &world.protocol.starts[state.start];
                let embedded = start.parent.iter().flat_map(|parent| &parent.subset);
                let stored = start.children.iter().chain(embedded).map(|(id, _)| *id);
                let new = state.clients.iter().filter_map(|client| match client {
                    Client::Embed((id, _), true) => Some(*id),
                    _ => None,
                });
                stored
                    .chain(new)
                    .all(|id| is_deleted(state, id) || is_kept(&state.documents, id))
            }),
            Property::always("an acknowledged write is stored", |_, state: &Moment| {
                writes(state).all(|call| is_stored(&state.documents, call))
            }),
            Property::always(
                "when all calls have returned, the parent is right",
                |world, state: &Moment| !world.is_quiet(state) || state.dead != 0 || state.documents.is_right(false),
            ),
            Property::always("a move that ends well has moved all", |_, state: &Moment| {
                let mut clients = state.clients.iter();
                let has_moved = clients.any(|client| matches!(client, Client::Mover(mover) if mover.has_moved()));
                let parent = state.documents.parent.as_ref();
                !has_moved || parent.is_none_or(|parent| !parent.is_unwritten())
            }),
            Property::always("another call finishes what is left", |world, state: &Moment| {
                if !world.is_quiet(state) {
                    return true;
                }
                let (mut documents, mut mover) = (state.documents.clone(), Mover::new(u8::MAX));
                while !matches!(mover.at, At::Ended(_)) {
                    mover.run(Form::Ours, &mut documents);
                }
                let mut ids = writes(state).filter_map(|call| match (call.ended(), call.change) {
                    (Some(Ended::Done), Change::Delete(id)) => Some(id),
                    _ => None,
                });
                mover.has_moved() && ids.all(|id| !documents.has(id))
            }),
            Property::sometimes(
                "a write is refused before the move comes to the parent",
                |_, state: &Moment| writes(state).any(|call| call.ended() == Some(Ended::NotMigrated)),
            ),
            Property::sometimes("a write is done after it", |_, state: &Moment| {
                writes(state).any(|call| call.ended() == Some(Ended::Done))
            }),
            Property::sometimes(
                "a call dies in the middle of its copy, which goes on",
                |_, state: &Moment| {
                    let mut late = state.late.iter();
                    late.any(|client| matches!(client, Client::Mover(mover) if mover.is_copying()))
                },
            ),
            Property::sometimes("two copies follow each other", |_, state: &Moment| {
                let movers = state.clients.iter().filter(|client| matches!(client, Client::Mover(_)));
                movers.count() > 1 && state.documents.copies > 0
            }),
        ]
    }
}

/// What a call's number grows by when it is called again.
const AGAIN: u8 = 10;

fn is_kept(documents: &Documents, id: u8) -> bool {
    let parent = documents.parent.as_ref();
    documents.has(id) || parent.is_some_and(|parent| parent.is_unwritten() && parent.ids().contains(&id))
}

fn is_deleted(state: &Moment, id: u8) -> bool {
    writes(state).any(|call| call.change == Change::Delete(id))
}

fn writes(state: &Moment) -> impl Iterator<Item = &Write> {
    state.clients.iter().filter_map(|client| match client {
        Client::Write(call) => Some(call),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{explore, is_long};
    use crate::subset::write::Mode;

    fn write(change: Change) -> Client {
        Client::Write(Write::new(subset::Form::Ours, Mode::Eventual, change))
    }

    fn mover(run: u8) -> Client {
        Client::Mover(Mover::new(run))
    }

    #[test]
    fn nothing_is_lost_and_nothing_comes_back() {
        use Change::{Delete, Insert, Update};
        let mut children = vec![(0, 9), (1, 8)];
        if is_long() {
            children.push((2, 5));
        }
        let embedded = Documents::embedded(&children);
        let half = Documents {
            children: vec![(0, 9)],
            ..embedded.clone()
        };
        let in_transaction = Client::Write(Write::new(subset::Form::Ours, Mode::Transactional, Delete(1)));
        let mut starts = vec![
            (embedded.clone(), vec![mover(1), mover(2), write(Delete(0))]),
            (embedded.clone(), vec![mover(1), in_transaction, write(Delete(0))]),
            (half.clone(), vec![mover(1), write(Update((1, 2)))]),
        ];
        if is_long() {
            starts.extend([
                (
                    embedded.clone(),
                    vec![mover(1), write(Delete(0)), write(Insert((3, 7)))],
                ),
                (embedded, vec![mover(1), write(Delete(1)), write(Update((0, 2)))]),
                (half, vec![mover(1), mover(2), write(Delete(1))]),
            ]);
        }
        let moving = Moving {
            form: Form::Ours,
            starts,
        };
        explore(moving).assert_right(10_000);
    }

    /// Two calls, of which one dies, and a child that is deleted.
    fn one_child(form: Form) -> Moving {
        let embedded = Documents::embedded(&[(0, 9)]);
        Moving {
            form,
            starts: vec![(embedded, vec![mover(1), mover(2), write(Change::Delete(0))])],
        }
    }

    #[test]
    fn with_the_parent_first_a_deleted_child_comes_back() {
        explore(one_child(Form::ParentFirst)).assert_wrong(&["an acknowledged write is stored"]);
    }

    #[test]
    fn without_the_record_an_earlier_copy_brings_a_deleted_child_back() {
        explore(one_child(Form::Unfenced)).assert_wrong(&["an acknowledged write is stored"]);
    }

    #[test]
    fn by_hand_a_child_that_is_embedded_meanwhile_is_lost() {
        let embedded = Documents::embedded(&[(0, 9), (1, 8), (2, 5)]);
        let by_hand = Moving {
            form: Form::ByHand,
            starts: vec![(embedded, vec![mover(1), Client::Embed((3, 1), false)])],
        };
        explore(by_hand).assert_wrong(&["no child is lost"]);
    }
}
