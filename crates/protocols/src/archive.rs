//! A document that is archived and restored beside a writer and a reader.
//!
//! Mirrors `transfer.rs`, `action/get.rs` and `action/restore.rs` in `crates/archive/src`.
//!
//! The writer adds its number to the document, by `_id`, as an application does. The number is there once, whatever a retry
//! does, as with `$addToSet`.

pub mod files;
pub mod wholes;

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Read, delete and insert in a transaction.
    Transaction,
    /// The same, and a reader that reads each collection once.
    ShortRead,
    /// `$merge`, and `deleteMany`.
    Merge,
    /// The same, and the merge keeps an archived document.
    KeepExisting,
}

/// A move, a writer, and a further call.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Whose commands they send.
    pub form: Form,
}

/// The bits of the document in each collection, for the transactions.
const NAMES: [u64; 2] = [1, 2];

/// What the server stores: the document in the collection and in the archive, with the numbers of writers as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    stored: [Option<u8>; 2],
    transactions: Transactions,
}

crate::stored!(Documents);

impl Documents {
    fn store(&mut self, collection: usize, document: Option<u8>) {
        self.stored[collection] = document;
        self.transactions.wrote(NAMES[collection]);
    }

    /// Returns what a reader reads.
    fn read(&self) -> u8 {
        self.stored[0].or(self.stored[1]).unwrap_or_default()
    }

    fn is_in_one(&self) -> bool {
        self.stored[0].is_some() != self.stored[1].is_some()
    }
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    call: Call,
    at: At,
}

/// What a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// An update of the application, with the bit of the writer.
    Update(u8),
    /// `run` from collection 0, or `restore` from collection 1.
    Move(usize),
    /// `get`.
    Get,
}

/// The next command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Sends its first command.
    Begin,
    /// Deletes the document that was read, or copied.
    Delete(u8),
    /// Inserts it.
    Insert(u8),
    Commit(u8),
    /// Reads the archive.
    Archive,
    /// Reads the collection again.
    Again,
    Done,
    /// There was no document.
    Missing,
}

impl Client {
    fn of(call: Call) -> Self {
        Self { call, at: At::Begin }
    }
}

impl Archive {
    fn is_in_transaction(&self) -> bool {
        matches!(self.form, Form::Transaction | Form::ShortRead)
    }

    fn next(&self, documents: &mut Documents, me: usize, client: &Client) -> Option<At> {
        let found = |document: Option<u8>, otherwise| if document.is_some() { At::Done } else { otherwise };
        Some(match (client.at, client.call) {
            (At::Begin, Call::Update(_)) if documents.transactions.is_locked(NAMES[0]) => return None,
            (At::Begin, Call::Update(bit)) => match documents.stored[0] {
                None => At::Missing,
                Some(bits) => {
                    documents.store(0, Some(bits | bit));
                    At::Done
                }
            },
            (At::Begin, Call::Get) => found(documents.stored[0], At::Archive),
            (At::Archive, _) => found(
                documents.stored[1],
                if self.form == Form::ShortRead {
                    At::Missing
                } else {
                    At::Again
                },
            ),
            (At::Again, _) => found(documents.stored[0], At::Missing),
            (At::Begin, Call::Move(from)) => match documents.stored[from] {
                None => At::Done,
                Some(bits) if self.is_in_transaction() => {
                    documents.transactions.begin(me);
                    At::Delete(bits)
                }
                Some(bits) => {
                    let keeps = self.form == Form::KeepExisting && documents.stored[1 - from].is_some();
                    if !keeps {
                        documents.store(1 - from, Some(bits));
                    }
                    At::Delete(bits)
                }
            },
            (At::Delete(bits), Call::Move(from)) if self.is_in_transaction() => {
                match documents.transactions.write(me, NAMES[from]) {
                    true => At::Insert(bits),
                    false => At::Begin,
                }
            }
            (At::Delete(_), Call::Move(from)) => {
                documents.store(from, None);
                At::Done
            }
            (At::Insert(bits), Call::Move(from)) => match documents.transactions.write(me, NAMES[1 - from]) {
                true => At::Commit(bits),
                false => At::Begin,
            },
            (At::Commit(bits), Call::Move(from)) => {
                documents.transactions.commit(me);
                documents.store(from, None);
                documents.store(1 - from, Some(bits));
                At::Done
            }
            (at, _) => at,
        })
    }
}

impl Protocol for Archive {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        let start = |archived: bool, calls: &[Call]| {
            let mut documents = Documents::default();
            documents.stored[usize::from(archived)] = Some(0);
            (documents, calls.iter().copied().map(Client::of).collect())
        };
        let mut starts = vec![
            start(false, &[Call::Update(1), Call::Move(0), Call::Move(0)]),
            start(false, &[Call::Update(1), Call::Move(0), Call::Get]),
        ];
        if self.is_in_transaction() {
            starts.push(start(false, &[Call::Update(1), Call::Move(0), Call::Move(1)]));
            starts.push(start(true, &[Call::Update(1), Call::Move(1), Call::Get]));
        }
        starts
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match self.next(documents, me, client) {
            Some(next) => {
                client.at = next;
                Ran::Done
            }
            None => Ran::Waits,
        }
    }

    fn has_ended(&self, client: &Client) -> bool {
        matches!(client.at, At::Done | At::Missing)
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match (before.at, before.call) {
            (At::Begin, Call::Move(0)) => vec!["begin: read sales"],
            (At::Begin, Call::Move(_)) => vec!["begin: read archived_sales"],
            (At::Delete(_), Call::Move(0)) => vec!["then: deleteMany sales"],
            (At::Delete(_), _) => vec!["then: deleteMany archived_sales"],
            (At::Insert(_), Call::Move(0)) => vec!["then: insert archived_sales"],
            (At::Insert(_), _) => vec!["then: insert sales"],
            (At::Commit(_), _) => vec!["then: commitTransaction"],
            (At::Begin, Call::Get) | (At::Again, _) => vec!["read sales"],
            (At::Archive, _) => vec!["read archived_sales"],
            (At::Begin, Call::Update(_)) | (At::Done | At::Missing, _) => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client.at {
            At::Begin => matches!(client.call, Call::Update(_)) || !self.is_in_transaction(),
            At::Delete(_) => !self.is_in_transaction(),
            _ => false,
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        Client::of(client.call)
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("an acknowledged write is read", |_, state: &Moment| {
                state.clients.iter().all(|client| match client {
                    Client {
                        call: Call::Update(bit),
                        at: At::Done,
                    } => state.documents.read() & bit != 0,
                    _ => true,
                })
            }),
            Property::always("the document is in one collection", |_, state: &Moment| {
                state.documents.is_in_one()
            }),
            Property::always("a reader finds the document", |_, state: &Moment| {
                !state
                    .clients
                    .iter()
                    .any(|client| client.call == Call::Get && client.at == At::Missing)
            }),
            Property::sometimes("the writer comes too late", |_, state: &Moment| {
                state
                    .clients
                    .iter()
                    .any(|client| matches!(client.call, Call::Update(_)) && client.at == At::Missing)
            }),
            Property::sometimes("the document is archived with the write", |_, state: &Moment| {
                state.documents.stored == [None, Some(1)]
            }),
        ]
    }
}

/// A state of the model.
type Moment = State<Documents, Client>;

#[cfg(test)]
mod tests;
