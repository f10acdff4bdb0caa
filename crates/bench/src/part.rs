//! The benchmarks of a pattern.

use anyhow::Result;
use futures::future::LocalBoxFuture;

use crate::bench::Bench;
use crate::report::Section;

/// The benchmarks of one pattern.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// The file name of its page.
    pub(crate) page: &'static str,
    /// The sections and their names, in the order in which they run. All names are unique.
    pub(crate) sections: &'static [(&'static str, RunSection)],
}

pub(crate) type RunSection = for<'a> fn(&'a Bench<'a>) -> LocalBoxFuture<'a, Result<Section>>;
