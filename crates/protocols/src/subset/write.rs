//! `insert`, `update`, `delete` and `rebuild`.
//!
//! Mirrors `write` of `crates/subset/src/write/eventual.rs` and `write/transactional.rs`, `refresh` of `write/refresh.rs`,
//! `check` of `read/unmanaged.rs`, and `ensure_managed` and `increment_first_version` of `write/unmanaged.rs`.

use super::{Child, Documents, Form, PARENT, Parent, name, top};
use crate::world::Ran;

/// A call, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// What it does.
    pub change: Change,
    /// How.
    pub mode: Mode,
    /// The version in which this process left the parent, where it guesses.
    guess: Option<u8>,
    refresh: Refresh,
    has_conflicted: bool,
    at: At,
}

/// What happens to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A new one.
    Insert(Child),
    /// Another rank.
    Update(Child),
    /// It goes away.
    Delete(u8),
    /// The parent is written anew.
    Nothing,
}

/// What is promised of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is right when all calls have returned.
    Eventual,
    /// It is always right.
    Transactional,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It was done.
    Done,
    /// There is such a child already.
    Exists,
    /// There is no such child, or no parent.
    NotFound,
    /// The parent holds children that were never moved.
    NotMigrated,
}

/// The refresh that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Refresh {
    /// The version that it saw first, of those that count.
    first: Option<u8>,
    /// The parent as it was seen, or guessed.
    seen: Parent,
    top: Vec<Child>,
    total: Option<u8>,
    /// Whether it is the parent's first write, before any change of its children.
    is_first_write: bool,
    /// Whether the child was there, or not, so that the call ends so.
    ends: Option<Ended>,
    has_lost_to_two: bool,
}

/// The next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Reads the parent, before anything.
    Find,
    /// The child.
    Apply,
    /// A refresh: reads the parent.
    Look,
    /// ... whether all that is embedded is in the collection.
    Check,
    /// ... the first children.
    Top,
    /// ... the parent that was guessed.
    LookAgain,
    /// ... how many there are.
    Total,
    /// ... writes the parent if it is as it was seen.
    Swap,
    /// Takes back what was inserted for a parent that is gone.
    Orphaned,
    /// A transaction: counts the version.
    Begin,
    /// ... the child. With the children as the snapshot has them.
    ApplyIn(Vec<Child>),
    /// ... reads the first children, writes the parent, and commits.
    Commit(Vec<Child>),
    /// The naive forms: pushes the child, or pulls it.
    PushOrPull,
    /// Reads the first children.
    ReadNext,
    /// Sets them, or pushes the last of them.
    SetOrPush,
    Ended(Ended),
}

impl Write {
    /// The call.
    pub fn new(form: Form, mode: Mode, change: Change) -> Self {
        Self {
            change,
            mode,
            guess: None,
            refresh: Refresh::default(),
            has_conflicted: false,
            at: match (form, mode) {
                (Form::Ours, Mode::Eventual) => At::Find,
                (Form::Ours, Mode::Transactional) => At::Begin,
                _ => At::Apply,
            },
        }
    }

    /// The same, by a process that remembers the version of the parent.
    #[must_use]
    pub fn guessing(mut self, version: u8) -> Self {
        self.guess = Some(version);
        self
    }

    /// How it ended.
    pub fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether the child is written, and the parent is not.
    pub fn is_between(&self) -> bool {
        matches!(self.at, At::Look | At::Top | At::LookAgain | At::Total | At::Swap) && !self.refresh.is_first_write
    }

    /// Whether its refresh gave up since two others were written.
    pub fn has_lost_to_two(&self) -> bool {
        self.refresh.has_lost_to_two
    }

    /// Whether its transaction was run again.
    pub fn has_conflicted(&self) -> bool {
        self.has_conflicted
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(
            self.at,
            At::Apply | At::Swap | At::Orphaned | At::PushOrPull | At::SetOrPush
        )
    }

    /// Called again after an unknown outcome, by a process that guesses no more.
    pub(crate) fn again(&self, form: Form) -> Self {
        Self::new(form, self.mode, self.change)
    }

