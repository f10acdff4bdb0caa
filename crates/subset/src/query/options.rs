//! Options of the driver's calls.

use mongo_patterns_core::action::{aggregate_batch_size, batch_size};
use mongo_patterns_core::send::latest;
use mongodb::options::{AggregateOptions, CountOptions, DeleteOptions, FindOneOptions, FindOptions, Hint};

use super::{embedded, state};
use crate::settings::Settings;
use crate::settings::subset::CheckedSubset;

fn order_hint(settings: &Settings) -> Hint {
    Hint::Name(settings.order_index.clone())
}

pub(crate) fn child_hint(settings: &Settings) -> Hint {
    Hint::Name(settings.child_index.clone())
}

pub(crate) fn find_state(settings: &Settings) -> FindOneOptions {
    FindOneOptions::builder().projection(state(settings)).build()
}

/// For a parent with one subset.
pub(crate) fn find_first_children(settings: &Settings) -> FindOptions {
    let subset = settings.first();
    FindOptions::builder()
        .sort(subset.sort())
        .limit(i64::from(subset.size))
        .batch_size(batch_size(subset.size))
        .projection(embedded(settings, subset))
        .hint(order_hint(settings))
        .build()
}

/// For an aggregation of the children of a parent by an index, with up to this number of rows.
pub(crate) fn aggregate(index: &str, rows: u32) -> AggregateOptions {
    AggregateOptions::builder()
        .hint(Hint::Name(index.to_owned()))
        .batch_size(aggregate_batch_size(rows))
        .build()
}

pub(crate) fn count_children(settings: &Settings) -> CountOptions {
    CountOptions::builder().hint(child_hint(settings)).build()
}

/// Sort and bounds are set later.
pub(crate) fn find_page(settings: &Settings, subset: &CheckedSubset, limit: u32) -> FindOptions {
    FindOptions::builder()
        .limit(i64::from(limit))
        .batch_size(batch_size(limit))
        .hint(Hint::Name(settings.index_of(subset)))
        .build()
}

pub(crate) fn delete_children(settings: &Settings) -> DeleteOptions {
    DeleteOptions::builder().hint(child_hint(settings)).build()
}

pub(crate) fn scan(batch_size: Option<u32>) -> AggregateOptions {
    let options = AggregateOptions::builder().allow_disk_use(true).batch_size(batch_size);
    latest(options.build())
}
