//! A document of an older version: writers of two releases, and a migration.
//!
//! Mirrors `write.rs` and `convert.rs` in `crates/schema/src`.
//!
//! Version 1 has a field that version 2 has under another name. Each writer adds its number to the field of its release. The
//! number is there once, whatever a retry does, as with `$addToSet`.

use stateright::Property;

use crate::transactions::Transactions;
use crate::world::{Protocol, Ran, State, World};

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A typed step, in a transaction.
    Typed,
    /// A step on the server, by one command.
    OnServer,
    /// The same, and the first release writes by `_id`.
    Unguarded,
    /// The document is read, converted and replaced by its `_id`.
    AtRead,
    /// The document is read, converted and replaced, if it has the old version.
    Batch,
}

/// Two writers and a migration.
#[derive(Clone, Debug)]
pub struct Versions {
    /// Whose commands they send.
    pub form: Form,
}

/// The bit of the document for the transactions.
const DOCUMENT: u64 = 1;

/// What the server stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// Whether it has version 2.
    is_new: bool,
    /// The writers whose numbers are in the field of version 1, as bits.
    old: u8,
    /// Those in the field of version 2.
    new: u8,
    /// How often it was converted.
    converted: u8,
    transactions: Transactions,
}

crate::stored!(Documents);

impl Documents {
    /// Stores what a document with this old field becomes.
    fn convert(&mut self, old: u8) {
        (self.is_new, self.old, self.new) = (true, 0, old);
        self.converted += 1;
        self.transactions.wrote(DOCUMENT);
    }

    /// Returns what is read by the newest release.
    fn read(&self) -> u8 {
        if self.is_new { self.new } else { self.old }
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
    /// `update`, of the first release or the second, with the bit of the writer.
    Update { is_new: bool, bit: u8 },
    /// `migrate`.
    Migrate,
}

/// The next command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Sends the write.
    Send,
    /// Reads why it did not match.
    Look,
    /// Begins to convert the document: reads it, or does it on the server.
    Convert,
    /// Replaces the document, of which this old field was read.
    Replace(u8),
    /// Commits the replacement.
    Commit(u8),
    Done,
    /// The document has a newer version.
    Newer,
}

impl Client {
    fn of(call: Call) -> Self {
        let at = match call {
            Call::Update { .. } => At::Send,
            Call::Migrate => At::Convert,
        };
        Self { call, at }
    }

    /// What comes after the conversion.
    fn converted(&self) -> At {
        match self.call {
            Call::Update { .. } => At::Send,
            Call::Migrate => At::Done,
        }
    }
}

impl Versions {
    fn next(&self, documents: &mut Documents, me: usize, client: &Client) -> Option<At> {
        let is_locked = documents.transactions.is_locked(DOCUMENT);
        Some(match (client.at, client.call) {
            (At::Send, Call::Update { .. }) if is_locked => return None,
            (At::Send, Call::Update { is_new, bit }) => {
                let is_free = self.form == Form::Unguarded && !is_new;
                if documents.is_new != is_new && !is_free {
                    return Some(At::Look);
                }
                let field = if is_new { &mut documents.new } else { &mut documents.old };
                *field |= bit;
                documents.transactions.wrote(DOCUMENT);
                At::Done
            }
            (At::Look, Call::Update { is_new, .. }) => match (documents.is_new, is_new) {
                (true, false) => At::Newer,
                (false, true) => At::Convert,
                _ => At::Send,
            },
            (At::Convert, _) if documents.is_new => client.converted(),
            (At::Convert, _) => match self.form {
                Form::Typed => {
                    documents.transactions.begin(me);
                    At::Replace(documents.old)
                }
                Form::OnServer | Form::Unguarded => {
                    documents.convert(documents.old);
                    client.converted()
                }
                Form::AtRead | Form::Batch => At::Replace(documents.old),
            },
            (At::Replace(old), _) if self.form == Form::Typed => match documents.transactions.write(me, DOCUMENT) {
                true => At::Commit(old),
                false => At::Convert,
            },
            (At::Replace(old), _) => {
                if self.form == Form::AtRead || !documents.is_new {
                    documents.convert(old);
                }
                client.converted()
            }
            (At::Commit(old), _) => {
                documents.transactions.commit(me);
                documents.convert(old);
                client.converted()
            }
            (at, _) => at,
        })
    }
}

impl Protocol for Versions {
    type Documents = Documents;
    type Client = Client;

    fn starts(&self) -> Vec<(Documents, Vec<Client>)> {
        let start = |releases: [bool; 2]| {
            let update = |(is_new, bit)| Client::of(Call::Update { is_new, bit });
            let mut clients: Vec<Client> = releases.into_iter().zip([1, 2]).map(update).collect();
            clients.push(Client::of(Call::Migrate));
            (Documents::default(), clients)
        };
        [[false, true], [false, false], [true, true]].map(start).to_vec()
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
        matches!(client.at, At::Done | At::Newer)
    }

    fn sends(&self, before: &Client, _: &Client) -> Vec<&'static str> {
        match before.at {
            At::Send => vec!["update contacts"],
            At::Look => vec!["read contacts"],
            At::Convert => vec!["begin: read contacts"],
            // Those of the typed step, and then of one on the server.
            At::Replace(_) => vec!["then: updateMany contacts"; 2],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Done | At::Newer => Vec::new(),
        }
    }

    fn may_run_late(&self, client: &Client) -> bool {
        match client.at {
            At::Send => true,
            At::Convert => matches!(self.form, Form::OnServer | Form::Unguarded),
            At::Replace(_) => self.form != Form::Typed,
            At::Look | At::Commit(_) | At::Done | At::Newer => false,
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
                        call: Call::Update { bit, .. },
                        at: At::Done,
                    } => state.documents.read() & bit != 0,
                    _ => true,
                })
            }),
            Property::always("a document is converted once", |_, state: &Moment| {
                state.documents.converted <= 1
            }),
            Property::always(
                "a converted document has no field of the old version",
                |_, state: &Moment| !state.documents.is_new || state.documents.old == 0,
            ),
            Property::sometimes("the first release is refused", |_, state: &Moment| {
                state.clients.iter().any(|client| client.at == At::Newer)
            }),
            Property::sometimes("both writers and the migration are done", |_, state: &Moment| {
                state.clients.iter().all(|client| client.at == At::Done)
            }),
        ]
    }
}

/// A state of the model.
type Moment = State<Documents, Client>;

#[cfg(test)]
mod tests;
