//! The stored documents of the model, and the forms of its commands.

use crate::transactions::Transactions;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of the manual: updates the document, then copies the state that it then has.
    Manual,
    /// Those of MongoDB's agent skills: finds the document, copies it, and sets its new fields.
    FindCopyUpdate,
}

/// The content of the document after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Its number.
    pub revision: u8,
    /// The call that wrote it.
    pub author: u8,
    /// Whether it is a tombstone.
    pub deleted: bool,
    /// The content: a bit for each change.
    pub changes: u8,
}

/// The current document and its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Documents {
    /// The current document.
    pub current: Option<Version>,
    /// The copies, in the order of their numbers.
    pub copies: Vec<Version>,
    /// The documents in the trash.
    pub trash: Vec<Version>,
    /// Every version that the document had: not stored, for the invariants.
    pub log: Vec<Version>,
    /// The highest number that a deletion of old revisions deletes: not stored, for the invariants.
    pub deleted_to: u8,
    pub(crate) transactions: Transactions,
}

/// The bit of the current document, which is also the entry of its id in the unique index.
pub(super) const CURRENT: u64 = 1;

/// Returns the bit of the copy with a number, which is also its entry in the unique index.
pub(super) fn copy_bit(revision: u8) -> u64 {
    1 << (1 + revision)
}

/// The author of the initial versions.
const NO_CLIENT: u8 = u8::MAX;

impl Documents {
    /// Returns a document with this number of revisions.
    pub fn of(revisions: u8) -> Self {
        let version = |revision| Version {
            revision,
            author: NO_CLIENT,
            deleted: false,
            changes: 0,
        };
        let log: Vec<Version> = (1..=revisions).map(version).collect();
        Self {
            current: log.last().copied(),
            copies: log.clone(),
            log,
            ..Self::default()
        }
    }

    /// Returns a deleted document with this number of revisions, the last of which is the tombstone.
    pub fn deleted(revisions: u8) -> Self {
        let mut documents = Self::of(revisions);
        documents.current = None;
        for versions in [&mut documents.copies, &mut documents.log] {
            if let Some(last) = versions.last_mut() {
                last.deleted = true;
            }
        }
        documents
    }

    pub(super) fn copy(&self, revision: u8) -> Option<Version> {
        self.copies.iter().find(|copy| copy.revision == revision).copied()
    }

    pub(super) fn newest_copy(&self) -> Option<Version> {
        self.copies.last().copied()
    }

    pub(super) fn add_copy(&mut self, version: Version) {
        self.copies.push(version);
        self.copies.sort_by_key(|copy| copy.revision);
    }

    /// Writes the current document. A number that an earlier version had is not logged: the invariants tell whether it
    /// is mistaken for a revision.
    pub(super) fn change(&mut self, version: Version) {
        if usize::from(version.revision) > self.log.len() {
            self.log.push(version);
        }
        self.current = Some(version);
    }

    /// Returns whether the copies from the first that is not deleted on are complete.
    pub(super) fn is_complete(&self) -> bool {
        let mut log = self.log.iter();
        log.all(|version| version.revision <= self.deleted_to || self.copies.contains(version))
    }
}

crate::stored!(Documents);
