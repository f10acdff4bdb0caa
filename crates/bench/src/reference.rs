//! Benchmarks of the reference pattern.

mod by_hand;
mod insert;
mod mixed;
mod orders;
mod page;
mod rename;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::report::Section;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 4] = ["order-page", "insert-order", "rename", "renames-and-inserts"];

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "order-page" => page::run(bench).await,
        "insert-order" => insert::run(bench).await,
        "rename" => rename::run(bench).await,
        "renames-and-inserts" => mixed::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}
