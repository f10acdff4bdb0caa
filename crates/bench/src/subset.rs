//! Benchmarks of the subset pattern.

mod by_hand;
mod collections;
mod insert;
mod product_page;
mod rebuild;

use crate::part::Part;

pub(crate) const PART: Part = Part {
    name: "subset",
    page: "subset.md",
    sections: &[
        ("product-page", |bench| Box::pin(product_page::run(bench))),
        ("insert", |bench| Box::pin(insert::run(bench))),
        ("rebuild", |bench| Box::pin(rebuild::run(bench))),
    ],
};
