//! An outlier that is archived with its overflow documents, and restored, beside pushes.
//!
//! Mirrors `transfer.rs` and `related.rs` in `crates/archive/src`, and the pushes of `crates/outlier/src` to an outlier that
//! their process knows.
//!
//! An overflow document has room for one element. Elements are bits.

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of the library.
    Related,
    /// The main document moves alone.
    MainOnly,
    /// A push inserts an overflow document, and does not write the main document.
    OpenAlone,
}

/// Moves and pushes.
#[derive(Clone, Debug)]
pub struct Wholes {
    /// Whose commands they send.
    pub form: Form,
}

/// The positions of overflow documents.
const POSITIONS: usize = 4;
/// Whether the main document exists, and the elements of each overflow document.
type List = (bool, [Option<u8>; POSITIONS]);

/// What the server stores: the list in the collection, and in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    stored: [List; 2],
    transactions: Transactions,
}

crate::stored!(Documents);

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    call: Call,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    /// `push` of an element.
    Push(u8),
    /// `run` from collection 0, or `restore` from collection 1.
    Move(usize),
}

/// The next command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Begin,
    /// Writes the main document, to open an overflow document at a position.
    Flag(usize),
    /// Inserts it.
    Open(usize),
    CommitPush(usize),
    /// Deletes the overflow documents that were read.
    DeleteRelated(List),
    DeleteMain(List),
    Insert(List),
    CommitMove(List),
    Done,
    /// There was no document.
    Missing,
}

const MAIN: [u64; 2] = [1, 2];

fn overflow(collection: usize, position: usize) -> u64 {
    4 << (collection * POSITIONS + position)
}

/// Returns the bits of the overflow documents of a list in a collection.
fn related(collection: usize, list: List) -> u64 {
    let present = (0..POSITIONS).filter(|position| list.1[*position].is_some());
    present.fold(0, |names, position| names | overflow(collection, position))
}

impl Client {
    fn of(call: Call) -> Self {
        Self { call, at: At::Begin }
    }
}

impl Wholes {
    /// `None` for a command that waits.
    fn next(&self, documents: &mut Documents, me: usize, client: &Client) -> Option<At> {
        let Documents { stored, transactions } = documents;
        let or_again = |is_written, next| if is_written { next } else { At::Begin };
        Some(match (client.at, client.call) {
            (At::Begin, Call::Push(bit)) => match stored[0].1.iter().rposition(Option::is_some) {
                None => At::Missing,
                Some(newest) if transactions.is_locked(overflow(0, newest)) => return None,
                Some(newest) if stored[0].1[newest] == Some(0) => {
                    stored[0].1[newest] = Some(bit);
                    transactions.wrote(overflow(0, newest));
                    At::Done
                }
                Some(newest) if newest + 1 == POSITIONS => At::Missing,
                Some(newest) => At::Flag(newest + 1),
            },
            (At::Flag(position), Call::Push(bit)) if self.form == Form::OpenAlone => {
                if transactions.is_locked(overflow(0, position)) {
                    return None;
                }
                if stored[0].1[position].is_some() {
                    return Some(At::Begin);
                }
                stored[0].1[position] = Some(bit);
                transactions.wrote(overflow(0, position));
                At::Done
            }
            (At::Flag(position), _) => {
                transactions.begin(me);
                match stored[0].0 {
                    true => or_again(transactions.write(me, MAIN[0]), At::Open(position)),
                    false => {
                        transactions.abort(me);
                        At::Missing
                    }
                }
            }
            // The unique index of the positions refuses a second one.
            (At::Open(position), _) if stored[0].1[position].is_some() => {
                transactions.abort(me);
                At::Begin
            }
            (At::Open(position), _) => {
                or_again(transactions.write(me, overflow(0, position)), At::CommitPush(position))
            }
            (At::CommitPush(position), Call::Push(bit)) => {
                transactions.commit(me);
                stored[0].1[position] = Some(bit);
                At::Done
            }
            (At::Begin, Call::Move(from)) => match stored[from] {
                (true, _) if !stored[1 - from].0 => {
                    transactions.begin(me);
                    let mut read = stored[from];
                    if self.form == Form::MainOnly {
                        read.1 = Default::default();
                    }
                    At::DeleteRelated(read)
                }
                _ => At::Done,
            },
            (At::DeleteRelated(read), Call::Move(from)) => {
                or_again(transactions.write(me, related(from, read)), At::DeleteMain(read))
            }
            (At::DeleteMain(read), Call::Move(from)) => or_again(transactions.write(me, MAIN[from]), At::Insert(read)),
            (At::Insert(read), Call::Move(from)) => {
                let names = MAIN[1 - from] | related(1 - from, read);
                or_again(transactions.write(me, names), At::CommitMove(read))
            }
            (At::CommitMove(read), Call::Move(from)) => {
                transactions.commit(me);
                stored[from].0 = false;
                stored[1 - from].0 = true;
                for position in (0..POSITIONS).filter(|position| read.1[*position].is_some()) {
                    stored[from].1[position] = None;
                    stored[1 - from].1[position] = read.1[position];
                }
                At::Done
            }
            (at, _) => at,
        })
    }
}

