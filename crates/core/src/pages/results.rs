//! The result of a page.

use super::token::DocumentToken;

/// A page of documents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DocumentPage<D> {
    /// The documents, in the order of the sort, also on a page [before](super::ReadPage::before) a position.
    pub documents: Vec<D>,
    /// The position to continue [before](super::ReadPage::before); `None` if there are no earlier documents. After a position
    /// it is always present, and the previous page may be empty.
    pub previous: Option<DocumentToken>,
    /// The position to continue [after](super::ReadPage::after); `None` if there are no more documents. Before a position it
    /// is always present, and the next page may be empty.
    pub next: Option<DocumentToken>,
}

impl<D> DocumentPage<D> {
    /// Creates it, for example in a fake of pages.
    pub fn new(documents: Vec<D>, previous: Option<DocumentToken>, next: Option<DocumentToken>) -> Self {
        Self {
            documents,
            previous,
            next,
        }
    }
}
