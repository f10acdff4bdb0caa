//! A document that is archived in another cluster, and restored.
//!
//! Mirrors `link.rs` and `transfer.rs` in `crates/archive/src`.
//!
//! The transactions are those of the collection's cluster. One of the archive's cluster is a single step here: that of a
//! restore, which locks the archived document, is a read and its commit.

mod run;

use stateright::Property;

use crate::check::is_long;
use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of the library.
    Linked,
    /// The entry is read before the record is judged, and not written.
    Unfenced,
    /// The transaction checks only that no other move has taken effect.
    Late,
    /// The record has no `_id`s.
    Unrecorded,
    /// A move begins although the last one has recorded its `_id`s since.
    Unguarded,
}

/// Moves, a writer, a reader, and a server that ends the transaction of a paused process.
#[derive(Clone, Debug)]
pub struct Clusters {
    /// Whose commands they send.
    pub form: Form,
}

const HOT: u64 = 1;
const ENTRY: u64 = 2;

/// How often a move is tried.
const TRIES: u8 = 2;

/// The record of the last move in the archive's cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    id: u8,
    before: u8,
    restores: bool,
    has_ids: bool,
}

impl Record {
    /// Returns whether a move that ends deletes what the archive has because of it.
    fn is_deleted(self, decided: u8) -> bool {
        self.has_ids && (decided == self.id) == self.restores
    }
}

/// What the two clusters store: the document in the collection and in the archive, with the numbers of writers as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    hot: Option<u8>,
    cold: Option<u8>,
    /// The last move that took effect, and the last one that has begun.
    entry: u8,
    attempt: u8,
    record: Record,
    /// The ids of moves that are used up.
    used: u8,
    transactions: Transactions,
}

crate::stored!(Documents);

impl Documents {
    fn read(&self) -> u8 {
        self.hot.or(self.cold).unwrap_or_default()
    }

    /// Returns whether the next move deletes what the archive has because of the last one.
    fn is_to_end(&self) -> bool {
        self.record.is_deleted(self.entry)
    }

    /// Deletes what the archive has because of the last move, unless another one has done so since.
    fn end(&mut self, last: Record, decided: u8) {
        if last.is_deleted(decided) && self.record == last {
            self.cold = None;
            self.record.has_ids = false;
        }
    }
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
    Archive,
    Restore,
    /// `get`.
    Get,
    /// The server ends the transaction of client 0, which took too long.
    EndTransaction,
}

/// The next command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Begin,
    /// Writes the entry.
    Entry(Record),
    /// Ends the last move as was decided, for a further one.
    End(Record, u8, u8),
    /// Begins a move after this one, if its record is still so.
    Reserve(u8, bool, u8, u8),
    /// Begins the transaction with this move, and reads the document.
    Open(Record),
    Delete(Record, u8),
    /// Inserts it, and records it.
    Copy(Record, u8),
    Commit(Record, u8),
    /// Reads the archived document.
    Archived(Record),
    /// Records it.
    Record(Record, u8),
    /// Inserts it into the collection.
    Insert(Record, u8),
    /// Commits the transaction of the archive's cluster, which has deleted it.
    Remove(Record),
    /// Ends its move, as a further one would: reads the record, writes the entry, and decides.
    EndRead,
    EndEntry(Record),
    EndAs(Record, u8),
    /// Reads the archive, and then the collection again.
    ReadArchive,
    ReadAgain,
    Done,
    /// There was no document, or it was there already.
    Missing,
    GaveUp,
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