    pub(crate) fn run(&mut self, form: Form, total: bool, documents: &mut Documents, me: usize) -> Ran {
        match &self.at {
            At::Find => self.find(documents),
            At::Apply => return self.apply(form, documents),
            At::Look => match documents.parent.clone() {
                None => self.no_parent(),
                Some(seen) => {
                    let version = seen.version.unwrap_or(0);
                    let first = *self.refresh.first.get_or_insert(version);
                    if version - first >= 2 {
                        self.refresh.has_lost_to_two = true;
                        self.refreshed();
                    } else {
                        self.seen(seen);
                    }
                }
            },
            At::Check => {
                let is_moved = self.refresh.seen.ids().iter().all(|id| documents.has(*id));
                self.at = match is_moved {
                    true => At::Top,
                    false => At::Ended(Ended::NotMigrated),
                };
            }
            At::Top => {
                self.refresh.top = top(&documents.children);
                let is_out = |id: u8| !self.refresh.top.iter().any(|(child, _)| *child == id);
                let is_new_and_out = matches!(self.change, Change::Insert((id, _)) if is_out(id))
                    && !total
                    && self.refresh.ends.is_none()
                    && !self.refresh.is_first_write;
                let is_guess = self.guess.is_some();
                if is_new_and_out && is_guess {
                    self.at = At::LookAgain;
                } else if is_new_and_out && self.refresh.seen.subset == self.refresh.top {
                    self.refreshed();
                } else {
                    self.at = if total { At::Total } else { At::Swap };
                }
            }
            At::LookAgain => match &documents.parent {
                None => self.no_parent(),
                Some(parent) if parent.subset == self.refresh.top => self.refreshed(),
                Some(_) => self.at = At::Swap,
            },
            At::Total => {
                self.refresh.total = Some(documents.count());
                self.at = At::Swap;
            }
            At::Swap => return self.swap(documents),
            At::Orphaned => {
                if let Change::Insert((id, _)) = self.change {
                    if documents.transactions.is_held(name(id)) {
                        return Ran::Waits;
                    }
                    documents.children.retain(|(child, _)| *child != id);
                    documents.transactions.wrote(name(id));
                }
                self.at = At::Ended(Ended::NotFound);
            }
            At::Begin => self.begin(documents, me),
            At::ApplyIn(snapshot) => {
                let snapshot = snapshot.clone();
                self.apply_in(snapshot, documents, me);
            }
            At::Commit(snapshot) => {
                let snapshot = snapshot.clone();
                self.commit(total, snapshot, documents, me);
            }
            At::PushOrPull | At::ReadNext | At::SetOrPush => self.naive(form, documents),
            At::Ended(_) => {}
        }
        Ran::Done
    }

    fn find(&mut self, documents: &Documents) {
        if let Some(version) = self.guess.filter(|_| matches!(self.change, Change::Insert(_))) {
            self.refresh.seen.version = Some(version);
            self.at = At::Apply;
            return;
        }
        self.guess = None;
        match documents.parent.clone() {
            None => self.at = At::Ended(Ended::NotFound),
            Some(parent) if parent.is_unwritten() => {
                self.refresh.is_first_write = true;
                self.seen(parent);
            }
            Some(parent) => {
                self.refresh = Refresh {
                    seen: parent,
                    ..Refresh::default()
                };
                self.at = At::Apply;
            }
        }
    }

    /// The child, without a transaction.
    fn apply(&mut self, form: Form, documents: &mut Documents) -> Ran {
        let next = match form {
            Form::Ours => None,
            Form::ReadAndSet => Some(At::ReadNext),
            Form::PushAndPull => Some(At::PushOrPull),
        };
        let (Change::Insert((id, _)) | Change::Update((id, _)) | Change::Delete(id)) = self.change else {
            self.after_child(documents, next);
            return Ran::Done;
        };
        if documents.transactions.is_held(name(id)) {
            return Ran::Waits;
        }
        let has = documents.has(id);
        match self.change {
            Change::Insert(_) if has => self.refresh.ends = Some(Ended::Exists),
            Change::Update(_) if !has => {
                self.at = At::Ended(Ended::NotFound);
                return Ran::Done;
            }
            Change::Insert(child) | Change::Update(child) => documents.put(child),
            Change::Delete(id) => documents.children.retain(|(child, _)| *child != id),
            Change::Nothing => {}
        }
        documents.transactions.wrote(name(id));
        self.after_child(documents, next);
        Ran::Done
    }

    /// Then the parent, as it was seen before the child, which does not count.
    fn after_child(&mut self, documents: &Documents, naive: Option<At>) {
        match naive {
            Some(next) if documents.parent.is_some() => self.at = next,
            Some(_) => self.at = At::Ended(Ended::NotFound),
            None => self.go_on(),
        }
    }

    fn seen(&mut self, parent: Parent) {
        self.guess = None;
        self.refresh.seen = parent;
        self.go_on();
    }

    fn go_on(&mut self) {
        let must_check = self.guess.is_none() && self.refresh.seen.is_unwritten();
        self.at = if must_check { At::Check } else { At::Top };
    }

