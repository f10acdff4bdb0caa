//! Very many children of one parent, against many.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Result, ensure};
use futures::TryStreamExt;

use super::collections::{Collections, Products, review};
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section, number};

const PRODUCT: i32 = 0;

const TEXT: &str = "\
One product has a hundred thousand reviews, and another one a thousand. One task calls the repository; the reviews are \
found at random, and the new ones are the newest. Rows are compared with the same call for the product with fewer \
reviews. `verify` reads what is embedded, and the first reviews by the index.";

#[derive(Clone, Copy, Debug)]
enum Call {
    Insert,
    Get,
    Child,
    Children,
    Rebuild,
    Verify,
}

impl Call {
    const ALL: [Self; 6] = [
        Self::Insert,
        Self::Get,
        Self::Child,
        Self::Children,
        Self::Rebuild,
        Self::Verify,
    ];

    fn name(self, reviews: i64) -> String {
        let call = match self {
            Self::Insert => "insert",
            Self::Get => "get",
            Self::Child => "child",
            Self::Children => "children, first 10",
            Self::Rebuild => "rebuild",
            Self::Verify => "verify",
        };
        format!("{call}, {} reviews", number(reviews as f64))
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = bench.pick([1000, 100_000], [20, 2000]);
    let calls = bench.pick(300, 2);
    let mut variants = Vec::new();
    // So that each new review is the newest.
    let mut next = Vec::new();
    for reviews in sizes {
        Collections::timed(bench, &format!("scale_{reviews}"))
            .filled(1, reviews)
            .await?;
        next.push(Arc::new(AtomicI64::new(reviews)));
    }
    for call in Call::ALL {
        for (reviews, next) in sizes.into_iter().zip(&next) {
            let collections = Collections::timed(bench, &format!("scale_{reviews}"));
            let operation = prepare(call, &collections, reviews, next)?;
            let variant = Variant::new(call.name(reviews), calls, move || {
                let operation = Arc::clone(&operation);
                async move { Ok(in_tasks(1, calls, operation)) }
            });
            variants.push(variant.against(call.name(sizes[0])).ours());
        }
    }
    let mut section = Section::new("many-children", "Very many children", TEXT);
    let title = "One product";
    section.add(&Comparison::new(title, "call", compare(bench, title, variants).await?));
    Ok(section)
}

fn prepare(call: Call, collections: &Collections, reviews: i64, next: &Arc<AtomicI64>) -> Result<Operation> {
    let products: Products = collections.repository()?;
    let next = Arc::clone(next);
    Ok(operation(move |number| {
        let (products, next) = (products.clone(), Arc::clone(&next));
        async move {
            match call {
                Call::Insert => {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let inserted = products.insert(&review(PRODUCT, id, id)).await?;
                    ensure!(inserted.in_subset, "the newest review is not in the subset");
                }
                Call::Get => ensure!(products.get(PRODUCT).await?.is_some(), "the product is missing"),
                Call::Child => {
                    let id = (scatter(number) % reviews as u64) as i64;
                    ensure!(products.child(PRODUCT, id).await?.is_some(), "a review is missing");
                }
                Call::Children => {
                    let slice = products.children(PRODUCT).await?;
                    ensure!(!slice.children.is_empty(), "reviews are missing");
                }
                Call::Rebuild => drop(products.rebuild(PRODUCT).await?),
                Call::Verify => {
                    let findings: Vec<_> = products.verify().stream().try_collect().await?;
                    ensure!(findings.is_empty(), "the subset is wrong");
                }
            }
            Ok(())
        }
    }))
}
