//! `insert`, `update`, `delete` and `rebuild`.
//!
//! Mirrors `crates/subset/src/write` and `read/unmanaged.rs`: the change of a child, the refresh of its parent, and the
//! first write to an unmanaged parent.

mod state;

use state::{At, Refresh};
pub use state::{Change, Ended, Mode};

use super::{Child, Documents, Form, PARENT, Parent, lowest, name, top};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The change of a child.
    pub change: Change,
    /// The consistency.
    pub mode: Mode,
    /// The cached version of the parent, if this process has one.
    cached: Option<u8>,
    refresh: Refresh,
    has_conflicted: bool,
    at: At,
}

impl Write {
    /// Returns the call.
    pub fn new(form: Form, mode: Mode, change: Change) -> Self {
        Self {
            change,
            mode,
            cached: None,
            refresh: Refresh::default(),
            has_conflicted: false,
            at: match (form, mode) {
                (Form::Ours, Mode::Eventual) => At::Find,
                (Form::Ours, Mode::Transactional) => At::Begin,
                _ => At::Apply,
            },
        }
    }

    /// Returns the call of a process that has cached the version of the parent.
    #[must_use]
    pub fn with_cached_version(mut self, version: u8) -> Self {
        self.cached = Some(version);
        self
    }

    /// Returns the call of a process that has written the parent before: a transaction writes the child first.
    #[must_use]
    pub fn with_known_parent(mut self) -> Self {
        self.at = At::BeginWithChild;
        self
    }

