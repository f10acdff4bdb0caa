//! The commands of the two clusters.

use super::{At, Call, Client, Clusters, Documents, ENTRY, Form, HOT, Record};
use crate::world::Ran;

impl Clusters {
    /// Runs the next command of a client.
    pub(super) fn step(&self, documents: &mut Documents, me: usize, client: &mut Client) -> Ran {
        match self.next(documents, me, client) {
            Next::At(next) => client.at = next,
            Next::Again => *client = client.again(),
            Next::Waits => return Ran::Waits,
        }
        if matches!(client.at, At::Begin | At::Missing | At::GaveUp) {
            documents.transactions.abort(me);
        }
        Ran::Done
    }

    /// Returns the next command. `None` if it waits, or the call tries again.
    fn next(&self, documents: &mut Documents, me: usize, client: &Client) -> Next {
        let found = |document: Option<u8>, otherwise| if document.is_some() { At::Done } else { otherwise };
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
            (At::Begin, Call::Get) => found(documents.hot, At::ReadArchive),
            (At::ReadArchive, _) => found(documents.cold, At::ReadAgain),
            (At::ReadAgain, _) => found(documents.hot, At::Missing),
            (At::Begin, Call::Archive | Call::Restore) => At::Entry(documents.record),
            (At::Entry(last), _) => {
                let Some(id) = self.write_entry(documents) else {
                    return Next::Waits;
                };
                At::End(last, documents.entry, id)
            }
            (At::End(last, decided, id), _) => {
                if last.has_ids && decided != last.id && decided != last.before && documents.record == last {
                    return Next::At(At::GaveUp);
                }
                let ends = last.is_deleted(decided);
                documents.end(last, decided);
                At::Reserve(last.id, last.has_ids && !ends, decided, id)
            }
            (At::Reserve(last, has_ids, before, id), call) => {
                let is_same = documents.record.has_ids == has_ids || self.form == Form::Unguarded;
                if documents.record.id != last || !is_same {
                    return Next::Again;
                }
                let begun = Record {
                    id,
                    before,
                    restores: call == Call::Restore,
                    has_ids: false,
                };
                documents.record = begun;
                if begun.restores {
                    At::Archived(begun)
                } else {
                    At::Open(begun)
                }
            }
            (at, _) => return self.next_of_move(documents, me, at),
        })
    }

    /// Writes the id of an attempt into the entry. `None` if it waits for a transaction.
    fn write_entry(&self, documents: &mut Documents) -> Option<u8> {
        if self.form != Form::Unfenced {
            if documents.transactions.is_locked(ENTRY) {
                return None;
            }
            documents.transactions.wrote(ENTRY);
        }
        documents.used += 1;
        if self.form != Form::Unfenced {
            documents.attempt = documents.used;
        }
        Some(documents.used)
    }

    /// Returns whether no other move has begun since this one, or, without writes of the entry, taken effect.
    fn may_decide(&self, documents: &Documents, begun: Record) -> bool {
        match self.form {
            Form::Unfenced | Form::Late => documents.entry == begun.before,
            _ => documents.attempt == begun.id,
        }
    }

    fn next_of_move(&self, documents: &mut Documents, me: usize, at: At) -> Next {
        let records = self.form != Form::Unrecorded;
        let is_ours = |documents: &Documents, begun: Record| documents.record.id == begun.id;
        Next::At(match at {
            At::Open(begun) => {
                documents.transactions.begin(me);
                if !self.may_decide(documents, begun) || !documents.transactions.write(me, ENTRY) {
                    return Next::Again;
                }
                match documents.hot {
                    None => At::Missing,
                    Some(bits) => At::Delete(begun, bits),
                }
            }
            At::Delete(begun, bits) => match documents.transactions.write(me, HOT) {
                false => return Next::Again,
                true => At::Copy(begun, bits),
            },
            At::Copy(begun, bits) => {
                if !is_ours(documents, begun) {
                    return Next::Again;
                }
                if documents.cold.is_some() {
                    return Next::At(At::Missing);
                }
                documents.cold = Some(bits);
                documents.record.has_ids = records;
                At::Commit(begun, bits)
            }
            At::Archived(begun) => match documents.cold {
                None => At::Missing,
                Some(bits) => At::Record(begun, bits),
            },
            At::Record(begun, bits) => {
                if !is_ours(documents, begun) {
                    return Next::Again;
                }
                documents.record.has_ids = records;
                At::Insert(begun, bits)
            }
            At::Insert(begun, bits) => {
                documents.transactions.begin(me);
                if !self.may_decide(documents, begun) || !documents.transactions.write(me, ENTRY) {
                    return Next::Again;
                }
                if documents.hot.is_some() {
                    return Next::At(At::Missing);
                }
                match documents.transactions.write(me, HOT) {
                    true => At::Commit(begun, bits),
                    false => return Next::Again,
                }
            }
            At::Commit(begun, bits) => {
                if !documents.transactions.is_active(me) {
                    return Next::Again;
                }
                documents.transactions.commit(me);
                documents.entry = begun.id;
                documents.hot = begun.restores.then_some(bits);
                if begun.restores { At::Remove(begun) } else { At::EndRead }
            }
            At::Remove(begun) => {
                if is_ours(documents, begun) {
                    documents.cold = None;
                }
                At::EndRead
            }
            At::EndRead if documents.record.has_ids => At::EndEntry(documents.record),
            At::EndRead => At::Done,
            At::EndEntry(last) => match self.write_entry(documents) {
                Some(_) => At::EndAs(last, documents.entry),
                None => return Next::Waits,
            },
            At::EndAs(last, decided) => {
                if documents.record == last && (decided == last.id || decided == last.before) {
                    documents.end(last, decided);
                    documents.record.has_ids = false;
                }
                At::Done
            }
            at => at,
        })
    }
}

enum Next {
    At(At),
    /// Another client has the document or the entry.
    Waits,
    /// The attempt is over.
    Again,
}
