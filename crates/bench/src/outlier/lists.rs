//! Reading a whole list.

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongodb::bson::doc;
use serde::Deserialize;

use super::collections::{Book, Collections, book, operation};
use crate::bench::Bench;
use crate::counts::{bytes_sent, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const TEXT: &str = "\
One reader reads a book with all its purchases, and decodes it. `get_full` reads the book, and the overflow documents \
if it has the flag. A `$lookup` does both in one round trip, and searches for overflow documents of typical books \
too. Rows are compared with `get_full` of that book.";

/// A book with its overflow documents, as `$lookup` joins them.
#[derive(Deserialize)]
struct Joined {
    #[serde(flatten)]
    book: Book,
    extras: Vec<Extras>,
}

#[derive(Deserialize)]
struct Extras {
    customers_purchased_extra: Vec<String>,
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let lengths = bench.pick([20, 1000, 20_000], [20, 100, 400]);
    let timed = Collections::timed(bench, "lists");
    let books = timed.fresh().await?;
    for length in lengths {
        books.insert(&book(i32::try_from(length)?, length)).await?;
    }
    let mut variants = Vec::new();
    for length in lengths {
        let operations = bench.pick((4_000_000 / length).clamp(200, 4000), 2);
        for ours in [true, false] {
            let reading = reading(ours, &timed, length)?;
            let variant = Variant::new(name(ours, length), operations, move || {
                let reading = reading.clone();
                async move { Ok(in_tasks(1, operations, reading)) }
            });
            let variant = variant.against(name(true, length));
            variants.push(if ours { variant.ours() } else { variant });
        }
    }
    let title = "By the length of the list";
    let entries = compare(bench, title, variants).await?;
    let mut comparison = Comparison::new(title, "read", entries).with_server_ratios();
    for length in lengths {
        for ours in [true, false] {
            let reading = reading(ours, &Collections::recorded(bench, "lists"), length)?;
            comparison.figure(
                &name(ours, length),
                "round trips",
                round_trips(bench, 1, reading(0)).await?,
            );
            let bytes = bytes_sent(bench, reading(0)).await?;
            comparison.figure(&name(ours, length), "KB sent", bytes / 1000.0);
        }
    }
    let mut section = Section::new("lists", "Read a whole list", TEXT);
    section.add(&comparison);
    Ok(section)
}

fn name(ours: bool, length: u64) -> String {
    let form = if ours { "get_full" } else { "$lookup" };
    format!("{form}, {} purchases", number(length as f64))
}

fn reading(ours: bool, collections: &Collections, length: u64) -> Result<Operation> {
    let (collections, books, id) = (collections.clone(), collections.books()?, i32::try_from(length)?);
    Ok(operation(move |_| {
        let (collections, books) = (collections.clone(), books.clone());
        async move {
            let purchases = if ours {
                let book = books.get_full(id).await?.context("the book does not exist")?;
                book.customers_purchased.len()
            } else {
                join(&collections, id).await?
            };
            ensure!(purchases as u64 == length, "purchases are missing");
            Ok(())
        }
    }))
}

async fn join(collections: &Collections, id: i32) -> Result<usize> {
    let pipeline = [
        doc! { "$match": { "_id": id } },
        doc! { "$lookup": {
            "from": collections.extras.name(),
            "localField": "_id",
            "foreignField": "book_id",
            "as": "extras",
        } },
    ];
    let mut cursor = collections.sales.aggregate(pipeline).with_type::<Joined>().await?;
    let Joined { mut book, extras } = cursor.try_next().await?.context("the book does not exist")?;
    let customers = &mut book.customers_purchased;
    customers.extend(extras.into_iter().flat_map(|extras| extras.customers_purchased_extra));
    Ok(customers.len())
}
