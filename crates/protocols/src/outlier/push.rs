//! `push`, `push_many` and `push_unique`.
//!
//! Mirrors `Store::main`, `extras`, `fill`, `check_once` of `crates/outlier/src/store.rs`, and `open_with_flag`, `open_in`
//! and `hold_and_flag` of `open.rs`. A command that changes nothing, such as a push to a flagged array, writes nothing, and
//! does not wait for a transaction either.

use super::{CAP, Documents, Extra, Form, MAIN, Outlier, THRESHOLD, entries, place};
use crate::world::Ran;

/// A call, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Push {
    /// The elements: one for `push`.
    pub elements: Vec<u8>,
    /// Those that are not stored yet.
    rest: Vec<u8>,
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// To the array, with the flag where some are left.
    Main,
    /// To the newest of the extras.
    Fill,
    /// A transaction: writes the flag.
    Begin(u8),
    /// Inserts the extras from a place on.
    Insert(u8),
    Commit(u8),
    /// Once: whether the array has it by now.
    CheckOnce,
    /// Then it goes from the extras.
    Pull,
    /// The manual's: reads the flag.
    ReadFlag,
    /// The manual's: to the array.
    PushInline,
    /// The manual's: to the extras, or whether there are none.
    Upsert,
    /// The manual's: the second half of the upsert.
    InsertOne,
    /// Sets the flag.
    SetFlag,
    Ended(Ended),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// All of it was stored.
    Stored,
    /// It was there.
    IsThere,
    /// With an unknown outcome.
    Unknown,
}

impl Push {
    /// The call.
    pub fn new(form: Form, elements: &[u8]) -> Self {
        Self {
            elements: elements.to_vec(),
            rest: elements.to_vec(),
            at: match form {
                Form::Ours | Form::FlagLast => At::Main,
                Form::Manual => At::ReadFlag,
            },
        }
    }

    /// How it ended.
    pub fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether it opens extras.
    pub fn opens(&self) -> bool {
        matches!(self.at, At::Begin(_) | At::Insert(_) | At::Commit(_) | At::InsertOne)
    }

    /// Whether it has done something, and has not ended.
    pub fn is_between(&self) -> bool {
        matches!(self.at, At::Fill) || self.opens()
    }

    pub(super) fn writes(&self) -> bool {
        matches!(
            self.at,
            At::Main | At::Fill | At::Pull | At::PushInline | At::Upsert | At::InsertOne | At::SetFlag
        )
    }

    /// With an unknown outcome, the application pushes once more what is to be there once.
    pub(super) fn unknown(&self, outlier: &Outlier) -> Self {
        match outlier.unique {
            true => Self::new(outlier.form, &self.elements),
            false => Self {
                at: At::Ended(Ended::Unknown),
                ..self.clone()
            },
        }
    }

    pub(super) fn run(&mut self, outlier: &Outlier, documents: &mut Documents, me: usize) -> Ran {
        match self.at {
            At::Main => return self.main(outlier.unique, documents),
            At::Fill => return self.fill(outlier, documents),
            At::Begin(seq) if outlier.form == Form::FlagLast => {
                // One command: the unique index decides.
                let extras = self.extras(seq);
                if documents.transactions.is_held(places(&extras)) {
                    return Ran::Waits;
                }
                if extras
                    .iter()
                    .any(|extra| documents.extras.iter().any(|other| other.seq == extra.seq))
                {
                    self.at = At::Fill;
                } else {
                    documents.transactions.wrote(places(&extras));
                    insert(documents, extras);
                    self.rest.clear();
                    self.at = At::SetFlag;
                }
            }
            At::Begin(seq) => {
                documents.transactions.begin(me);
                if documents.transactions.write(me, MAIN) {
                    self.at = At::Insert(seq);
                } // or it is run again
            }
            At::Insert(seq) => self.insert_in_transaction(outlier.unique, documents, me, seq),
            At::Commit(seq) => {
                documents.flag = true;
                insert(documents, self.extras(seq));
                documents.transactions.commit(me);
                self.rest.clear();
                self.stored_in_extras(outlier.unique);
            }
            At::CheckOnce => {
                self.at = match documents.inline.contains(&self.elements[0]) {
                    true => At::Pull,
                    false => At::Ended(Ended::Stored),
                }
            }
            At::Pull => {
                let element = self.elements[0];
                let having = documents
                    .extras
                    .iter()
                    .filter(|extra| extra.elements.contains(&element));
                let names = having.fold(0, |names, extra| names | place(extra.seq));
                if documents.transactions.is_held(names) {
                    return Ran::Waits;
                }
                documents.transactions.wrote(names);
                for extra in &mut documents.extras {
                    extra.elements.retain(|other| *other != element);
                }
                self.at = At::Ended(Ended::IsThere);
            }
            At::SetFlag => {
                if !documents.flag {
                    if documents.transactions.is_held(MAIN) {
                        return Ran::Waits;
                    }
                    documents.flag = true;
                    documents.transactions.wrote(MAIN);
                }
                self.at = At::Ended(Ended::Stored);
            }
            At::ReadFlag | At::PushInline | At::Upsert | At::InsertOne => self.manual(documents),
            At::Ended(_) => {}
        }
        Ran::Done
    }

