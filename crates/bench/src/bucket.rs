//! Benchmarks of the bucket pattern.

mod append;
mod by_hand;
mod collection;
mod history;
mod pages;
mod storage;
mod trade;

use crate::part::Part;

pub(crate) use trade::scatter;

pub(crate) const PART: Part = Part {
    name: "bucket",
    page: "README.md",
    sections: &[
        ("append", |bench| Box::pin(append::run(bench))),
        ("long-history", |bench| Box::pin(history::run(bench))),
        ("pages", |bench| Box::pin(pages::run(bench))),
        ("storage", |bench| Box::pin(storage::run(bench))),
    ],
};
