//! The stored documents of the model, and the settings of its calls.

use crate::transactions::Transactions;

/// The maximum number of elements in the array.
pub const THRESHOLD: usize = 2;
/// The maximum number of elements in an overflow document.
pub const CAP: usize = 2;

/// The modelled commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Those of this project.
    Ours,
    /// Those of the manual: reads the flag, pushes, and sets the flag if the array is too long by then. Overflow
    /// documents are written by an upsert without a unique index.
    Manual,
    /// Those of this project, but sets the flag after it opens overflow documents, and not in the same transaction.
    FlagLast,
    /// Those of this project, but deletes the main document and its overflow documents by a command each.
    DeleteApart,
    /// Those of this project, but a unique push to a known outlier never checks the array after it.
    NoCheck,
    /// Those of this project, but a refresh that fills the array keeps the ids of overflow documents.
    SameIds,
    /// Those of this project, but an update that finds no element does not read a snapshot.
    NoSnapshot,
}

/// The settings of the calls.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whose commands the clients send.
    pub form: Form,
    /// Whether elements are unique and pushed with `push_unique`.
    pub unique: bool,
}

/// The document and its overflow documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Documents {
    /// Whether the main document exists.
    pub exists: bool,
    /// The array.
    pub inline: Vec<u8>,
    /// The flag.
    pub flag: bool,
    /// The overflow documents, in the order of their positions.
    pub extras: Vec<Extra>,
    /// The id of the next overflow document.
    pub(crate) next_id: u8,
    pub(crate) transactions: Transactions,
}

/// An overflow document. Its count is the number of its elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Its id.
    pub id: u8,
    /// Its position.
    pub seq: u8,
    /// Its elements.
    pub elements: Vec<u8>,
}

/// The bit of the main document.
pub(super) const MAIN: u64 = 1;

/// The commands that read from a snapshot whether an element is stored anywhere.
pub(super) const IS_STORED: [&str; 3] = ["begin: read sales", "then: read extra_sales", "then: commitTransaction"];

/// Returns the bit of the overflow document at a position.
pub(super) fn position_bit(seq: u8) -> u64 {
    1 << (1 + seq)
}

/// Returns the bits of the entries of elements in the unique index, if there is one.
pub(super) fn entries(unique: bool, elements: &[u8]) -> u64 {
    let of_index = elements.iter().filter(|_| unique);
    of_index.fold(0, |names, element| names | 1 << (32 + element))
}

/// The number that all elements are below.
pub(super) const ELEMENTS: u8 = 16;

/// Returns whether these are versions of one element.
pub(super) fn is_same(stored: u8, element: u8) -> bool {
    stored % ELEMENTS == element % ELEMENTS
}

impl Documents {
    /// Returns documents with these elements in the array, and these in overflow documents.
    pub fn of(inline: &[u8], extras: &[&[u8]]) -> Self {
        let extras = extras.iter().zip(0..).map(|(elements, seq)| Extra {
            id: seq,
            seq,
            elements: elements.to_vec(),
        });
        let extras: Vec<Extra> = extras.collect();
        Self {
            exists: true,
            inline: inline.to_vec(),
            flag: !extras.is_empty(),
            next_id: u8::try_from(extras.len()).unwrap_or(u8::MAX),
            extras,
            transactions: Transactions::default(),
        }
    }

    /// Returns all elements, in order.
    pub fn elements(&self) -> impl Iterator<Item = u8> {
        let of_extras = self.extras.iter().flat_map(|extra| &extra.elements);
        self.inline.iter().chain(of_extras).copied()
    }

    /// Returns how often an element is stored, in any version.
    pub fn count(&self, element: u8) -> usize {
        self.elements().filter(|stored| is_same(*stored, element)).count()
    }

    /// Returns whether a reader that follows the flag finds an element, or the document is deleted.
    pub(super) fn is_visible(&self, element: u8) -> bool {
        let is_inline = self.inline.iter().any(|stored| is_same(*stored, element));
        !self.exists || is_inline || self.flag && self.count(element) > 0
    }

    /// Inserts overflow documents, with new ids.
    pub(super) fn insert(&mut self, extras: Vec<Extra>) {
        for extra in extras {
            self.extras.push(Extra {
                id: self.next_id,
                ..extra
            });
            self.next_id += 1;
        }
        self.extras.sort_by_key(|extra| extra.seq);
    }

    pub(super) fn extras_have(&self, element: u8) -> bool {
        self.extras.iter().any(|extra| extra.elements.contains(&element))
    }
}

crate::stored!(Documents);
