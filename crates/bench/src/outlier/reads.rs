//! Reading books of which some are outliers.

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongodb::bson::{Document, doc};

use super::collections::{Book, Collections, book, operation};
use crate::bench::Bench;
use crate::counts::{bytes_sent, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks};
use crate::report::{Comparison, Section};

const BOOKS: i32 = 100;
/// Every fifth book is an outlier.
const EVERY: i32 = 5;
const TYPICAL: u64 = 20;

const TEXT: &str = "\
One reader reads a hundred books and decodes them: 80 with 20 purchases, and 20 with 20,000. Without the pattern, \
every purchase is in the array of its book; with it, an array has at most 50. Rows are compared with the same read of \
unbounded arrays. To read only the titles, both forms use a projection.";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    All,
    Each,
    Titles,
}

impl Read {
    const ALL: [Self; 3] = [Self::All, Self::Each, Self::Titles];

    fn name(self, ours: bool) -> String {
        let read = match (self, ours) {
            (Self::All, _) => "find of all",
            (Self::Each, true) => "get of each",
            (Self::Each, false) => "find_one of each",
            (Self::Titles, _) => "find of the titles",
        };
        format!("{read}, {}", if ours { "ours" } else { "unbounded arrays" })
    }

    fn operations(self, ours: bool) -> u64 {
        match (self, ours) {
            (Self::Titles, _) => 200,
            (Self::All, true) => 200,
            (Self::Each, true) => 20,
            (_, false) => 8,
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let outlier = bench.pick(20_000, 500);
    let book = move |id| book(id, if id % EVERY == 0 { outlier } else { TYPICAL });
    let unbounded = Collections::timed(bench, "reads_unbounded");
    unbounded.empty().await?;
    unbounded.insert_unbounded((0..BOOKS).map(book)).await?;
    let ours = Collections::timed(bench, "reads");
    let books = ours.fresh().await?;
    for id in 0..BOOKS {
        books.insert(&book(id)).await?;
    }

    let mut variants = Vec::new();
    for read in Read::ALL {
        for (is_ours, collections) in [(true, &ours), (false, &unbounded)] {
            let operations = bench.pick(read.operations(is_ours), 2);
            let reading = reading(read, is_ours, collections)?;
            let variant = Variant::new(read.name(is_ours), operations, move || {
                let reading = reading.clone();
                async move { Ok(in_tasks(1, operations, reading)) }
            });
            let variant = variant.against(read.name(false));
            variants.push(if is_ours { variant.ours() } else { variant });
        }
    }
    let title = "A hundred books, 20 of them outliers";
    let entries = compare(bench, title, variants).await?;
    let mut comparison = Comparison::new(title, "read", entries).with_server_ratios();
    for read in Read::ALL {
        for (is_ours, name) in [(true, "reads"), (false, "reads_unbounded")] {
            let reading = reading(read, is_ours, &Collections::recorded(bench, name))?;
            let trips = round_trips(bench, 1, reading(0)).await?;
            let bytes = bytes_sent(bench, reading(0)).await?;
            comparison.figure(&read.name(is_ours), "round trips", trips);
            comparison.figure(&read.name(is_ours), "KB sent", bytes / 1000.0);
        }
    }
    let mut section = Section::new("reads", "Read a hundred books", TEXT);
    section.add(&comparison);
    Ok(section)
}

/// Returns a read of all books.
fn reading(read: Read, ours: bool, collections: &Collections) -> Result<Operation> {
    let (collections, books) = (collections.clone(), collections.books()?);
    Ok(operation(move |_| {
        let (collections, books) = (collections.clone(), books.clone());
        async move {
            let sales = collections.sales.clone_with_type::<Book>();
            let mut found = 0;
            match read {
                Read::All => {
                    let books: Vec<Book> = sales.find(doc! {}).await?.try_collect().await?;
                    found = books.len();
                }
                Read::Titles => {
                    let find = collections.sales.find(doc! {}).projection(doc! { "title": 1 });
                    let titles: Vec<Document> = find.await?.try_collect().await?;
                    found = titles.len();
                }
                Read::Each => {
                    for id in 0..BOOKS {
                        if ours {
                            books.get(id).await?.context("a book is missing")?;
                        } else {
                            let find = sales.find_one(doc! { "_id": id });
                            find.await?.context("a book is missing")?;
                        }
                        found += 1;
                    }
                }
            }
            ensure!(found == BOOKS as usize, "books are missing");
            Ok(())
        }
    }))
}
