//! Benchmarks of the archive.

mod run;
mod sales;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::report::Section;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 1] = ["archive-run"];

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "archive-run" => run::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}
