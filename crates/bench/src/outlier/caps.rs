//! The maximum number of elements in an overflow document.

use anyhow::{Context, Result, ensure};

use super::collections::{CAP, Collections, THRESHOLD, book, operation, user};
use crate::bench::Bench;
use crate::measure::{Operation, Variant, Work, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const CAPS: [u64; 5] = [50, 250, 500, 1000, 2000];
const PUSHES: u64 = 200;

const TEXT: &str = "\
A book has 20,000 purchases, in overflow documents of different sizes. One reader reads all of them. One writer \
pushes 200 more: to an overflow document that is half full in the middle of the pushes, or to several if they are \
small. Rows are compared with the cap of 500, which is the default.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("caps", "Size of overflow documents", TEXT);
    let length = bench.pick(20_000, 400);
    let mut readers = Vec::new();
    for cap in CAPS {
        let collections = Collections::timed(bench, &format!("caps_{cap}"));
        let reading = reading(&collections, cap, length).await?;
        let operations = bench.pick(200, 2);
        let variant = Variant::new(name(cap), operations, move || {
            let reading = reading.clone();
            async move { Ok(in_tasks(1, operations, reading)) }
        });
        readers.push(variant.ours().against(name(CAP)));
    }
    let title = "get_full of 20,000 purchases, by the cap";
    let entries = compare(bench, title, readers).await?;
    section.add(&Comparison::new(title, "read", entries).with_server_ratios());

    let pushes = bench.pick(PUSHES, 10);
    let writers = CAPS.map(|cap| {
        let collections = Collections::timed(bench, "caps");
        let variant = Variant::new(name(cap), pushes, move || {
            prepare(collections.clone(), cap, length, pushes)
        });
        let variant = variant.passes(bench.pick(3, 1));
        variant.ours().against(name(CAP))
    });
    let title = "push, by the cap";
    let entries = compare(bench, title, writers.into()).await?;
    section.add(&Comparison::new(title, "purchase", entries).with_server_ratios());
    Ok(section)
}

fn name(cap: u64) -> String {
    format!("cap of {}", number(cap as f64))
}

async fn reading(collections: &Collections, cap: u64, length: u64) -> Result<Operation> {
    let books = collections
        .fresh_of(collections.builder().max_overflow_elements(u32::try_from(cap)?))
        .await?;
    books.insert(&book(2, length)).await?;
    Ok(operation(move |_| {
        let books = books.clone();
        async move {
            let book = books.get_full(2).await?.context("the book does not exist")?;
            ensure!(book.customers_purchased.len() as u64 == length, "purchases are missing");
            Ok(())
        }
    }))
}

/// Creates some full overflow documents, and newest ones that are half full in the middle of the pushes.
async fn prepare(collections: Collections, cap: u64, length: u64, pushes: u64) -> Result<Work> {
    let books = collections
        .fresh_of(collections.builder().max_overflow_elements(u32::try_from(cap)?))
        .await?;
    let full = (length / cap).saturating_sub(1) * cap;
    let length = THRESHOLD + full + (cap / 2).saturating_sub(pushes / 2).max(1);
    books.insert(&book(2, length)).await?;
    collections.settle().await?;
    let push = operation(move |n| {
        let books = books.clone();
        async move {
            books.push(2, &user(length + n)).await?;
            Ok(())
        }
    });
    Ok(in_tasks(1, pushes, push))
}
