//! `refresh_all`, after a program without the repository has deleted a child.
//!
//! Mirrors `crates/subset/src/repair/rebuild.rs` and the stages in `query/whole.rs`: the aggregation that fails at a
//! parent that another client has written, and then the aggregation that leaves such a parent as it is, with the scan
//! for stale parents. The server does not run an aggregation atomically: it reads the parent, the children and their
//! number one after the other, and then writes the parent.
//!
//! Left out: unmanaged parents, which [`crate::migration`] has, and the confirmation of a finding by a second read.

use super::documents::{Child, Documents, Form, PARENT, Parent, name, top};
use super::write::Write;
use crate::world::Ran;

/// A call and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RebuildAll {
    /// The child that the program deletes before it calls.
    deletes: u8,
    /// Whether it ends after an aggregation that leaves the parent as it is: the naive form.
    is_naive: bool,
    pass: Pass,
    /// The parent as this pass read it.
    read: Parent,
    top: Vec<Child>,
    total: Option<u8>,
    at: At,
}

/// An aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pass {
    /// Fails at a parent that another client has written.
    Undisturbed,
    /// Leaves such a parent as it is.
    Guarded,
    /// Looks for stale parents.
    Scan,
}

/// The next command, or the next step of an aggregation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    /// The program deletes the child.
    Delete,
    /// Reads the parent.
    Parent,
    /// Reads the first children.
    Top,
    /// Reads the number of children.
    Total,
    /// Writes the parent.
    Merge,
    /// Refreshes a parent that the scan has found.
    Refresh(Write),
    Ended,
}

impl RebuildAll {
    /// Returns the call of a program that deletes this child before.
    pub fn after_delete(child: u8) -> Self {
        Self {
            deletes: child,
            is_naive: false,
            pass: Pass::Undisturbed,
            read: Parent::default(),
            top: Vec::new(),
            total: None,
            at: At::Delete,
        }
    }

    /// Returns the form that does not check a parent again after another client has written it.
    #[must_use]
    pub fn naive(self) -> Self {
        Self { is_naive: true, ..self }
    }

    /// Returns the call that is made after an unknown outcome.
    pub(super) fn retry(&self) -> Self {
        Self {
            is_naive: self.is_naive,
            ..Self::after_delete(self.deletes)
        }
    }

    /// Returns whether another client made it check again.
    pub(super) fn was_disturbed(&self) -> bool {
        self.pass != Pass::Undisturbed
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at == At::Ended
    }

    pub(super) fn is_mid_command(&self) -> bool {
        matches!(self.at, At::Top | At::Total | At::Merge)
    }

    pub(super) fn may_run_late(&self) -> bool {
        match &self.at {
            At::Refresh(write) => write.writes(),
            _ => self.pass != Pass::Scan,
        }
    }

    pub(super) fn sends(&self, counts: bool) -> Vec<&'static str> {
        match &self.at {
            At::Parent if self.pass == Pass::Scan => vec!["read product"],
            At::Parent => vec!["merge product into product"],
            At::Refresh(write) => write.sends(counts),
            At::Delete | At::Top | At::Total | At::Merge | At::Ended => Vec::new(),
        }
    }

    pub(super) fn run(&mut self, counts: bool, documents: &mut Documents, me: usize) -> Ran {
        match &mut self.at {
            At::Delete => {
                if documents.transactions.is_locked(name(self.deletes)) {
                    return Ran::Waits;
                }
                documents.children.retain(|(child, _)| *child != self.deletes);
                documents.transactions.wrote(name(self.deletes));
                self.at = At::Parent;
            }
            At::Parent => match &documents.parent {
                None => self.at = At::Ended,
                Some(parent) => {
                    self.read = parent.clone();
                    self.at = At::Top;
                }
            },
            At::Top => {
                self.top = top(&documents.children);
                match counts {
                    true => self.at = At::Total,
                    false => self.compare(),
                }
            }
            At::Total => {
                self.total = Some(documents.count());
                self.compare();
            }
            At::Merge => return self.merge(documents),
            At::Refresh(write) => {
                if write.run(Form::Ours, counts, documents, me) == Ran::Waits {
                    return Ran::Waits;
                }
                if write.ended().is_some() {
                    self.at = At::Ended;
                }
            }
            At::Ended => {}
        }
        Ran::Done
    }

    fn compare(&mut self) {
        let is_correct = self.read.subset == self.top && self.read.total == self.total;
        match (is_correct, self.pass) {
            (true, _) => self.continue_after(true),
            (false, Pass::Scan) => self.at = At::Refresh(Write::refresh()),
            (false, _) => self.at = At::Merge,
        }
    }

    fn merge(&mut self, documents: &mut Documents) -> Ran {
        let unchanged = documents.parent.as_mut().filter(|parent| parent.is_as(&self.read));
        let Some(parent) = unchanged else {
            self.continue_after(false);
            return Ran::Done;
        };
        if documents.transactions.is_locked(PARENT) {
            return Ran::Waits;
        }
        *parent = Parent {
            version: Some(self.read.version.unwrap_or(0) + 1),
            subset: self.top.clone(),
            total: self.total,
            ..self.read.clone()
        };
        documents.transactions.wrote(PARENT);
        self.continue_after(true);
        Ran::Done
    }

    /// Continues after a pass that found the parent correct or wrote it, or that another client has disturbed.
    fn continue_after(&mut self, is_done: bool) {
        (self.pass, self.at) = match self.pass {
            Pass::Undisturbed if is_done || self.is_naive => (Pass::Undisturbed, At::Ended),
            Pass::Undisturbed => (Pass::Guarded, At::Parent),
            Pass::Guarded => (Pass::Scan, At::Parent),
            Pass::Scan => (Pass::Scan, At::Ended),
        };
    }
}
