//! The follower of the reference pattern: a source with two copies, programs that write both without a repository, updates
//! by a repository, and a follower.
//!
//! Mirrors `follow` of `crates/reference/src`. Each write appends a change to the log. The follower reads the changes so far,
//! compares the changed copies with their source, and then the changed source with its copies, and stores its position at
//! last. A fault restarts it at the stored position.
//!
//! Every order of commands leads to a state without changes, so the follower's own writes end.

#[cfg(test)]
mod tests;

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of this project, but a source is only swept: the values of its copies are not compared.
    VersionsOnly,
    /// Those of this project, but changes of copies are ignored.
    SourcesOnly,
    /// Those of this project, but the position is stored before the copies are updated.
    PositionFirst,
}

/// A source, or a copy of it: its version and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Values {
    /// The version.
    pub version: u8,
    /// The content.
    pub content: u8,
}

/// A change in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Of a copy.
    Copy(usize),
    /// Of the source: whether the values of its copies are compared, because the version was not incremented.
    Source(bool),
}

/// The stored documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Documents {
    source: Values,
    copies: [Values; 2],
    /// The changes after the position of the follower.
    log: Vec<Change>,
    transactions: Transactions,
}

impl Documents {
    /// Returns a source and its copies.
    pub fn of(source: Values, copies: [Values; 2]) -> Self {
        Self {
            source,
            copies,
            log: Vec::new(),
            transactions: Transactions::default(),
        }
    }

    /// Updates a copy if it is older, as a sweep does.
    fn sweep(&mut self, copy: usize, source: Values) {
        if self.copies[copy].version < source.version {
            self.copies[copy] = source;
            self.log.push(Change::Copy(copy));
        }
    }
}

crate::stored!(Documents);

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// Another program that writes the source with this content: without its version, or as a whole without a version.
    Source {
        /// The content.
        content: u8,
        /// Whether it replaces the source, so that the version is 0 again.
        replaces: bool,
    },
    /// Another program that writes a copy.
    Copy(usize, Values),
    /// `update_source` with this content.
    Update(u8),
    /// The sweep of an `update_source`, at a copy.
    Sweep(Values, usize),
    /// A follower.
    Follow(Follow),
    /// It has ended.
    Ended,
}

/// A follower.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Follow {
    at: At,
    /// The changes that are left of the batch, the last one first.
    todo: Vec<Change>,
    /// The number of changes of the batch.
    changes: usize,
    has_raised: bool,
    has_read_again: bool,
}

/// The next command of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Reads the changes.
    Idle,
    /// Takes the next change of the batch.
    Next,
    /// Reads the source, after this copy was read.
    SourceOf(Values),
    /// Reads the copies, after the source was read: the newest version, and then each of them.
    Copies {
        source: Values,
        compares: bool,
        reads: u8,
    },
    Compare {
        source: Values,
        copy: usize,
    },
    /// Reads the source again, after a copy of this version was found that it cannot make outdated.
    Again {
        source: Values,
        compares: bool,
        reads: u8,
        above: u8,
    },
    /// Raises the version of the source above that of a copy.
    Raise(u8),
    /// Updates older copies, from this one.
    Sweep(Values, usize),
}

impl Follow {
    /// Returns a follower.
    pub fn new() -> Self {
        Self {
            at: At::Idle,
            todo: Vec::new(),
            changes: 0,
            has_raised: false,
            has_read_again: false,
        }
    }

    fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Idle => vec!["read the server"],
            At::Next => match self.todo.last() {
                Some(Change::Copy(_)) => vec!["read orders"],
                Some(Change::Source(_)) => vec!["read customers"],
                None => vec!["upsert mongo_patterns"],
            },
            At::SourceOf(_) | At::Again { .. } => vec!["read customers"],
            At::Copies { .. } | At::Compare { copy: 0, .. } => vec!["read orders"],
            At::Raise(_) => vec!["update customers"],
            At::Sweep(_, 0) => vec!["updateMany orders"],
            At::Compare { .. } | At::Sweep(..) => Vec::new(),
        }
    }

    fn run(&mut self, form: Form, documents: &mut Documents) -> Ran {
        self.at = match self.at {
            At::Idle if documents.log.is_empty() => return Ran::Waits,
            At::Idle => self.read(form, documents),
            At::Next => match self.todo.pop() {
                Some(Change::Copy(copy)) => At::SourceOf(documents.copies[copy]),
                Some(Change::Source(compares)) => At::Copies {
                    source: documents.source,
                    compares: compares && form != Form::VersionsOnly,
                    reads: 0,
                },
                None => {
                    documents.log.drain(..self.changes);
                    At::Idle
                }
            },
            At::SourceOf(copy) => {
                let source = documents.source;
                match copy.version.cmp(&source.version) {
                    std::cmp::Ordering::Less => At::Sweep(source, 0),
                    std::cmp::Ordering::Equal if copy.content == source.content => At::Next,
                    _ => At::Raise(copy.version),
                }
            }
            At::Copies {
                source,
                compares,
                reads,
            } => {
                let newest = documents.copies.iter().map(|copy| copy.version).max();
                match newest.filter(|newest| *newest > source.version) {
                    Some(above) => At::Again {
                        source,
                        compares,
                        reads,
                        above,
                    },
                    None if compares => At::Compare { source, copy: 0 },
                    None => At::Sweep(source, 0),
                }
            }
            At::Compare { source, copy } => match documents.copies.get(copy) {
                None => At::Sweep(source, 0),
                Some(found) if found.version == source.version && found.content != source.content => {
                    let above = source.version;
                    At::Again {
                        source,
                        compares: true,
                        reads: 0,
                        above,
                    }
                }
                Some(_) => At::Compare { source, copy: copy + 1 },
            },
            At::Again {
                source,
                compares,
                reads,
                above,
            } => {
                let now = documents.source;
                if now.version > source.version && reads < 1 {
                    self.has_read_again = true;
                    At::Copies {
                        source: now,
                        compares,
                        reads: reads + 1,
                    }
                } else {
                    At::Raise(above)
                }
            }
            At::Raise(above) => {
                if documents.source.version <= above {
                    documents.source.version = above + 1;
                    documents.log.push(Change::Source(false));
                    self.has_raised = true;
                }
                At::Sweep(documents.source, 0)
            }
            At::Sweep(source, copy) if copy < documents.copies.len() => {
                documents.sweep(copy, source);
                At::Sweep(source, copy + 1)
            }
            At::Sweep(..) => At::Next,
        };
        Ran::Done
    }

    /// Reads all changes after the stored position. Those of copies are processed first, each document once.
    fn read(&mut self, form: Form, documents: &mut Documents) -> At {
        self.changes = documents.log.len();
        let mut todo = documents.log.clone();
        if form == Form::SourcesOnly {
            todo.retain(|change| matches!(change, Change::Source(_)));
        }
        todo.sort_by_key(|change| match change {
            Change::Source(compares) => (0, usize::from(!compares)),
            Change::Copy(copy) => (1, *copy),
        });
        todo.dedup_by_key(|change| match change {
            Change::Source(_) => usize::MAX,
            Change::Copy(copy) => *copy,
        });
        self.todo = todo;
        if form == Form::PositionFirst {
            documents.log.clear();
            self.changes = 0;
        }
        At::Next
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self::new()
    }
}

