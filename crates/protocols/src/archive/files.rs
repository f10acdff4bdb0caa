//! A document that is archived in a file, and restored.
//!
//! Mirrors `transfer.rs`, `files.rs` and `action/restore.rs` in `crates/archive-files/src`.

use stateright::Property;

use crate::check::is_long;
use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of the library.
    Recorded,
    /// A file is discarded by a read of its record, which does not wait for a transaction.
    Unfenced,
    /// The transaction stores a record in any state.
    Unguarded,
    /// The transaction does not read the document again.
    Unread,
    /// The file is written after the transaction.
    WrittenLast,
}

/// Runs, restores, a writer, and a server that ends the transaction of a paused process.
#[derive(Clone, Debug)]
pub struct Files {
    /// Whose commands they send.
    pub form: Form,
}

const HOT: u64 = 1;
/// How often a call is tried.
const TRIES: u8 = 2;
/// The most files of a run of the model.
const FILES: usize = 7;

/// The state of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Record {
    Pending,
    Stored,
    Deleted,
}

/// What the server and the store have: the document with the numbers of writers as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    hot: Option<u8>,
    records: [Option<Record>; FILES],
    files: [Option<u8>; FILES],
    /// How many names of files are used.
    used: usize,
    transactions: Transactions,
}

crate::stored!(Documents);

impl Documents {
    fn stored(&self) -> Option<usize> {
        self.records.iter().position(|record| *record == Some(Record::Stored))
    }

    fn read(&self) -> u8 {
        let filed = self.stored().and_then(|file| self.files[file]);
        self.hot.or(filed).unwrap_or_default()
    }

    fn set(&mut self, file: usize, record: Option<Record>) {
        self.records[file] = record;
        self.transactions.wrote(bit(file));
    }
}

fn bit(file: usize) -> u64 {
    2 << file
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    call: Call,
    tries: u8,
    at: At,
}

/// What a client calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// An update of the application, with the bit of the writer.
    Update(u8),
    Run,
    Restore,
    /// The server ends the transaction of client 0, which took too long.
    EndTransaction,
}

/// What a call does after it has removed a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then {
    /// Discards the next one that is left.
    Left,
    Again,
    Done,
}

/// The next command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Begin,
    /// Marks a file as deleted unless it is stored.
    Discard(usize, Then),
    RemoveFile(usize, Then),
    RemoveRecord(usize, Then),
    /// Reads the document.
    Read,
    Record(u8),
    Write(usize, u8),
    /// Begins the transaction: updates the record, and reads the document again.
    Open(usize, u8),
    Delete(usize, u8),
    Commit(usize, u8),
    /// Reads the file.
    Load(usize),
    /// Begins the transaction: updates the record, and inserts the document.
    Insert(usize, u8),
    Done,
    /// There was no document, or it was there already.
    Missing,
    GaveUp,
    /// A stored record without its file.
    Corrupt,
}

impl Client {
    fn of(call: Call) -> Self {
        Self {
            call,
            tries: TRIES,
            at: At::Begin,
        }
    }

    fn again(&self) -> Self {
        match self.tries {
            1 => Self {
                at: At::GaveUp,
                ..self.clone()
            },
            _ => Self {
                tries: self.tries - 1,
                ..Self::of(self.call)
            },
        }
    }
}

enum Next {
    At(At),
    /// Another client has the document or the record.
    Waits,
    /// The attempt is over.
    Again,
}

impl Files {
    /// Discards the files that are left, one after another.
    fn left(documents: &Documents, after: usize) -> At {
        let mut left = (after..FILES).filter(|file| {
            let record = documents.records[*file];
            record.is_some() && record != Some(Record::Stored)
        });
        left.next().map_or(At::Read, |file| At::Discard(file, Then::Left))
    }

