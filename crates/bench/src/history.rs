//! Benchmarks of the history pattern.

mod by_hand;
mod policies;
mod update;

use crate::part::Part;

pub(crate) const PART: Part = Part {
    name: "history",
    page: "history.md",
    sections: &[("update-policy", |bench| Box::pin(update::run(bench)))],
};