    /// Returns the outcome.
    pub fn ended(&self) -> Option<Ended> {
        match self.at {
            At::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Returns whether the child is written, and the parent is not.
    pub fn is_between(&self) -> bool {
        matches!(
            self.at,
            At::Read | At::Top | At::Second | At::ReadAgain | At::Total | At::Swap
        ) && !self.refresh.is_first_write
    }

    /// Returns whether its refresh ended because two others were written.
    pub fn has_lost_to_two(&self) -> bool {
        self.refresh.has_lost_to_two
    }

    /// Returns whether its transaction was retried.
    pub fn has_conflicted(&self) -> bool {
        self.has_conflicted
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(
            self.at,
            At::Apply | At::Swap | At::Orphaned | At::PushOrPull | At::SetOrPush
        )
    }

    /// Returns the call that is made after an unknown outcome, by a process without a cached version.
    pub(crate) fn retry(&self, form: Form) -> Self {
        Self::new(form, self.mode, self.change)
    }

    pub(crate) fn run(&mut self, form: Form, total: bool, documents: &mut Documents, me: usize) -> Ran {
        match &self.at {
            At::Find => self.find(documents),
            At::Apply => return self.apply(form, documents),
            At::Read => match documents.parent.clone() {
                None => self.no_parent(),
                Some(read) => {
                    let version = read.version.unwrap_or(0);
                    let first = *self.refresh.first.get_or_insert(version);
                    if version - first >= 2 {
                        self.refresh.has_lost_to_two = true;
                        self.refreshed();
                    } else {
                        self.read(read);
                    }
                }
            },
            At::Check => {
                let is_migrated = self.refresh.read.ids().iter().all(|id| documents.has(*id));
                self.at = match is_migrated {
                    true => At::Top,
                    false => At::Ended(Ended::NotMigrated),
                };
            }
            // With a cached version, `Top` and `ReadAgain` can be one command, which does not run atomically.
            At::Top => {
                self.refresh.top = top(&documents.children);
                match documents.second {
                    true => self.at = At::Second,
                    false => self.compare(total),
                }
            }
            At::Second => {
                self.refresh.lowest = lowest(&documents.children);
                self.compare(total);
            }
            At::ReadAgain => match &documents.parent {
                None => self.no_parent(),
                Some(parent) if self.refresh.is_as_stored(parent) => self.refreshed(),
                Some(_) => self.at = At::Swap,
            },
            At::Total => {
                self.refresh.total = Some(documents.count());
                self.at = At::Swap;
            }
            At::Swap => return self.swap(documents),
            At::Orphaned => {
                if let Change::Insert((id, _)) = self.change {
                    if documents.transactions.is_locked(name(id)) {
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
            At::BeginWithChild => {
                documents.transactions.begin(me);
                self.apply_in(documents.children.clone(), documents, me);
                let has_version = documents.parent.as_ref().is_some_and(|parent| parent.version.is_some());
                // A refused child is left to an attempt that writes the parent first.
                self.at = match std::mem::replace(&mut self.at, At::Begin) {
                    At::Commit(snapshot) => At::Lock(snapshot, has_version),
                    _ => At::Begin,
                };
            }
            At::Lock(snapshot, has_version) => {
                let (snapshot, has_version) = (snapshot.clone(), *has_version);
                let is_written = has_version && documents.transactions.write(me, PARENT);
                self.has_conflicted |= has_version && !is_written;
                self.at = match is_written {
                    true => At::Commit(snapshot),
                    false => {
                        documents.transactions.abort(me);
                        At::Begin
                    }
                };
            }
            At::PushOrPull | At::ReadNext | At::SetOrPush => self.naive(form, documents),
            At::Ended(_) => {}
        }
        Ran::Done
    }

    /// Continues after all subsets were read.
    fn compare(&mut self, total: bool) {
        let is_new_and_out = matches!(self.change, Change::Insert((id, _)) if !self.refresh.embeds(id))
            && !total
            && self.refresh.ends.is_none()
            && !self.refresh.is_first_write;
        if is_new_and_out && self.cached.is_some() {
            self.at = At::ReadAgain;
        } else if is_new_and_out && self.refresh.is_as_stored(&self.refresh.read) {
            self.refreshed();
        } else {
            self.at = if total { At::Total } else { At::Swap };
        }
    }

    fn find(&mut self, documents: &Documents) {
        if let Some(version) = self.cached.filter(|_| matches!(self.change, Change::Insert(_))) {
            self.refresh.read.version = Some(version);
            self.at = At::Apply;
            return;
        }
        self.cached = None;
        match documents.parent.clone() {
            None => self.at = At::Ended(Ended::NotFound),
            Some(parent) if parent.is_unmanaged() => {
                self.refresh.is_first_write = true;
                self.read(parent);
            }
            Some(parent) => {
                self.refresh = Refresh {
                    read: parent,
                    ..Refresh::default()
                };
                self.at = At::Apply;
            }
        }
    }

    /// Writes the child, without a transaction.
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
        if documents.transactions.is_locked(name(id)) {
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

    /// Continues with the parent as it was read before the child was written. That read does not count.
    fn after_child(&mut self, documents: &Documents, naive: Option<At>) {
        match naive {
            Some(next) if documents.parent.is_some() => self.at = next,
            Some(_) => self.at = At::Ended(Ended::NotFound),
            None => self.continue_refresh(),
        }
    }

    fn read(&mut self, parent: Parent) {
        self.cached = None;
        self.refresh.read = parent;
        self.continue_refresh();
    }

    fn continue_refresh(&mut self) {
        let must_check = self.cached.is_none() && self.refresh.read.is_unmanaged();
        self.at = if must_check { At::Check } else { At::Top };
    }

    fn swap(&mut self, documents: &mut Documents) -> Ran {
        let Refresh {
            read,
            top,
            lowest,
            total,
            ..
        } = &self.refresh;
        let Some(parent) = documents.parent.as_mut().filter(|parent| parent.is_as(read)) else {
            self.cached = None;
            self.at = At::Read;
            return Ran::Done;
        };
        if documents.transactions.is_locked(PARENT) {
            return Ran::Waits;
        }
        *parent = Parent {
            version: Some(read.version.unwrap_or(0) + 1),
            subset: top.clone(),
            lowest: *lowest,
            total: *total,
        };
        documents.transactions.wrote(PARENT);
        self.refreshed();
        Ran::Done
    }

    /// Ends the refresh: the parent is written, by this refresh or a later one, or need not be.
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
        if parent.is_unmanaged() && !parent.ids().iter().all(|id| documents.has(*id)) {
            self.at = At::Ended(Ended::NotMigrated);
            return;
        }
        documents.transactions.begin(me);
        match documents.transactions.write(me, PARENT) {
            true => self.at = At::ApplyIn(documents.children.clone()),
            false => self.has_conflicted = true,
        }
    }

    /// Writes the child in the transaction.
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
        // The children of the snapshot, with the call's own change.
        let mut read = Documents {
            children: snapshot,
            ..Documents::default()
        };
        let before = read.count();
        match self.change {
            Change::Insert(child) | Change::Update(child) => {
                read.put(child);
                documents.put(child);
            }
            Change::Delete(id) => {
                read.children.retain(|(child, _)| *child != id);
                documents.children.retain(|(child, _)| *child != id);
            }
            Change::Nothing => {}
        }
        if let Some(parent) = &mut documents.parent {
            parent.version = Some(parent.version.unwrap_or(0) + 1);
            parent.subset = top(&read.children);
            parent.lowest = lowest(&read.children).filter(|_| documents.second);
            if counts {
                let added = parent.total.filter(|_| self.change != Change::Nothing);
                let added = added.map(|total| (total + read.count()).saturating_sub(before));
                parent.total = Some(added.unwrap_or(read.count()));
            }
        }
        documents.transactions.commit(me);
        self.at = At::Ended(Ended::Done);
    }

    /// Writes the parent after the child, without regard to other clients.
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
                // The child that follows, unless it is embedded already.
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