    fn main(&mut self, once: bool, documents: &mut Documents) -> Ran {
        if once && documents.inline.contains(&self.rest[0]) {
            self.at = At::Ended(Ended::IsThere);
            return Ran::Done;
        }
        if !documents.flag {
            if documents.transactions.is_held(MAIN) {
                return Ran::Waits;
            }
            let room = THRESHOLD.saturating_sub(documents.inline.len());
            let taken = room.min(self.rest.len());
            documents.inline.extend(self.rest.drain(..taken));
            documents.flag = !self.rest.is_empty();
            documents.transactions.wrote(MAIN);
        }
        self.at = match self.rest.is_empty() {
            true => At::Ended(Ended::Stored),
            false => At::Fill,
        };
        Ran::Done
    }

    fn fill(&mut self, outlier: &Outlier, documents: &mut Documents) -> Ran {
        let Some(newest) = documents.extras.len().checked_sub(1) else {
            self.at = At::Begin(0);
            return Ran::Done;
        };
        let Extra { seq, elements } = &documents.extras[newest];
        let (seq, room) = (*seq, CAP.saturating_sub(elements.len()));
        if outlier.unique && elements.contains(&self.rest[0]) {
            self.at = At::Ended(Ended::IsThere);
            return Ran::Done;
        }
        if room > 0 {
            let taken = &self.rest[..room.min(self.rest.len())];
            let names = place(seq) | entries(outlier.unique, taken);
            if documents.transactions.is_held(names) {
                return Ran::Waits;
            }
            if outlier.unique && documents.extras_have(self.rest[0]) {
                self.at = At::Ended(Ended::IsThere); // by the unique index
                return Ran::Done;
            }
            let taken = taken.len();
            documents.extras[newest].elements.extend(self.rest.drain(..taken));
            documents.transactions.wrote(names);
        }
        match self.rest.is_empty() {
            true => self.stored_in_extras(outlier.unique),
            false => self.at = At::Begin(seq + 1),
        }
        Ran::Done
    }

    fn insert_in_transaction(&mut self, unique: bool, documents: &mut Documents, me: usize, seq: u8) {
        let extras = self.extras(seq);
        let (places, entries) = (places(&extras), entries(unique, &self.rest));
        let is_taken = extras
            .iter()
            .any(|extra| documents.extras.iter().any(|other| other.seq == extra.seq));
        let is_there = unique && self.rest.iter().any(|element| documents.extras_have(*element));
        let changed = documents.transactions.has_changed(me, places | entries);
        if !changed && (is_taken || is_there) {
            // A duplicate key that the snapshot sees.
            documents.transactions.abort(me);
            self.at = match is_taken {
                true => At::Fill,
                false => At::Ended(Ended::IsThere),
            };
            return;
        }
        self.at = match documents.transactions.write(me, places | entries) {
            true => At::Commit(seq),
            false => At::Begin(seq),
        };
    }

    fn stored_in_extras(&mut self, once: bool) {
        self.at = match once {
            true => At::CheckOnce,
            false => At::Ended(Ended::Stored),
        };
    }

    /// The extras that the rest makes, from a place on.
    fn extras(&self, seq: u8) -> Vec<Extra> {
        let documents = self.rest.chunks(CAP).zip(seq..);
        documents
            .map(|(elements, seq)| Extra {
                seq,
                elements: elements.to_vec(),
            })
            .collect()
    }

    /// The manual: "Check whether `has_extras` is true. If it is missing or false, add to the array; if that has more
    /// elements than the threshold then, set `has_extras`. If it is true, add to the extras."
    fn manual(&mut self, documents: &mut Documents) {
        self.at = match self.at {
            At::ReadFlag if documents.flag => At::Upsert,
            At::ReadFlag => At::PushInline,
            At::PushInline => {
                documents.inline.append(&mut self.rest);
                match documents.inline.len() > THRESHOLD {
                    true => At::SetFlag,
                    false => At::Ended(Ended::Stored),
                }
            }
            At::Upsert => match documents.extras.first_mut() {
                Some(extra) => {
                    extra.elements.append(&mut self.rest);
                    At::Ended(Ended::Stored)
                }
                None => At::InsertOne,
            },
            _ => {
                insert(documents, self.extras(0));
                self.rest.clear();
                At::Ended(Ended::Stored)
            }
        };
    }
}

fn places(extras: &[Extra]) -> u64 {
    extras.iter().fold(0, |names, extra| names | place(extra.seq))
}

fn insert(documents: &mut Documents, extras: Vec<Extra>) {
    documents.extras.extend(extras);
    documents.extras.sort_by_key(|extra| extra.seq);
}