    fn next(&self, documents: &mut Documents, me: usize, client: &Client) -> Next {
        Next::At(match (client.at, client.call) {
            (At::Begin, Call::Update(bit)) => {
                if documents.transactions.is_locked(HOT) {
                    return Next::Waits;
                }
                match documents.hot {
                    None => At::Missing,
                    Some(bits) => {
                        documents.hot = Some(bits | bit);
                        documents.transactions.wrote(HOT);
                        At::Done
                    }
                }
            }
            (At::Begin, Call::EndTransaction) => {
                documents.transactions.abort(0);
                At::Done
            }
            (At::Begin, Call::Run) => Self::left(documents, 0),
            (At::Begin, Call::Restore) => documents.stored().map_or(At::Missing, At::Load),
            (At::Discard(file, then), _) => {
                if self.form != Form::Unfenced && documents.transactions.is_locked(bit(file)) {
                    return Next::Waits;
                }
                if documents.records[file] == Some(Record::Stored) {
                    return Self::then(documents, file, then);
                }
                if documents.records[file].is_some() && self.form != Form::Unfenced {
                    documents.set(file, Some(Record::Deleted));
                }
                At::RemoveFile(file, then)
            }
            (At::RemoveFile(file, then), _) => {
                documents.files[file] = None;
                At::RemoveRecord(file, then)
            }
            (At::RemoveRecord(file, then), _) => {
                if documents.records[file] == Some(Record::Deleted) {
                    documents.set(file, None);
                }
                return Self::then(documents, file, then);
            }
            (at, call) => return self.next_of_move(documents, me, at, call),
        })
    }

    fn then(documents: &Documents, file: usize, then: Then) -> Next {
        match then {
            Then::Left => Next::At(Self::left(documents, file + 1)),
            Then::Again => Next::Again,
            Then::Done => Next::At(At::Done),
        }
    }

    fn next_of_move(&self, documents: &mut Documents, me: usize, at: At, call: Call) -> Next {
        let writes_last = self.form == Form::WrittenLast;
        Next::At(match at {
            At::Read => documents.hot.map_or(At::Missing, At::Record),
            At::Record(bits) => {
                let file = documents.used;
                documents.used += 1;
                documents.set(file, Some(Record::Pending));
                if writes_last {
                    At::Open(file, bits)
                } else {
                    At::Write(file, bits)
                }
            }
            At::Write(file, bits) => {
                documents.files[file] = Some(bits);
                if writes_last { At::Done } else { At::Open(file, bits) }
            }
            At::Open(file, bits) => {
                documents.transactions.begin(me);
                let is_pending = documents.records[file] == Some(Record::Pending) || self.form == Form::Unguarded;
                let is_same = documents.hot == Some(bits) || self.form == Form::Unread && documents.hot.is_some();
                match is_pending && is_same && documents.transactions.write(me, bit(file)) {
                    true => At::Delete(file, bits),
                    false => At::Discard(file, Then::Again),
                }
            }
            At::Delete(file, bits) => match documents.transactions.write(me, HOT) {
                true => At::Commit(file, bits),
                false => At::Discard(file, Then::Again),
            },
            At::Load(file) => match documents.files[file] {
                Some(bits) => At::Insert(file, bits),
                None if documents.records[file] == Some(Record::Stored) => At::Corrupt,
                None => At::Missing,
            },
            At::Insert(file, bits) => {
                documents.transactions.begin(me);
                if documents.records[file] != Some(Record::Stored) || documents.hot.is_some() {
                    return Next::At(At::Missing);
                }
                match documents.transactions.write(me, HOT | bit(file)) {
                    true => At::Commit(file, bits),
                    false => return Next::Again,
                }
            }
            At::Commit(file, bits) => {
                if !documents.transactions.is_active(me) {
                    return match call {
                        Call::Run => Next::At(At::Discard(file, Then::Again)),
                        _ => Next::Again,
                    };
                }
                documents.transactions.commit(me);
                if call == Call::Restore {
                    documents.hot = Some(bits);
                    documents.records[file] = Some(Record::Deleted);
                    At::RemoveFile(file, Then::Done)
                } else {
                    documents.hot = None;
                    documents.records[file] = Some(Record::Stored);
                    if writes_last { At::Write(file, bits) } else { At::Done }
                }
            }
            at => at,
        })
    }
}

