//! The limit of a page.

use crate::error::{Error, ErrorKind, Result};

/// Refuses a limit of 0.
pub fn check_limit(limit: impl Into<u64>) -> Result<()> {
    match limit.into() {
        0 => Err(Error::new(
            ErrorKind::InvalidArgument,
            "the limit is 0, nothing was read: set it to 1 or more",
        )),
        _ => Ok(()),
    }
}

/// Removes the rows beyond the limit. Returns the last row of the page if there are more.
pub fn cut<T>(rows: &mut Vec<T>, limit: u32) -> Option<&T> {
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    rows.last().filter(|_| has_more)
}
