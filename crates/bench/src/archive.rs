//! Benchmarks of the archive.

mod run;
mod sales;

use crate::part::Part;

pub(crate) const PART: Part = Part {
    name: "archive",
    page: "archive.md",
    sections: &[("archive-run", |bench| Box::pin(run::run(bench)))],
};