impl Protocol for Wholes {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        let start = |collection: usize, calls: &[Call]| {
            let mut documents = Documents::default();
            documents.stored[collection] = (true, [Some(0), None, None, None]);
            (documents, calls.iter().copied().map(Client::of).collect())
        };
        vec![
            start(0, &[Call::Push(1), Call::Push(2), Call::Move(0)]),
            start(0, &[Call::Push(1), Call::Move(0), Call::Move(1)]),
            start(1, &[Call::Push(1), Call::Push(2), Call::Move(1)]),
        ]
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
            (At::Begin, Call::Push(_)) => vec!["update extra_sales"],
            (At::Flag(_), _) => vec!["begin: update sales", "then: update sales"],
            (At::Open(_), _) => vec!["then: insert extra_sales"],
            (At::CommitPush(_) | At::CommitMove(_), _) => vec!["then: commitTransaction"],
            (At::Begin, Call::Move(0)) => vec!["begin: read sales", "then: read extra_sales", "then: read extra_sales"],
            (At::Begin, Call::Move(_)) => vec![
                "begin: read archived_sales",
                "then: read archived_extra_sales",
                "then: read archived_extra_sales",
            ],
            (At::DeleteRelated(_), Call::Move(0)) => vec!["then: deleteMany extra_sales"],
            (At::DeleteRelated(_), _) => vec!["then: deleteMany archived_extra_sales"],
            (At::DeleteMain(_), Call::Move(0)) => vec!["then: deleteMany sales"],
            (At::DeleteMain(_), _) => vec!["then: deleteMany archived_sales"],
            (At::Insert(_), Call::Move(0)) => {
                vec!["then: insert archived_sales", "then: insert archived_extra_sales"]
            }
            (At::Insert(_), _) => vec!["then: insert sales", "then: insert extra_sales"],
            (At::Done | At::Missing, _) => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client.at {
            At::Begin => matches!(client.call, Call::Push(_)),
            At::Flag(_) => self.form == Form::OpenAlone,
            _ => false,
        }
    }

    fn unknown(&self, client: &Client) -> Client {
        Client::of(client.call)
    }

    fn properties() -> Vec<Property<World<Self>>> {
        vec![
            Property::always("an acknowledged element is in the list", |_, state: &Moment| {
                let has = |list: &List, bit| list.0 && list.1.contains(&Some(bit));
                state.clients.iter().all(|client| match client {
                    Client {
                        call: Call::Push(bit),
                        at: At::Done,
                    } => state.documents.stored.iter().any(|list| has(list, *bit)),
                    _ => true,
                })
            }),
            Property::always(
                "overflow documents are where their main document is",
                |_, state: &Moment| {
                    let stored = &state.documents.stored;
                    stored.iter().all(|list| list.0 || list.1 == [None; POSITIONS])
                },
            ),
            Property::always("the main document is in one collection", |_, state: &Moment| {
                state.documents.stored[0].0 != state.documents.stored[1].0
            }),
            Property::sometimes("a push comes too late", |_, state: &Moment| {
                let is_late = |client: &Client| matches!(client.call, Call::Push(_)) && client.at == At::Missing;
                state.clients.iter().any(is_late)
            }),
            Property::sometimes(
                "a list with a new overflow document is archived",
                |_, state: &Moment| {
                    let (is_there, overflow) = state.documents.stored[1];
                    is_there && overflow[1].is_some()
                },
            ),
        ]
    }
}

/// A state of the model.
type Moment = State<Documents, Client>;

#[cfg(test)]
mod tests;
