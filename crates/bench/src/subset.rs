//! Benchmarks of the subset pattern.

mod by_hand;
mod collections;
mod computed;
mod hot_product;
mod insert;
mod latency;
mod naive;
mod one_to_one;
mod product_page;
mod rebuild;
mod scale;
mod second_page;
mod wrong;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::report::Section;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 10] = [
    "product-page",
    "second-page",
    "one-to-one",
    "insert",
    "insert-latency",
    "computed",
    "hot-product",
    "wrong-subsets",
    "rebuild",
    "many-children",
];

pub(crate) async fn section(bench: &Bench<'_>, name: &str) -> Result<Section> {
    match name {
        "product-page" => product_page::run(bench).await,
        "second-page" => second_page::run(bench).await,
        "one-to-one" => one_to_one::run(bench).await,
        "insert" => insert::run(bench).await,
        "insert-latency" => latency::run(bench).await,
        "computed" => computed::run(bench).await,
        "hot-product" => hot_product::run(bench).await,
        "wrong-subsets" => wrong::run(bench).await,
        "rebuild" => rebuild::run(bench).await,
        "many-children" => scale::run(bench).await,
        _ => bail!("the section `{name}` does not exist"),
    }
}