impl Protocol for Clusters {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        let start = |hot: Option<u8>, calls: &[Call]| {
            let documents = Documents {
                hot,
                cold: hot.is_none().then_some(0),
                ..Documents::default()
            };
            (documents, calls.iter().copied().map(Client::of).collect())
        };
        let mut starts = vec![
            start(Some(0), &[Call::Archive, Call::Get, Call::Update(1)]),
            start(None, &[Call::Restore, Call::Get, Call::Update(1)]),
            start(Some(0), &[Call::Archive, Call::EndTransaction, Call::Archive]),
            start(None, &[Call::Restore, Call::EndTransaction, Call::Archive]),
        ];
        if is_long() {
            starts.extend([
                start(Some(0), &[Call::Archive, Call::Update(1), Call::Archive]),
                start(Some(0), &[Call::Archive, Call::Restore, Call::Update(1)]),
                start(Some(0), &[Call::Archive, Call::Get, Call::Archive]),
                start(None, &[Call::Restore, Call::Get, Call::Restore]),
                start(None, &[Call::Restore, Call::Archive, Call::Archive]),
            ]);
        }
        starts
    }

    fn run(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        self.step(documents, me, client)
    }

    fn has_ended(&self, client: &Client) -> bool {
        matches!(client.at, At::Done | At::Missing | At::GaveUp)
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        let restores = before.call == Call::Restore;
        match before.at {
            At::Begin if matches!(before.call, Call::Archive | Call::Restore) => vec!["read mongo_patterns"],
            At::End(last, decided, _) | At::EndAs(last, decided) if last.is_deleted(decided) => vec![
                "begin: update mongo_patterns",
                "then: deleteMany archived_sales",
                "then: commitTransaction",
            ],
            At::EndRead => vec!["read mongo_patterns"],
            At::Entry(_) | At::EndEntry(_) | At::EndAs(..) => vec!["update mongo_patterns"],
            At::Reserve(0, ..) => vec!["upsert mongo_patterns", "update mongo_patterns"],
            At::Reserve(..) | At::Record(..) => vec!["update mongo_patterns"],
            At::Open(_) => vec!["begin: update mongo_patterns", "then: read sales"],
            At::Delete(..) => vec!["then: deleteMany sales"],
            At::Copy(..) => vec![
                "inner begin: update mongo_patterns",
                "inner then: insert archived_sales",
                "inner then: commitTransaction",
            ],
            // The transaction of the archive's cluster locks the archived document. Whether the collection has it is read
            // again by the insert.
            At::Archived(_) => vec![
                "begin: read archived_sales",
                "read sales",
                "then: deleteMany archived_sales",
            ],
            At::Insert(..) => vec!["inner begin: update mongo_patterns", "inner then: insert sales"],
            At::Commit(..) if restores => vec!["inner then: commitTransaction"],
            At::Commit(..) => vec!["then: commitTransaction"],
            At::Remove(_) => vec!["then: commitTransaction"],
            At::Begin | At::End(..) | At::ReadArchive | At::ReadAgain => Vec::new(),
            At::Done | At::Missing | At::GaveUp => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client.at {
            At::Begin => matches!(client.call, Call::Update(_)),
            At::Entry(_) | At::End(..) | At::Reserve(..) | At::Record(..) | At::Remove(_) | At::Copy(..) => true,
            At::EndEntry(_) | At::EndAs(..) => true,
            _ => false,
        }
    }

    fn is_sent_elsewhere(&self, client: &Client) -> bool {
        matches!(client.at, At::Copy(..))
    }

    fn unknown(&self, client: &Client) -> Client {
        match client.call {
            Call::Archive | Call::Restore => client.again(),
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
            Property::always("the document is in one collection at least", |_, state: &Moment| {
                state.documents.hot.is_some() || state.documents.cold.is_some()
            }),
            Property::always("a document in both is one of a move to end", |world, state: &Moment| {
                let documents = &state.documents;
                let is_in_both = documents.hot.is_some() && documents.cold.is_some();
                !is_in_both || !world.is_quiet(state) || documents.is_to_end()
            }),
            Property::always("a reader finds the document", |_, state: &Moment| {
                !state
                    .clients
                    .iter()
                    .any(|client| client.call == Call::Get && client.at == At::Missing)
            }),
            Property::sometimes("the document is archived with the write", |_, state: &Moment| {
                (state.documents.hot, state.documents.cold) == (None, Some(1))
            }),
            Property::sometimes("a move is left to end", |world, state: &Moment| {
                world.is_quiet(state) && state.documents.is_to_end()
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
