//! The latency of an insert.

use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use futures::FutureExt;

use super::by_hand;
use super::collections::{Collections, review};
use crate::bench::Bench;
use crate::latency::{Form, compare_latencies};
use crate::measure::{Operation, operation};
use crate::report::Section;

const REVIEWS: i64 = 20;

const TEXT: &str = "\
Tasks insert reviews, one after another each: first of 300 products in turn, then all of one product. Each product has \
twenty reviews at first, and each new one enters the subset. The rows by hand insert the review and `$push` it with \
`$sort` and `$slice`, which is not safe to retry. The client has a connection for each task. The percentiles are of \
all rounds.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("insert-latency", "Latency of an insert", TEXT);
    let forms = [("insert", true), ("insert and $push by hand", false)];
    for (title, products) in [("300 products", 300), ("One product", 1)] {
        let forms = forms.map(|(name, ours)| {
            let collections = Collections::wide(bench, "latency");
            Form {
                name,
                ours,
                prepare: Box::new(move |_| prepare(collections.clone(), ours, products).boxed()),
            }
        });
        section.add(&compare_latencies(bench, title, "review", &forms).await?);
    }
    Ok(section)
}

/// Creates the products, and returns the operation that inserts a review of one of them.
async fn prepare(collections: Collections, ours: bool, products: i32) -> Result<Operation> {
    collections.filled(products, REVIEWS).await?;
    let repository = collections.repository()?;
    let next = std::sync::Arc::new(AtomicI64::new(REVIEWS));
    Ok(operation(move |n| {
        let (collections, repository) = (collections.clone(), repository.clone());
        let id = next.fetch_add(1, Ordering::Relaxed);
        async move {
            let new = review((n % products as u64) as i32, id, id);
            match ours {
                true => drop(repository.insert(&new).await?),
                false => by_hand::insert_and_push(&collections, &new).await?,
            }
            Ok(())
        }
    }))
}
