//! Where a page starts, and where its reader continues.

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
    /// Starts after a position, if there is one.
    pub fn after(token: Option<T>) -> Self {
        token.map_or(Self::First, Self::After)
    }

    /// Starts with the last documents before a position, if there is one.
    pub fn before(token: Option<T>) -> Self {
        token.map_or(Self::First, Self::Before)
    }

    /// Returns the position.
    pub fn position(&self) -> Option<&T> {
        match self {
            Self::First => None,
            Self::After(position) | Self::Before(position) => Some(position),
        }
    }

    /// Returns where to continue before and after a page: by the positions of its first and its last document, whether there may
    /// be more in its direction, and the positions before and after all documents.
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
