//! Benchmarks of documents of several versions.

mod contacts;
mod guarded;

use crate::part::Part;

pub(crate) const PART: Part = Part {
    name: "schema",
    page: "schema.md",
    sections: &[("versioned-calls", |bench| Box::pin(guarded::run(bench)))],
};
