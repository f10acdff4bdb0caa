//! A very long list, against a long one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use futures::TryStreamExt;

use super::collections::{Books, Collections, book, user};
use crate::bench::Bench;
use crate::measure::{Operation, Variant, compare, in_tasks, operation};
use crate::report::{Comparison, Section, number};

const ID: i32 = 1;
const PAGE: u64 = 50;

const TEXT: &str = "\
One book has a million customers, and another one ten thousand. One task calls the repository for customers and \
positions at random. Rows are compared with the same call on the shorter list. `count` and `contains` examine all \
overflow documents of the book, and `elements` skips those before its position, so they take time in proportion. \
`verify` reads all elements.";

#[derive(Clone, Copy, Debug)]
enum Call {
    Push,
    Get,
    FirstElements,
    LastElements,
    Count,
    Contains,
    Verify,
}

impl Call {
    const ALL: [Self; 7] = [
        Self::Push,
        Self::Get,
        Self::FirstElements,
        Self::LastElements,
        Self::Count,
        Self::Contains,
        Self::Verify,
    ];

    fn name(self, customers: u64) -> String {
        let call = match self {
            Self::Push => "push",
            Self::Get => "get",
            Self::FirstElements => "elements, first 50",
            Self::LastElements => "elements, last 50",
            Self::Count => "count",
            Self::Contains => "contains",
            Self::Verify => "verify",
        };
        format!("{call}, {} customers", number(customers as f64))
    }

    /// How often it is called in a round.
    fn calls(self) -> u64 {
        match self {
            Self::Push | Self::Get | Self::FirstElements => 1000,
            Self::LastElements | Self::Count | Self::Contains => 10,
            Self::Verify => 1,
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = bench.pick([10_000, 1_000_000], [100, 10_000]);
    let mut books = Vec::new();
    for customers in sizes {
        let collections = Collections::timed(bench, &format!("scale_{customers}"));
        books.push(fill(&collections, customers).await?);
    }
    let mut variants = Vec::new();
    for call in Call::ALL {
        for (books, customers) in books.iter().zip(sizes) {
            let calls = bench.pick(call.calls(), 2);
            let operation = prepare(call, books, customers);
            let variant = Variant::new(call.name(customers), calls, move || {
                let operation = Arc::clone(&operation);
                async move { Ok(in_tasks(1, calls, operation)) }
            });
            variants.push(variant.against(call.name(sizes[0])).ours());
        }
    }
    let mut section = Section::new("long-list", "A very long list", TEXT);
    let title = "One book";
    section.add(&Comparison::new(title, "call", compare(bench, title, variants).await?));
    Ok(section)
}

/// Creates a book with this number of customers.
async fn fill(collections: &Collections, customers: u64) -> Result<Books> {
    let books = collections.fresh().await?;
    books.insert(&book(ID, 0)).await?;
    let all: Vec<String> = (0..customers).map(user).collect();
    for batch in all.chunks(50_000) {
        books.push_many(ID, batch).await?;
    }
    collections.settle().await?;
    Ok(books)
}

fn prepare(call: Call, books: &Books, customers: u64) -> Operation {
    let books = books.clone();
    // All calls of the run, so that each pushes a new customer.
    let calls = Arc::new(AtomicU64::new(0));
    operation(move |_| {
        let (books, number) = (books.clone(), calls.fetch_add(1, Ordering::Relaxed));
        async move {
            match call {
                Call::Push => drop(books.push(ID, &user(customers + number)).await?),
                Call::Get => ensure!(books.get(ID).await?.is_some(), "the book is missing"),
                Call::FirstElements | Call::LastElements => {
                    let skip = if matches!(call, Call::LastElements) {
                        customers - PAGE
                    } else {
                        0
                    };
                    let page = books.elements(ID).skip(skip).limit(PAGE).await?;
                    ensure!(page.len() as u64 == PAGE, "customers are missing");
                }
                Call::Count => ensure!(books.count(ID).await?.total() >= customers, "customers are missing"),
                Call::Contains => {
                    let customer = user(crate::bucket::scatter(number) % customers);
                    ensure!(books.contains(ID, &customer).await?, "a customer is missing");
                }
                Call::Verify => {
                    let findings: Vec<_> = books.verify().stream().try_collect().await?;
                    ensure!(findings.is_empty(), "the book is damaged");
                }
            }
            Ok(())
        }
    })
}
