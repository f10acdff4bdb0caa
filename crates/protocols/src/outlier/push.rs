//! `push`, `push_many` and `push_unique`.
//!
//! Mirrors `push.rs` and `overflow.rs` of `crates/outlier/src/write`. A command that changes nothing, such as a push to
//! a flagged array, writes nothing, and does not wait for a transaction.

use super::documents::{CAP, Documents, Extra, Form, MAIN, Rules, THRESHOLD, entries, position_bit};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Push {
    /// The elements: one for `push`.
    pub elements: Vec<u8>,
    /// The elements that are not stored yet.
    rest: Vec<u8>,
    /// The newest overflow document, where the process knows an outlier.
    known: Option<u8>,
    /// Whether the process knew an outlier.
    was_known: bool,
    /// Whether it knew one that is none.
    was_wrong: bool,
    /// Whether elements were stored in overflow documents without a flag.
    was_hidden: bool,
    at: At,
}

/// The next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Pushes to the array if it has room for all elements. Unique elements, or more than the threshold: as `Main`.
    Room,
    /// Pushes to the array, and sets the flag if elements are left.
    Main,
    /// Unique elements, known outlier: reads the flag, and whether the array has the element.
    ReadMain,
    /// Pushes to the newest overflow document.
    Fill,
    /// Begins a transaction, and writes the flag.
    Begin(u8),
    /// Inserts overflow documents from a position on.
    Insert(u8),
    Commit(u8),
    /// Unique elements: reads whether the array has the element by now.
    CheckUnique,
    /// Unique elements: removes it from the overflow documents in that case.
    Pull,
    /// The manual's form: reads the flag.
    ReadFlag,
    /// The manual's form: pushes to the array.
    PushInline,
    /// The manual's form: pushes to an overflow document, or finds none.
    Upsert,
    /// The manual's form: the insert of the upsert.
    InsertOne,
    /// Sets the flag.
    SetFlag,
    Ended(Ended),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// All elements were stored.
    Stored,
    /// The element was stored before.
    Exists,
    /// The document does not exist.
    NotFound,
    /// The outcome is unknown.
    Unknown,
}

impl Push {
    /// Returns the call.
    pub fn new(form: Form, elements: &[u8]) -> Self {
        Self {
            elements: elements.to_vec(),
            rest: elements.to_vec(),
            known: None,
            was_known: false,
            was_wrong: false,
            was_hidden: false,
            at: match form {
                Form::Manual => At::ReadFlag,
                _ => At::Room,
            },
        }
    }

    /// Returns the call of a process that knows an outlier with this newest overflow document.
    pub fn known(form: Form, unique: bool, elements: &[u8], newest: u8) -> Self {
        Self {
            known: Some(newest),
            was_known: true,
            at: match unique {
                true => At::ReadMain,
                false => At::Fill,
            },
            ..Self::new(form, elements)
        }
    }

    /// Returns whether its process knows an outlier.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Returns whether its process knew an outlier.
    pub fn was_known(&self) -> bool {
        self.was_known
    }

    /// Returns whether its process knew an outlier that is none.
    pub fn was_wrong(&self) -> bool {
        self.was_wrong
    }

    /// Returns whether it stored elements that no reader found at that moment.
    pub fn was_hidden(&self) -> bool {
        self.was_hidden
    }

    /// Returns the outcome.
    pub fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Returns whether it opens overflow documents.
    pub fn opens(&self) -> bool {
        matches!(self.at, At::Begin(_) | At::Insert(_) | At::Commit(_) | At::InsertOne)
    }

    /// Returns whether it has written something, and has not ended.
    pub fn is_between(&self) -> bool {
        matches!(self.at, At::Fill) || self.opens()
    }

    pub(super) fn writes(&self) -> bool {
        matches!(
            self.at,
            At::Room | At::Main | At::Fill | At::Pull | At::PushInline | At::Upsert | At::InsertOne | At::SetFlag
        )
    }

