//! Benchmarks of the history pattern.

mod as_of;
mod by_hand;
mod policies;
mod update;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::report::Section;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 2] = ["update-policy", "as-of"];

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "update-policy" => update::run(bench).await,
        "as-of" => as_of::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}
