//! Results that several patterns share.

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Whether something was removed. `false` is no error: a retry of a removal that took effect finds nothing.
    pub found: bool,
}

impl Removed {
    /// Creates the result.
    #[doc(hidden)]
    pub fn new(found: bool) -> Self {
        Self { found }
    }
}

/// The result of an update or a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// Whether it changed anything. `false` when the stored values are the given ones already.
    pub modified: bool,
}

impl Updated {
    /// Creates the result.
    #[doc(hidden)]
    pub fn new(modified: bool) -> Self {
        Self { modified }
    }
}
