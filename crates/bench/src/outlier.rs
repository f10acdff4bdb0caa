//! Benchmarks of the outlier pattern.

mod by_hand;
mod collections;
mod push;
mod reads;

use crate::part::Part;

pub(crate) const PART: Part = Part {
    name: "outlier",
    page: "outlier.md",
    sections: &[
        ("reads", |bench| Box::pin(reads::run(bench))),
        ("push", |bench| Box::pin(push::run(bench))),
    ],
};
