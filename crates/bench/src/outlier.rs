//! Benchmarks of the outlier pattern.

mod by_hand;
mod caps;
mod collections;
mod extras;
mod growth;
mod hazards;
mod latency;
mod lists;
mod one_book;
mod push;
mod reads;
mod scale;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::report::Section;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 10] = [
    "reads",
    "growth",
    "push",
    "push-latency",
    "one-book",
    "caps",
    "extras",
    "lists",
    "hazards",
    "long-list",
];

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "reads" => reads::run(bench).await,
        "growth" => growth::run(bench).await,
        "push" => push::run(bench).await,
        "push-latency" => latency::run(bench).await,
        "one-book" => one_book::run(bench).await,
        "caps" => caps::run(bench).await,
        "extras" => extras::run(bench).await,
        "lists" => lists::run(bench).await,
        "hazards" => hazards::run(bench).await,
        "long-list" => scale::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}
