//! A page of a list.

use super::start::PageStart;
use crate::error::Result;

/// A page of a list, with the positions around it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<I, T> {
    /// The items, in the order of the list, also on a page before a position.
    pub items: Vec<I>,
    /// The position to continue [before](super::List::before); `None` if there are no earlier items. The previous page can be empty.
    pub previous: Option<T>,
    /// The position to continue [after](super::List::after); `None` if there are no more items. The next page can be empty.
    pub next: Option<T>,
    /// The position of the first item, to [poll](super#polling) for items before it. Of an empty page it is the given position.
    pub first_token: Option<T>,
    /// The position of the last item, to [poll](super#polling) for items after it. Of an empty page it is the given position.
    pub last_token: Option<T>,
}

impl<I, T> Page<I, T> {
    /// Creates a page, for example in a fake of a repository. The positions are `None`.
    pub fn new(items: Vec<I>) -> Self {
        Self {
            items,
            previous: None,
            next: None,
            first_token: None,
            last_token: None,
        }
    }
}

impl<I, T> Page<I, T> {
    /// Converts the items.
    #[doc(hidden)]
    pub fn try_map<J>(self, convert: impl FnMut(I) -> Result<J>) -> Result<Page<J, T>> {
        Ok(Page {
            items: self.items.into_iter().map(convert).collect::<Result<_>>()?,
            previous: self.previous,
            next: self.next,
            first_token: self.first_token,
            last_token: self.last_token,
        })
    }
}

impl<I, T: Clone> Page<I, T> {
    /// Creates a page from its items, in their order, and the positions of its first and last item. `edges` are the
    /// positions before and after all items.
    #[doc(hidden)]
    pub fn around(items: Vec<I>, start: &PageStart<T>, ends: Option<[T; 2]>, has_more: bool, edges: [T; 2]) -> Self {
        let [first, last] = ends.map_or([None, None], |ends| ends.map(Some));
        // Of an empty list, an item that comes later is before the end, and after the start.
        let [before_all, after_all] = edges.clone();
        let (first_empty, last_empty) = match start.position() {
            None => (after_all, before_all),
            Some(given) => (given.clone(), given.clone()),
        };
        let [previous, next] = start.around(first.clone(), last.clone(), has_more, edges);
        let first_token = first.or(Some(first_empty));
        let last_token = last.or(Some(last_empty));
        Self {
            items,
            previous,
            next,
            first_token,
            last_token,
        }
    }
}
