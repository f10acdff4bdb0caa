//! Reading a whole list.

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongodb::bson::doc;
use serde::Deserialize;

use super::place::{Book, Place, book, operation};
use crate::Bench;
use crate::counts::{bytes_sent, round_trips};
use crate::measure::{Contestant, Operation, compare, in_tasks};
use crate::report::{Comparison, Section, number};

const TEXT: &str = "\
One reader reads a book with all its purchases, and decodes it. `get_full` reads the book, and the extras where it has \
the flag. A `$lookup` does both in one round trip, and looks for extras of typical books too. Rows are compared with \
`get_full` of that book.";

/// A book with its extras, as `$lookup` puts them together.
#[derive(Deserialize)]
struct Looked {
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
    let timed = Place::timed(bench, "lists");
    let books = timed.fresh().await?;
    for length in lengths {
        books.insert(&book(i32::try_from(length)?, length)).await?;
    }
    let mut contestants = Vec::new();
    for length in lengths {
        let operations = bench.pick((4_000_000 / length).clamp(200, 4000), 2);
        for ours in [true, false] {
            let reading = reading(ours, &timed, length)?;
            let contestant = Contestant::new(name(ours, length), operations, move || {
                let reading = reading.clone();
                async move { Ok(in_tasks(1, operations, reading)) }
            });
            let contestant = contestant.against(name(true, length));
            contestants.push(if ours { contestant.ours() } else { contestant });
        }
    }
    let title = "By the length of the list";
    let entries = compare(bench, title, contestants).await?;
    let mut comparison = Comparison::new(title, "read", entries).with_server_ratios();
    for length in lengths {
        for ours in [true, false] {
            let reading = reading(ours, &Place::recorded(bench, "lists"), length)?;
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

fn reading(ours: bool, place: &Place, length: u64) -> Result<Operation> {
    let (place, books, id) = (place.clone(), place.books()?, i32::try_from(length)?);
    Ok(operation(move |_| {
        let (place, books) = (place.clone(), books.clone());
        async move {
            let purchases = if ours {
                let book = books.get_full(id).await?.context("there is no such book")?;
                book.customers_purchased.len()
            } else {
                look_up(&place, id).await?
            };
            ensure!(purchases as u64 == length, "purchases are missing");
            Ok(())
        }
    }))
}

async fn look_up(place: &Place, id: i32) -> Result<usize> {
    let pipeline = [
        doc! { "$match": { "_id": id } },
        doc! { "$lookup": {
            "from": place.extras.name(),
            "localField": "_id",
            "foreignField": "book_id",
            "as": "extras",
        } },
    ];
    let mut cursor = place.sales.aggregate(pipeline).with_type::<Looked>().await?;
    let Looked { mut book, extras } = cursor.try_next().await?.context("there is no such book")?;
    let customers = &mut book.customers_purchased;
    customers.extend(extras.into_iter().flat_map(|extras| extras.customers_purchased_extra));
    Ok(customers.len())
}
