//! Options of the driver's calls.

use mongo_patterns_core::action::{aggregate_batch_size, batch_size};
use mongodb::options::{
    AggregateOptions, CountOptions, DeleteOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions,
    FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, ReplaceOptions, ReturnDocument, SelectionCriteria,
    UpdateOptions,
};

use super::{embedded, state};
use crate::prelude::*;

/// Returns where a read that decides about a write reads: the snapshot of its transaction, or the latest data of the
/// primary.
fn latest(in_transaction: bool) -> (Option<SelectionCriteria>, Option<ReadConcern>) {
    match in_transaction {
        true => (None, None),
        false => (Some(primary()), Some(ReadConcern::local())),
    }
}

fn order_hint(settings: &Settings) -> Hint {
    Hint::Name(settings.order_index.clone())
}

fn child_hint(settings: &Settings) -> Hint {
    Hint::Name(settings.child_index.clone())
}

pub(crate) fn find_state(settings: &Settings, in_transaction: bool) -> FindOneOptions {
    let (criteria, concern) = latest(in_transaction);
    FindOneOptions::builder()
        .projection(state(settings))
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

pub(crate) fn find_first_children(settings: &Settings, in_transaction: bool) -> FindOptions {
    let (criteria, concern) = latest(in_transaction);
    FindOptions::builder()
        .sort(settings.sort())
        .limit(i64::from(settings.size))
        .batch_size(batch_size(settings.size))
        .projection(embedded(settings, settings.embedded_fields.as_deref()))
        .hint(order_hint(settings))
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

/// For a parent with several subsets, or with embedded fields that an index has.
pub(crate) fn first_children_of_all(settings: &Settings, in_transaction: bool) -> AggregateOptions {
    let (criteria, concern) = latest(in_transaction);
    AggregateOptions::builder()
        .hint(order_hint(settings))
        .batch_size(aggregate_batch_size(settings.most_embedded()))
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

pub(crate) fn count_children(settings: &Settings, in_transaction: bool) -> CountOptions {
    let (criteria, concern) = latest(in_transaction);
    CountOptions::builder()
        .hint(child_hint(settings))
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

/// For the values of a parent, by the index of the first source.
pub(crate) fn compute(settings: &Settings, index: &str, in_transaction: bool) -> AggregateOptions {
    let (criteria, concern) = latest(in_transaction);
    let values = u32::try_from(settings.computed.len()).unwrap_or(u32::MAX);
    AggregateOptions::builder()
        .hint(Hint::Name(index.to_owned()))
        .batch_size(aggregate_batch_size(values))
        .selection_criteria(criteria)
        .read_concern(concern)
        .build()
}

/// In a transaction.
pub(crate) fn first_children_and_values(settings: &Settings) -> AggregateOptions {
    let values = u32::try_from(settings.computed.len()).unwrap_or(u32::MAX);
    AggregateOptions::builder()
        .hint(order_hint(settings))
        // With the changed child.
        .batch_size(aggregate_batch_size(
            settings.most_embedded().saturating_add(values).saturating_add(1),
        ))
        .build()
}

/// Sort and bounds are set later.
pub(crate) fn find_page(settings: &Settings, limit: u32) -> FindOptions {
    FindOptions::builder()
        .limit(i64::from(limit))
        .batch_size(batch_size(limit))
        .hint(order_hint(settings))
        .build()
}

pub(crate) fn find_child(settings: &Settings) -> FindOneOptions {
    FindOneOptions::builder().hint(child_hint(settings)).build()
}

pub(crate) fn update_child(settings: &Settings) -> UpdateOptions {
    UpdateOptions::builder().hint(child_hint(settings)).build()
}

pub(crate) fn replace_child(settings: &Settings) -> ReplaceOptions {
    ReplaceOptions::builder().hint(child_hint(settings)).build()
}

/// Returns the child before the update. So do the next two.
pub(crate) fn find_and_update_child(settings: &Settings) -> FindOneAndUpdateOptions {
    FindOneAndUpdateOptions::builder()
        .hint(child_hint(settings))
        .return_document(ReturnDocument::Before)
        .build()
}

pub(crate) fn find_and_replace_child(settings: &Settings) -> FindOneAndReplaceOptions {
    FindOneAndReplaceOptions::builder()
        .hint(child_hint(settings))
        .return_document(ReturnDocument::Before)
        .build()
}

pub(crate) fn find_and_delete_child(settings: &Settings) -> FindOneAndDeleteOptions {
    FindOneAndDeleteOptions::builder().hint(child_hint(settings)).build()
}

pub(crate) fn delete_children(settings: &Settings) -> DeleteOptions {
    DeleteOptions::builder().hint(child_hint(settings)).build()
}

pub(crate) fn scan(batch_size: Option<u32>) -> AggregateOptions {
    AggregateOptions::builder()
        .allow_disk_use(true)
        .batch_size(batch_size)
        .selection_criteria(primary())
        .read_concern(ReadConcern::local())
        .build()
}