    /// Returns the call after an unknown outcome: the application retries if elements are unique.
    pub(super) fn unknown(&self, rules: &Rules) -> Self {
        match rules.unique {
            true => Self::new(rules.form, &self.elements),
            false => Self {
                at: At::Ended(Ended::Unknown),
                ..self.clone()
            },
        }
    }

    pub(super) fn sends(&self) -> Vec<&'static str> {
        match self.at {
            At::Room | At::Main => vec!["update sales"],
            At::ReadMain | At::CheckUnique => vec!["read sales"],
            At::Fill => vec!["update extra_sales"],
            // Sets a field and removes it, which locks the document.
            At::Begin(_) => vec!["begin: update sales", "then: update sales"],
            At::Insert(_) => vec!["then: insert extra_sales"],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Pull => vec!["updateMany extra_sales"],
            At::ReadFlag | At::PushInline | At::Upsert | At::InsertOne | At::SetFlag | At::Ended(_) => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, rules: &Rules, documents: &mut Documents, me: usize) -> Ran {
        match self.at {
            At::Room if !rules.unique && self.rest.len() <= THRESHOLD => return self.room(documents),
            At::Room | At::Main => return self.main(rules.unique, documents),
            At::ReadMain if !documents.flag => self.forget(),
            At::ReadMain => {
                self.at = match documents.inline.contains(&self.rest[0]) {
                    true => At::Ended(Ended::Exists),
                    false => At::Fill,
                }
            }
            At::Fill => return self.fill(rules, documents),
            At::Begin(seq) if rules.form == Form::FlagLast => {
                // One command, without a transaction: the unique index decides.
                let extras = self.extras(seq);
                if documents.transactions.is_locked(position_bits(&extras)) {
                    return Ran::Waits;
                }
                if extras
                    .iter()
                    .any(|extra| documents.extras.iter().any(|other| other.seq == extra.seq))
                {
                    self.at = At::Fill;
                } else {
                    documents.transactions.wrote(position_bits(&extras));
                    documents.insert(extras);
                    self.rest.clear();
                    self.at = At::SetFlag;
                }
            }
            At::Begin(_) if !documents.exists => self.at = At::Ended(Ended::NotFound),
            At::Begin(seq) => {
                documents.transactions.begin(me);
                if documents.transactions.write(me, MAIN) {
                    self.at = At::Insert(seq);
                } // otherwise it is retried
            }
            At::Insert(seq) => self.insert_in_transaction(rules.unique, documents, me, seq),
            At::Commit(seq) => {
                documents.flag = true;
                documents.insert(self.extras(seq));
                documents.transactions.commit(me);
                self.rest.clear();
                self.stored_in_extras(rules, None);
            }
            At::CheckUnique => {
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
                let names = having.fold(0, |names, extra| names | position_bit(extra.seq));
                if documents.transactions.is_locked(names) {
                    return Ran::Waits;
                }
                documents.transactions.wrote(names);
                for extra in &mut documents.extras {
                    extra.elements.retain(|other| *other != element);
                }
                self.at = At::Ended(Ended::Exists);
            }
            At::SetFlag => {
                if !documents.flag {
                    if documents.transactions.is_locked(MAIN) {
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

    /// Begins with the main document.
    fn forget(&mut self) {
        self.known = None;
        self.was_wrong = true;
        self.at = At::Room;
    }

    fn room(&mut self, documents: &mut Documents) -> Ran {
        let has_room = documents.inline.len() + self.rest.len() <= THRESHOLD;
        if !documents.exists || documents.flag || !has_room {
            self.at = At::Main;
            return Ran::Done;
        }
        if documents.transactions.is_locked(MAIN) {
            return Ran::Waits;
        }
        documents.inline.append(&mut self.rest);
        documents.transactions.wrote(MAIN);
        self.at = At::Ended(Ended::Stored);
        Ran::Done
    }

    fn main(&mut self, unique: bool, documents: &mut Documents) -> Ran {
        if !documents.exists {
            self.at = At::Ended(Ended::NotFound);
            return Ran::Done;
        }
        if unique && documents.inline.contains(&self.rest[0]) {
            self.at = At::Ended(Ended::Exists);
            return Ran::Done;
        }
        if !documents.flag {
            if documents.transactions.is_locked(MAIN) {
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

    fn fill(&mut self, rules: &Rules, documents: &mut Documents) -> Ran {
        let Some(newest) = documents.extras.len().checked_sub(1) else {
            match self.known {
                Some(_) => self.forget(),
                None => self.at = At::Begin(0),
            }
            return Ran::Done;
        };
        let Extra { id, seq, elements } = &documents.extras[newest];
        let (id, seq, room) = (*id, *seq, CAP.saturating_sub(elements.len()));
        if rules.unique && elements.contains(&self.rest[0]) {
            self.at = At::Ended(Ended::Exists);
            return Ran::Done;
        }
        if room > 0 {
            let taken = &self.rest[..room.min(self.rest.len())];
            let names = position_bit(seq) | entries(rules.unique, taken);
            if documents.transactions.is_locked(names) {
                return Ran::Waits;
            }
            if rules.unique && documents.extras_have(self.rest[0]) {
                self.at = At::Ended(Ended::Exists); // the unique index refused it
                return Ran::Done;
            }
            let taken = taken.len();
            documents.extras[newest].elements.extend(self.rest.drain(..taken));
            documents.transactions.wrote(names);
            self.was_hidden |= !documents.flag;
        }
        match self.rest.is_empty() {
            true => self.stored_in_extras(rules, Some(id)),
            false => self.at = At::Begin(seq + 1),
        }
        Ran::Done
    }

    fn insert_in_transaction(&mut self, unique: bool, documents: &mut Documents, me: usize, seq: u8) {
        let extras = self.extras(seq);
        let (position_bits, entries) = (position_bits(&extras), entries(unique, &self.rest));
        let is_taken = extras
            .iter()
            .any(|extra| documents.extras.iter().any(|other| other.seq == extra.seq));
        let exists = unique && self.rest.iter().any(|element| documents.extras_have(*element));
        let changed = documents.transactions.has_changed(me, position_bits | entries);
        if !changed && (is_taken || exists) {
            // A duplicate key that the snapshot has too.
            documents.transactions.abort(me);
            self.at = match is_taken {
                true => At::Fill,
                false => At::Ended(Ended::Exists),
            };
            return;
        }
        self.at = match documents.transactions.write(me, position_bits | entries) {
            true => At::Commit(seq),
            false => At::Begin(seq),
        };
    }

    /// The element was added to the overflow document with this id, or to a new one.
    fn stored_in_extras(&mut self, rules: &Rules, id: Option<u8>) {
        let is_same = self.known.is_some() && (id == self.known || rules.form == Form::NoCheck);
        self.at = match rules.unique && !is_same {
            true => At::CheckUnique,
            false => At::Ended(Ended::Stored),
        };
    }

    /// Returns the overflow documents of the rest, from a position on.
    fn extras(&self, seq: u8) -> Vec<Extra> {
        let documents = self.rest.chunks(CAP).zip(seq..);
        documents
            .map(|(elements, seq)| Extra {
                id: 0,
                seq,
                elements: elements.to_vec(),
            })
            .collect()
    }

    /// Follows the manual: "Check whether `has_extras` is true. If it is missing or false, add to the array; if that
    /// has more elements than the threshold then, set `has_extras`. If it is true, add to extras."
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
                documents.insert(self.extras(0));
                self.rest.clear();
                At::Ended(Ended::Stored)
            }
        };
    }
}

fn position_bits(extras: &[Extra]) -> u64 {
    extras.iter().fold(0, |names, extra| names | position_bit(extra.seq))
}
