//! `insert`, `update` and `delete` in a transaction, and the refresh of `refresh`, `repair` and `follow`.
//!
//! Mirrors `crates/subset/src/write` and `read.rs`: the transaction that writes a child and its parent, in both
//! orders, and the refresh of a parent without a transaction.

mod state;

use state::{At, Refresh};
pub use state::{Change, Ended};

use super::documents::{Child, Documents, Form, PARENT, Parent, lowest, name, top};
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The change of a child.
    pub change: Change,
    /// Whether it refreshes the parent without a transaction.
    pub is_refresh: bool,
    refresh: Refresh,
    has_conflicted: bool,
    at: At,
}

impl Write {
    /// Returns the call, in a transaction that writes the parent first.
    pub fn new(form: Form, change: Change) -> Self {
        Self {
            change,
            is_refresh: false,
            refresh: Refresh::default(),
            has_conflicted: false,
            at: match form {
                Form::Ours => At::Begin,
                _ => At::Apply,
            },
        }
    }

    /// Returns the refresh of a parent, without a transaction.
    pub fn refresh() -> Self {
        Self {
            is_refresh: true,
            at: At::Read,
            ..Self::new(Form::Ours, Change::Nothing)
        }
    }

    /// Returns the call of a process that has written the parent before: its transaction writes the child first.
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

    /// Returns whether its refresh ended because two other writes came first.
    pub fn has_lost_to_two(&self) -> bool {
        self.refresh.has_lost_to_two
    }

    /// Returns whether its transaction was retried.
    pub fn has_conflicted(&self) -> bool {
        self.has_conflicted
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self.at, At::Apply | At::Swap | At::PushOrPull | At::SetOrPush)
    }

    /// Returns the call that is made after an unknown outcome, by another process.
    pub(crate) fn retry(&self, form: Form) -> Self {
        match self.is_refresh {
            true => Self::refresh(),
            false => Self::new(form, self.change),
        }
    }

    pub(crate) fn sends(&self, total: bool) -> Vec<&'static str> {
        let reads = ["then: read review"];
        let of_child = |first: [&'static str; 3]| match self.change {
            Change::Insert(_) => vec![first[0]],
            Change::Update(_) => vec![first[1]],
            Change::Delete(_) => vec![first[2]],
            Change::Nothing => Vec::new(),
        };
        match self.at {
            At::Read => vec!["read product"],
            At::Check | At::Top | At::Second => vec!["read review"],
            At::Total => vec!["read review"; usize::from(total)],
            At::Swap => vec!["update product"],
            At::Begin => vec!["begin: update product"],
            // The transaction reads the children of its snapshot.
            At::ApplyIn(_) => [
                of_child(["then: insert review", "then: update review", "then: delete review"]),
                reads.to_vec(),
                vec!["then: update product"],
            ]
            .concat(),
            At::BeginWithChild => [
                of_child(["begin: insert review", "begin: update review", "begin: delete review"]),
                reads.to_vec(),
            ]
            .concat(),
            At::Lock(..) => vec!["then: update product"],
            At::Commit(_) => vec!["then: commitTransaction"],
            At::Apply | At::PushOrPull | At::ReadNext | At::SetOrPush | At::Ended(_) => Vec::new(),
        }
    }

    pub(crate) fn run(&mut self, form: Form, total: bool, documents: &mut Documents, me: usize) -> Ran {
        match &self.at {
            At::Apply => return self.apply(form, documents),
            At::Read => self.read(total, documents),
            At::Check => {
                let is_migrated = self.refresh.read.ids().iter().all(|id| documents.has(*id));
                self.at = match is_migrated {
                    true => At::Top,
                    false => At::Ended(Ended::NotMigrated),
                };
            }
            At::Top => {
                self.refresh.top = top(&documents.children);
                self.at = match documents.second {
                    true => At::Second,
                    false => At::Total,
                };
            }
            At::Second => {
                self.refresh.lowest = lowest(&documents.children);
                self.at = At::Total;
            }
            At::Total => {
                self.refresh.total = total.then(|| documents.count());
                self.at = At::Swap;
            }
            At::Swap => return self.swap(documents),
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

    /// The refresh: reads the parent. Two transactions add to a total and do not count, so it is not done when they have
    /// come first.
    fn read(&mut self, total: bool, documents: &Documents) {
        let Some(read) = documents.parent.clone() else {
            self.at = At::Ended(Ended::NotFound);
            return;
        };
        let version = read.version.unwrap_or(0);
        let first = *self.refresh.first.get_or_insert(version);
        self.at = if version - first >= 2 && !total {
            self.refresh.has_lost_to_two = true;
            At::Ended(Ended::Done)
        } else if read.is_unmanaged() {
            At::Check
        } else {
            At::Top
        };
        self.refresh.read = read;
    }

    /// The naive forms: writes the child.
    fn apply(&mut self, form: Form, documents: &mut Documents) -> Ran {
        match self.change {
            Change::Insert((id, _)) if documents.has(id) => {
                self.at = At::Ended(Ended::Exists);
                return Ran::Done;
            }
            Change::Update((id, _)) if !documents.has(id) => {
                self.at = At::Ended(Ended::NotFound);
                return Ran::Done;
            }
            Change::Insert(child) | Change::Update(child) => documents.put(child),
            Change::Delete(id) => documents.children.retain(|(child, _)| *child != id),
            Change::Nothing => {}
        }
        self.at = match form {
            Form::PushAndPull => At::PushOrPull,
            _ => At::ReadNext,
        };
        Ran::Done
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
        self.at = At::Ended(Ended::Done);
        Ran::Done
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