/// The source and its copies, and clients that write to them.
#[derive(Clone, Debug)]
pub struct Following {
    /// The commands of the follower.
    pub form: Form,
    /// The initial states.
    pub starts: Vec<(Documents, Vec<Client>)>,
}

impl Protocol for Following {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        self.starts.clone()
    }

    fn run(&self, documents: &mut Documents, _: usize, client: &mut Client) -> Ran {
        *client = match client {
            Client::Source { content, replaces } => {
                documents.source.content = *content;
                if *replaces {
                    documents.source.version = 0;
                }
                documents.log.push(Change::Source(true));
                Client::Ended
            }
            Client::Copy(copy, values) => {
                documents.copies[*copy] = *values;
                documents.log.push(Change::Copy(*copy));
                Client::Ended
            }
            Client::Update(content) => {
                documents.source.version += 1;
                documents.source.content = *content;
                documents.log.push(Change::Source(false));
                Client::Sweep(documents.source, 0)
            }
            Client::Sweep(source, copy) => {
                documents.sweep(*copy, *source);
                match *copy + 1 < documents.copies.len() {
                    true => Client::Sweep(*source, *copy + 1),
                    false => Client::Ended,
                }
            }
            Client::Follow(follow) => return follow.run(self.form, documents),
            Client::Ended => Client::Ended,
        };
        Ran::Done
    }

    fn has_ended(&self, client: &Client) -> bool {
        *client == Client::Ended
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before {
            Client::Follow(follow) => follow.sends(),
            Client::Update(_) => vec!["update customers"],
            Client::Sweep(..) => vec!["updateMany orders"],
            Client::Source { .. } | Client::Copy(..) | Client::Ended => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client {
            Client::Follow(follow) => matches!(follow.at, At::Raise(_) | At::Sweep(..)),
            _ => true,
        }
    }

    fn is_mid_command(&self, client: &Client) -> bool {
        match client {
            Client::Sweep(_, copy) => *copy > 0,
            Client::Follow(follow) => matches!(follow.at, At::Sweep(_, copy) if copy > 0),
            _ => false,
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client {
            Client::Follow(_) => Client::Follow(Follow::new()),
            _ => Client::Ended,
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always(
                "when the follower has processed all changes, every copy is current",
                |_, state: &Moment| {
                    let Documents { source, copies, .. } = &state.documents;
                    !is_idle(state) || copies.iter().all(|copy| copy == source)
                },
            ),
            Property::sometimes("the follower has processed all changes", |_, state| is_idle(state)),
            Property::sometimes("the follower raises a version", |_, state| {
                follows(state).any(|follow| follow.has_raised)
            }),
            Property::sometimes("the follower reads a source again", |world, state: &Moment| {
                world.protocol.form == Form::VersionsOnly || follows(state).any(|follow| follow.has_read_again)
            }),
            Property::sometimes("a follower was restarted within a batch", |_, state: &Moment| {
                state.faults == 0
                    && !state.documents.log.is_empty()
                    && follows(state).any(|follow| follow.at == At::Idle)
            }),
        ]
    }
}

/// A state of the model.
type Moment = State<Documents, Client>;

fn follows(state: &Moment) -> impl Iterator<Item = &Follow> {
    state.clients.iter().filter_map(|client| match client {
        Client::Follow(follow) => Some(follow),
        _ => None,
    })
}

/// Returns whether all writes have ended, and no change is left for a follower that runs.
fn is_idle(state: &Moment) -> bool {
    let mut clients = state.clients.iter().enumerate();
    let is_idle = |(at, client): (usize, &Client)| match client {
        Client::Follow(follow) => follow.at == At::Idle && !state.is_dead(at),
        client => state.is_dead(at) || *client == Client::Ended,
    };
    state.late.is_empty() && state.documents.log.is_empty() && clients.all(is_idle)
}
