//! Benchmarks of the bucket pattern.

mod append;
mod batches;
mod by_hand;
mod collection;
mod figures;
mod history;
mod increment;
mod latency;
mod one_key;
mod overhead;
mod pages;
mod pool;
mod scale;
mod settings;
mod storage;
mod trade;
mod windows;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::report::Section;
pub(crate) use trade::scatter;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 13] = [
    "append",
    "overhead",
    "one-key",
    "latency",
    "pool",
    "long-history",
    "pages",
    "batches",
    "figures",
    "windows",
    "increment",
    "storage",
    "scale",
];

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "append" => append::run(bench).await,
        "overhead" => overhead::run(bench).await,
        "one-key" => one_key::run(bench).await,
        "latency" => latency::run(bench).await,
        "pool" => pool::run(bench).await,
        "long-history" => history::run(bench).await,
        "pages" => pages::run(bench).await,
        "batches" => batches::run(bench).await,
        "figures" => figures::run(bench).await,
        "windows" => windows::run(bench).await,
        "increment" => increment::run(bench).await,
        "storage" => storage::run(bench).await,
        "scale" => scale::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}
