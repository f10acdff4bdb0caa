//! Benchmarks of the reference pattern.

mod by_hand;
mod orders;
mod rename;

use crate::part::Part;

pub(crate) const PART: Part = Part {
    name: "reference",
    page: "reference.md",
    sections: &[("rename", |bench| Box::pin(rename::run(bench)))],
};
