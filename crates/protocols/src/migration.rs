//! Migrating embedded children into a collection with concurrent writers.
//!
//! Mirrors `migrate_from_embedded` in `crates/subset/src/migrate`, the stages of its copy and of `refresh_all` in
//! `query`, and the record of a migration in `crates/core`. The server does not run an aggregation atomically: each of
//! its lookups sees the documents of that moment, and the merge inserts one document after the other. The writers are those of [`crate::subset`].
//!
//! The model has one parent. Left out: the checks before the migration, and chunks.

mod embedded;

use stateright::Property;

use self::embedded::{are_kept, change_embedded, is_refused};
use crate::subset::write::{Change, Ended, Write};
use crate::subset::{self, Child, Documents, PARENT, Parent, is_stored, name, top};
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// The same, but reads the parent before it reads which children are missing.
    ParentFirst,
    /// The same, but does not record which call is active, and does not wait for an earlier copy.
    Unfenced,
    /// The same, but does not mark the parent, which repositories of embedded children refuse.
    Unmarked,
    /// A script: reads the embedded children, inserts them and truncates the array, while programs continue to embed
    /// children.
    Script,
}

/// A parent with embedded children, calls that migrate them, and writers.
#[derive(Clone, Debug)]
pub struct Migration {
    /// Whose commands the clients send.
    pub form: Form,
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// `migrate_from_embedded`.
    Migrate(Migrate),
    /// A write by a repository.
    Write(Write),
    /// A change of the embedded children by their repository, as before the migration, or by a script, and whether it is
    /// acknowledged.
    Embed(Change, Option<bool>),
}

/// A migration and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Migrate {
    /// Its name in the record.
    run: u8,
    /// The ids in the collection, as the copy read them.
    stored_ids: Vec<u8>,
    /// The parent, as the copy or the rebuild read it.
    parent: Parent,
    at: At,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Writes to the record that it is active.
    Record,
    /// Waits until no copy is active.
    Wait,
    /// Marks the parent, if it is unmanaged. Gives it a version, if it has neither children nor a mark.
    Mark,
    /// The copy: reads in the record whether it is still the active one.
    Fence,
    /// The copy: reads which children the collection has.
    StoredIds,
    /// The copy: reads whether the parent is still unmanaged.
    Parent,
    /// The copy: inserts the missing children, one by one.
    Insert(Vec<Child>),
    /// The rebuild: reads the parent, if it is unmanaged.
    Rebuild,
    /// The rebuild: reads whether the collection has all embedded children.
    Found,
    /// The rebuild: reads the first children.
    Top,
    /// The rebuild: writes the parent, if it is as it was read.
    Merge(Vec<Child>),
    /// Writes to the record that it is finished.
    Finish,
    /// Ended, and whether it finished.
    Ended(bool),
}

impl Migrate {
    /// Returns the call, with a number of its own.
    pub fn new(run: u8) -> Self {
        Self {
            run,
            stored_ids: Vec::new(),
            parent: Parent::default(),
            at: At::Record,
        }
    }

    fn has_migrated(&self) -> bool {
        self.at == At::Ended(true)
    }

    fn is_mid_copy(&self) -> bool {
        matches!(self.at, At::StoredIds | At::Parent | At::Insert(_))
    }

    fn is_mid_command(&self) -> bool {
        self.is_mid_copy() || matches!(self.at, At::Found | At::Top | At::Merge(_))
    }

    fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Record => vec!["upsert mongo_patterns"],
            At::Wait => vec!["read the server"],
            At::Mark => vec!["updateMany product"],
            At::Fence => vec!["merge product into review"],
            At::Rebuild => vec!["merge product into product"],
            At::Finish => vec!["update mongo_patterns"],
            At::StoredIds | At::Parent | At::Insert(_) | At::Found | At::Top | At::Merge(_) | At::Ended(_) => {
                Vec::new()
            }
        }
    }

    fn run(&mut self, form: Form, documents: &mut Documents) -> Ran {
        self.at = match &mut self.at {
            At::Record => {
                documents.run = self.run;
                match form {
                    Form::Script => At::Parent,
                    Form::Unfenced => At::Fence,
                    Form::Ours | Form::ParentFirst | Form::Unmarked => At::Wait,
                }
            }
            At::Wait if documents.copies > 0 => return Ran::Waits,
            At::Wait if form == Form::Unmarked => At::Fence,
            At::Wait => At::Mark,
            At::Mark if documents.transactions.is_locked(PARENT) => return Ran::Waits,
            At::Mark => {
                if let Some(parent) = documents.parent.as_mut().filter(|parent| parent.version.is_none()) {
                    let embeds_none = !parent.is_unmanaged();
                    parent.version = Some(1).filter(|_| embeds_none && !documents.marked);
                    documents.marked |= !embeds_none;
                    documents.transactions.wrote(PARENT);
                }
                At::Fence
            }
            At::Fence if documents.run != self.run && form != Form::Unfenced => At::Rebuild, // no copy needed
            At::Fence => {
                documents.copies += 1;
                match form {
                    Form::ParentFirst => At::Parent,
                    _ => At::StoredIds,
                }
            }
            At::StoredIds => {
                self.stored_ids = documents.children.iter().map(|(id, _)| *id).collect();
                match form {
                    Form::ParentFirst => self.insert_next(form, documents),
                    _ => At::Parent,
                }
            }
            At::Parent => {
                let unmanaged = documents.parent.clone().filter(Parent::is_unmanaged);
                self.parent = unmanaged.unwrap_or_default();
                match form {
                    Form::ParentFirst => At::StoredIds,
                    Form::Script if self.parent.subset.is_empty() => At::Finish,
                    Form::Script => At::Insert(self.parent.subset.clone()),
                    _ => self.insert_next(form, documents),
                }
            }
            At::Insert(missing) => {
                let child = missing.remove(0);
                if documents.transactions.is_locked(name(child.0)) {
                    missing.insert(0, child);
                    return Ran::Waits;
                }
                if documents.has(child.0) && form != Form::Script {
                    // A duplicate key: the call ends, and its caller retries it.
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
                let unmanaged = documents.parent.clone().filter(Parent::is_unmanaged);
                match unmanaged {
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
                if documents.transactions.is_locked(PARENT) {
                    return Ran::Waits;
                }
                if let Some(parent) = &mut documents.parent
                    && (form == Form::Script || parent.is_as(&self.parent))
                {
                    *parent = Parent {
                        version: Some(parent.version.unwrap_or(0) + 1),
                        subset: top,
                        total: None,
                        lowest: None,
                    };
                    documents.transactions.wrote(PARENT);
                }
                At::Finish
            }
            At::Finish => {
                let is_migrated = documents.parent.as_ref().is_none_or(|parent| !parent.is_unmanaged());
                At::Ended(is_migrated && documents.run == self.run)
            }
            At::Ended(migrated) => At::Ended(*migrated),
        };
        Ran::Done
    }

    fn insert_next(&self, form: Form, documents: &mut Documents) -> At {
        let embedded = self.parent.subset.iter().copied();
        let missing: Vec<Child> = embedded.filter(|(id, _)| !self.stored_ids.contains(id)).collect();
        match missing.is_empty() {
            true => self.copied(form, documents),
            false => At::Insert(missing),
        }
    }

    fn copied(&self, form: Form, documents: &mut Documents) -> At {
        match form {
            Form::Script => At::Merge(top(&self.parent.subset)),
            _ => {
                documents.copies -= 1;
                At::Rebuild
            }
        }
    }
}

/// A state of the model.
type Moment = State<Documents, Client>;

impl Protocol for Migration {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match client {
            Client::Migrate(migrate) => migrate.run(self.form, documents),
            Client::Write(call) => call.run(subset::Form::Ours, false, documents, me),
            Client::Embed(_, acknowledged) if self.form != Form::Script && is_refused(documents) => {
                *acknowledged = Some(false);
                Ran::Done
            }
            Client::Embed(..) if documents.transactions.is_locked(PARENT) => Ran::Waits,
            Client::Embed(change, acknowledged) => {
                change_embedded(documents, *change);
                documents.transactions.wrote(PARENT);
                *acknowledged = Some(true);
                Ran::Done
            }
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        match client {
            Client::Migrate(migrate) => matches!(migrate.at, At::Ended(_)),
            Client::Write(call) => call.ended().is_some(),
            Client::Embed(_, acknowledged) => acknowledged.is_some(),
        }
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Migrate(migrate) => migrate.sends(),
            Client::Write(call) => call.sends(false),
            Client::Embed(..) => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Migrate(migrate) => !matches!(migrate.at, At::Wait | At::Finish),
            Client::Write(call) => call.writes(),
            Client::Embed(..) => false,
        }
    }

    fn is_mid_command(&self, client: &Client) -> bool {
        matches!(client, Client::Migrate(migrate) if migrate.is_mid_command())
    }

    fn stopped(&self, documents: &mut Documents, client: &Client) {
        if let Client::Migrate(migrate) = client
            && migrate.is_mid_copy()
            && self.form != Form::Script
        {
            documents.copies -= 1;
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Migrate(migrate) => Client::Migrate(Migrate::new(migrate.run + AGAIN)),
            Client::Write(call) => Client::Write(call.retry(subset::Form::Ours)),
            Client::Embed(change, _) => Client::Embed(*change, Some(false)),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("no child is lost", |world, state: &Moment| {
                let (start, _) = &world.protocol.starts[state.start];
                let initial = start.parent.iter().flat_map(|parent| &parent.subset);
                let stored = start.children.iter().chain(initial).map(|(id, _)| *id);
                let new = embedded(state).filter_map(|change| match change {
                    Change::Insert((id, _)) => Some(id),
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
                "an acknowledged change of an embedded child is kept",
                |_, state: &Moment| are_kept(&state.documents, embedded(state)),
            ),
            Property::always(
                "when all calls have returned, the parent is correct",
                |world, state: &Moment| !world.is_quiet(state) || state.dead != 0 || state.documents.is_correct(false),
            ),
            Property::always("a finished migration has migrated all children", |_, state: &Moment| {
                let mut clients = state.clients.iter();
                let has_migrated =
                    clients.any(|client| matches!(client, Client::Migrate(migrate) if migrate.has_migrated()));
                let parent = state.documents.parent.as_ref();
                !has_migrated || parent.is_none_or(|parent| !parent.is_unmanaged())
            }),
            Property::always(
                "another call finishes an interrupted migration",
                |world, state: &Moment| {
                    if !world.is_quiet(state) {
                        return true;
                    }
                    let (mut documents, mut migrate) = (state.documents.clone(), Migrate::new(u8::MAX));
                    while !matches!(migrate.at, At::Ended(_)) {
                        migrate.run(Form::Ours, &mut documents);
                    }
                    let mut ids = writes(state).filter_map(|call| match (call.ended(), call.change) {
                        (Some(Ended::Done), Change::Delete(id)) => Some(id),
                        _ => None,
                    });
                    migrate.has_migrated() && ids.all(|id| !documents.has(id))
                },
            ),
            Property::sometimes(
                "a write is refused before the migration of its parent",
                |_, state: &Moment| writes(state).any(|call| call.ended() == Some(Ended::NotMigrated)),
            ),
            Property::sometimes(
                "a write succeeds after the migration of its parent",
                |_, state: &Moment| writes(state).any(|call| call.ended() == Some(Ended::Done)),
            ),
            Property::sometimes(
                "a call dies in the middle of its copy, which continues",
                |_, state: &Moment| {
                    let mut late = state.late.iter();
                    late.any(|client| matches!(client, Client::Migrate(migrate) if migrate.is_mid_copy()))
                },
            ),
            Property::sometimes("two copies follow each other", |_, state: &Moment| {
                let migrations = state
                    .clients
                    .iter()
                    .filter(|client| matches!(client, Client::Migrate(_)));
                migrations.count() > 1 && state.documents.copies > 0
            }),
        ]
    }
}

/// The increment of a call's number when it is retried.
const AGAIN: u8 = 10;

fn is_kept(documents: &Documents, id: u8) -> bool {
    let parent = documents.parent.as_ref();
    documents.has(id) || parent.is_some_and(|parent| parent.is_unmanaged() && parent.ids().contains(&id))
}

fn is_deleted(state: &Moment, id: u8) -> bool {
    writes(state).any(|call| call.change == Change::Delete(id))
        || embedded(state).any(|change| change == Change::Delete(id))
}

/// Returns the acknowledged changes of embedded children.
fn embedded(state: &Moment) -> impl Iterator<Item = Change> {
    state.clients.iter().filter_map(|client| match client {
        Client::Embed(change, Some(true)) => Some(*change),
        _ => None,
    })
}

fn writes(state: &Moment) -> impl Iterator<Item = &Write> {
    state.clients.iter().filter_map(|client| match client {
        Client::Write(call) => Some(call),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
