//! Benchmarks of documents of several versions.

mod contacts;
mod convert;
mod guarded;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::report::Section;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 2] = ["versioned-calls", "convert"];

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "versioned-calls" => guarded::run(bench).await,
        "convert" => convert::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}
