//! Where a page starts, and where its reader continues.

use crate::error::{Error, ErrorKind, Result};
use crate::limit::check_limit;

/// The tokens that a caller gave for a page.
#[derive(Clone, Debug)]
pub struct Tokens<T> {
    after: Option<T>,
    before: Option<T>,
}

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        let (after, before) = (None, None);
        Self { after, before }
    }
}

impl<T> Tokens<T> {
    /// Sets the position after which the page starts. `None` changes nothing.
    pub fn after(&mut self, token: Option<T>) {
        self.after = token.or(self.after.take());
    }

    /// Sets the position before which the page ends. `None` changes nothing.
    pub fn before(&mut self, token: Option<T>) {
        self.before = token.or(self.before.take());
    }

    /// Returns where the page starts.
    ///
    /// # Errors
    /// - [`InvalidArgument`](ErrorKind::InvalidArgument): both tokens.
    pub fn start(self) -> Result<PageStart<T>> {
        match (self.after, self.before) {
            (None, None) => Ok(PageStart::First),
            (Some(token), None) => Ok(PageStart::After(token)),
            (None, Some(token)) => Ok(PageStart::Before(token)),
            (Some(_), Some(_)) => Err(Error::new(
                ErrorKind::InvalidArgument,
                "the page has a token for `after` and one for `before`, nothing was read: give one of them",
            )),
        }
    }
}

/// Where a page starts.
#[derive(Clone, Debug)]
pub enum PageStart<T> {
    /// Before all documents.
    First,
    /// After a position.
    After(T),
    /// With the last documents before a position.
    Before(T),
}

impl<T> PageStart<T> {
    /// Returns whether the page is read from its end.
    pub fn is_backward(&self) -> bool {
        matches!(self, Self::Before(_))
    }

    /// Returns the position.
    pub fn position(&self) -> Option<&T> {
        match self {
            Self::First => None,
            Self::After(position) | Self::Before(position) => Some(position),
        }
    }

    /// Returns where to continue before and after a page: by the positions of its ends, whether there may be more in its
    /// direction, and the positions before and after all documents.
    pub fn around(&self, first: Option<T>, last: Option<T>, has_more: bool, edges: [T; 2]) -> [Option<T>; 2] {
        let [before_all, after_all] = edges;
        match self {
            Self::First => [None, last.filter(|_| has_more)],
            // An empty page lies behind the document of its token, which the previous page must include.
            Self::After(_) => [first.or(Some(after_all)), last.filter(|_| has_more)],
            Self::Before(_) => [first.filter(|_| has_more), last.or(Some(before_all))],
        }
    }
}

/// The page that a caller asked for.
#[derive(Clone, Debug)]
pub struct Asked<T> {
    /// Where it starts.
    pub start: PageStart<T>,
    /// The order of the list.
    pub newest_first: bool,
    /// The most items, at least 1.
    pub limit: u32,
}

impl<T> Asked<T> {
    /// Checks what a caller asked for.
    pub(super) fn new(start: Result<PageStart<T>>, newest_first: bool, limit: u32) -> Result<Self> {
        check_limit(limit)?;
        let start = start?;
        Ok(Self {
            start,
            newest_first,
            limit,
        })
    }

    /// Returns whether the page is read from newer items to older ones.
    pub fn descends(&self) -> bool {
        self.newest_first != self.start.is_backward()
    }

    /// Returns the positions before and after all items of a list, from the oldest and newest position.
    pub fn edges(&self, oldest: T, newest: T) -> [T; 2] {
        match self.newest_first {
            true => [newest, oldest],
            false => [oldest, newest],
        }
    }
}
