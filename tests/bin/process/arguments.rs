//! The arguments of a process.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

/// Returns the next argument.
pub(super) fn argument() -> Result<String> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::args().nth(next).context("an argument is missing")
}