    fn swap(&mut self, documents: &mut Documents) -> Ran {
        let Refresh { seen, top, total, .. } = &self.refresh;
        let Some(parent) = documents.parent.as_mut().filter(|parent| parent.is_as(seen)) else {
            self.guess = None;
            self.at = At::Look;
            return Ran::Done;
        };
        if documents.transactions.is_held(PARENT) {
            return Ran::Waits;
        }
        *parent = Parent {
            version: Some(seen.version.unwrap_or(0) + 1),
            subset: top.clone(),
            total: *total,
        };
        documents.transactions.wrote(PARENT);
        self.refreshed();
        Ran::Done
    }

    /// The parent is written, by this refresh or a later one, or need not be.
    fn refreshed(&mut self) {
        self.at = match self.refresh.is_first_write {
            true => At::Find,
            false => At::Ended(self.refresh.ends.unwrap_or(Ended::Done)),
        };
    }

    fn no_parent(&mut self) {
        let is_stored = matches!(self.change, Change::Insert(_)) && self.refresh.ends.is_none();
        self.at = match is_stored && !self.refresh.is_first_write {
            true => At::Orphaned,
            false => At::Ended(Ended::NotFound),
        };
    }

    fn begin(&mut self, documents: &mut Documents, me: usize) {
        let Some(parent) = &documents.parent else {
            self.at = At::Ended(Ended::NotFound);
            return;
        };
        if parent.is_unwritten() && !parent.ids().iter().all(|id| documents.has(*id)) {
            self.at = At::Ended(Ended::NotMigrated);
            return;
        }
        documents.transactions.begin(me);
        match documents.transactions.write(me, PARENT) {
            true => self.at = At::ApplyIn(documents.children.clone()),
            false => self.has_conflicted = true,
        }
    }

    /// The child, in the transaction.
    fn apply_in(&mut self, snapshot: Vec<Child>, documents: &mut Documents, me: usize) {
        let has = |id: u8| snapshot.iter().any(|(child, _)| *child == id);
        let written = match self.change {
            Change::Insert((id, _)) if has(id) => {
                documents.transactions.abort(me);
                self.at = At::Ended(Ended::Exists);
                return;
            }
            Change::Update((id, _)) if !has(id) => {
                documents.transactions.abort(me);
                self.at = At::Ended(Ended::NotFound);
                return;
            }
            Change::Delete(id) if !has(id) => true,
            Change::Insert((id, _)) | Change::Update((id, _)) | Change::Delete(id) => {
                documents.transactions.write(me, name(id))
            }
            Change::Nothing => true,
        };
        self.has_conflicted |= !written;
        self.at = match written {
            true => At::Commit(snapshot),
            false => At::Begin,
        };
    }

    fn commit(&mut self, counts: bool, snapshot: Vec<Child>, documents: &mut Documents, me: usize) {
        // As the snapshot has them, with its own change.
        let mut seen = Documents {
            children: snapshot,
            ..Documents::default()
        };
        let before = seen.count();
        match self.change {
            Change::Insert(child) | Change::Update(child) => {
                seen.put(child);
                documents.put(child);
            }
            Change::Delete(id) => {
                seen.children.retain(|(child, _)| *child != id);
                documents.children.retain(|(child, _)| *child != id);
            }
            Change::Nothing => {}
        }
        if let Some(parent) = &mut documents.parent {
            parent.version = Some(parent.version.unwrap_or(0) + 1);
            parent.subset = top(&seen.children);
            if counts {
                let added = parent.total.filter(|_| self.change != Change::Nothing);
                let added = added.map(|total| (total + seen.count()).saturating_sub(before));
                parent.total = Some(added.unwrap_or(seen.count()));
            }
        }
        documents.transactions.commit(me);
        self.at = At::Ended(Ended::Done);
    }

    /// The naive forms: the parent after the child, whatever others do.
    fn naive(&mut self, form: Form, documents: &mut Documents) {
        let Some(parent) = &mut documents.parent else {
            self.at = At::Ended(Ended::NotFound);
            return;
        };
        self.at = match (&self.at, self.change) {
            (At::PushOrPull, Change::Insert(child)) => {
                parent.subset.push(child);
                parent.subset = top(&parent.subset);
                At::Ended(Ended::Done)
            }
            (At::PushOrPull, Change::Delete(id)) => {
                parent.subset.retain(|(child, _)| *child != id);
                At::ReadNext
            }
            (At::PushOrPull | At::ReadNext, _) => {
                self.refresh.top = top(&documents.children);
                At::SetOrPush
            }
            (_, Change::Delete(_)) if form == Form::PushAndPull => {
                // The one that takes its place, unless it is there.
                for child in &self.refresh.top {
                    if !parent.subset.contains(child) {
                        parent.subset.push(*child);
                    }
                }
                parent.subset = top(&parent.subset);
                At::Ended(Ended::Done)
            }
            _ => {
                parent.subset.clone_from(&self.refresh.top);
                At::Ended(Ended::Done)
            }
        };
    }
}