impl Protocol for Files {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        let start = |is_archived: bool, calls: &[Call]| {
            let mut documents = Documents::default();
            match is_archived {
                false => documents.hot = Some(0),
                true => {
                    documents.records[0] = Some(Record::Stored);
                    documents.files[0] = Some(0);
                    documents.used = 1;
                }
            }
            (documents, calls.iter().copied().map(Client::of).collect())
        };
        let mut starts = vec![
            start(false, &[Call::Run, Call::Update(1), Call::Run]),
            start(false, &[Call::Run, Call::EndTransaction, Call::Run]),
            start(true, &[Call::Restore, Call::Update(1), Call::Run]),
            start(true, &[Call::Restore, Call::EndTransaction, Call::Run]),
        ];
        if is_long() {
            starts.extend([
                start(false, &[Call::Run, Call::Run, Call::Run]),
                start(false, &[Call::Run, Call::Restore, Call::Update(1)]),
                start(true, &[Call::Restore, Call::Run, Call::Restore]),
            ]);
        }
        starts
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match self.next(documents, me, client) {
            Next::At(next) => client.at = next,
            Next::Again => *client = client.again(),
            Next::Waits => return Ran::Waits,
        }
        if !matches!(client.at, At::Delete(..) | At::Commit(..)) {
            documents.transactions.abort(me);
        }
        Ran::Done
    }

    fn has_ended(&self, client: &Client) -> bool {
        matches!(client.at, At::Done | At::Missing | At::GaveUp | At::Corrupt)
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match (before.at, before.call) {
            (At::Begin, Call::Run | Call::Restore) => vec!["read mongo_patterns"],
            (At::Discard(..), _) => vec!["update mongo_patterns"],
            (At::RemoveRecord(..), _) => vec!["delete mongo_patterns"],
            (At::Read, _) => vec!["read sales"],
            (At::Record(_), _) => vec!["insert mongo_patterns"],
            (At::Open(..), _) => vec!["begin: update mongo_patterns", "then: read sales"],
            (At::Delete(..), _) => vec!["then: deleteMany sales"],
            (At::Insert(..), _) => vec!["begin: update mongo_patterns", "then: insert sales"],
            (At::Commit(..), _) => vec!["then: commitTransaction"],
            // The file is in another store.
            (At::RemoveFile(..) | At::Write(..) | At::Load(_), _)
            | (At::Begin, _)
            | (At::Done | At::Missing | At::GaveUp | At::Corrupt, _) => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client.at {
            At::Begin => matches!(client.call, Call::Update(_)),
            At::Discard(..) | At::RemoveFile(..) | At::RemoveRecord(..) | At::Record(_) | At::Write(..) => true,
            _ => false,
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        match client.call {
            Call::Run | Call::Restore => client.again(),
            call => Client::of(call),
        }
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("an acknowledged write is read", |_, state: &Moment| {
                state.clients.iter().all(|client| match client {
                    Client {
                        call: Call::Update(bit),
                        at: At::Done,
                        ..
                    } => state.documents.read() & bit != 0,
                    _ => true,
                })
            }),
            Property::always("the document is in the collection or in a file", |_, state: &Moment| {
                let stored = |record: &&Option<Record>| **record == Some(Record::Stored);
                let files = state.documents.records.iter().filter(stored).count();
                files + usize::from(state.documents.hot.is_some()) == 1
            }),
            Property::always("a stored record has its file", |_, state: &Moment| {
                let stored = state.documents.stored();
                stored.is_none_or(|file| state.documents.files[file].is_some())
                    && state.clients.iter().all(|client| client.at != At::Corrupt)
            }),
            Property::always(
                "what is left has a record, unless a write came late",
                |world, state: &Moment| {
                    let (files, records) = (&state.documents.files, &state.documents.records);
                    let is_known = files
                        .iter()
                        .zip(records)
                        .all(|(file, record)| file.is_none() || record.is_some());
                    is_known || !world.is_quiet(state) || !state.is_without_faults(world.faults)
                },
            ),
            Property::sometimes("the document is archived with the write", |_, state: &Moment| {
                state.documents.hot.is_none() && state.documents.read() == 1
            }),
            Property::sometimes("a file is left to discard", |world, state: &Moment| {
                world.is_quiet(state) && state.documents.records.contains(&Some(Record::Pending))
            }),
            Property::sometimes("the document is restored", |_, state: &Moment| {
                state
                    .clients
                    .iter()
                    .any(|client| client.call == Call::Restore && client.at == At::Done)
            }),
        ]
    }
}

/// A state of the model.
type Moment = State<Documents, Client>;

#[cfg(test)]
mod tests;
