//! The example of MongoDB's manual, "Group Data with the Outlier Pattern", with a repository on a real server: the
//! stored documents, and the commands on the wire. Then it analyzes the sales of a whole shop to choose a threshold.
//!
//! `cargo run --example book_sales`

mod support;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongo_patterns::outlier::{Analysis, LengthRange, OutlierRepository};
use mongo_patterns_testkit::CommandRecorder;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};
use support::shell;

/// The number of books in the shop.
const SHOP: i32 = 5000;
/// The greatest width of a bar, with which the histogram fits 80 columns.
const BAR: u64 = 24;

#[derive(Debug, Serialize, Deserialize)]
struct Book {
    _id: i32,
    title: String,
    year: i32,
    author: String,
    customers_purchased: Vec<String>,
}

type Books = OutlierRepository<Book, String>;

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("book_sales").await?;
    let books = repository(&database, "sales", "extra_sales")?;

    println!("# One unique index, so that a book's overflow documents have an order\n");
    books.ensure_indexes().await?;
    println!("{}\n", books.indexes());

    println!("# Two books\n");
    let invisible_cities = book(1, "Invisible Cities", 1972, "Italo Calvino", 3);
    let wooden_amulet = book(2, "The Wooden Amulet", 2023, "Lesley Moreno", 49);
    for book in [&invisible_cities, &wooden_amulet] {
        books.insert(book).await?;
    }
    print_stored(&database).await?;

    for (title, number) in [
        ("A purchase below the threshold", 49),
        (
            "One more: the book becomes an outlier, with a first overflow document",
            50,
        ),
        ("A purchase of an outlier", 51),
    ] {
        println!("# {title}\n");
        recorder.clear();
        let pushed = books.push(2, &user(number)).await?;
        print_wire(&recorder);
        println!("Stored: {pushed:?}\n");
    }

    println!("# The book has a thousand purchases\n");
    recorder.clear();
    let rest: Vec<String> = (52..1000).map(user).collect();
    books.push_many(2, &rest).await?;
    println!("{} more, in {} round trips.\n", rest.len(), recorder.round_trips());
    print_stored(&database).await?;

    println!("# Reading the books\n");
    for id in [1, 2] {
        recorder.clear();
        let found = books.get(id).await?.context("the book does not exist")?;
        let whole = books.get_full(id).await?.context("the book does not exist")?;
        print_wire(&recorder);
        println!(
            "{}: {} purchases from `get`, {} from `get_full`.\n",
            found.document.title,
            found.document.customers_purchased.len(),
            whole.customers_purchased.len()
        );
    }
    let whole = books.get_full(2).await?.context("the book does not exist")?;
    ensure!(whole.customers_purchased.into_iter().eq((0..1000).map(user)));

    println!("# A shop of {SHOP} books before the migration: which threshold?\n");
    let shop = repository(&database, "shop_sales", "extra_shop_sales")?;
    fill(&shop).await?;
    recorder.clear();
    let analysis = shop.analyze().await?;
    ensure!(recorder.names() == ["aggregate"]);
    print_analysis(&analysis);
    Ok(())
}

fn repository(database: &Database, sales: &str, extras: &str) -> Result<Books> {
    let (sales, extras) = (
        database.collection::<Document>(sales),
        database.collection::<Document>(extras),
    );
    let builder = Books::builder(sales, extras)
        .array_field("customers_purchased")
        .parent_field("book_id")
        .threshold(50)
        .max_extras_elements(500);
    Ok(builder.build()?)
}

fn book(id: i32, title: &str, year: i32, author: &str, purchases: u64) -> Book {
    Book {
        _id: id,
        title: title.to_owned(),
        year,
        author: author.to_owned(),
        customers_purchased: (0..purchases).map(user).collect(),
    }
}

fn user(number: u64) -> String {
    format!("user{number:02}")
}

fn print_wire(recorder: &CommandRecorder) {
    println!("On the wire:");
    for command in recorder.commands() {
        println!("  {}", shell::call(&command));
    }
    println!();
}

async fn print_stored(database: &Database) -> Result<()> {
    for (name, order) in [("sales", doc! { "_id": 1 }), ("extra_sales", doc! { "seq": 1 })] {
        println!("Stored in {name}:");
        let collection = database.collection::<Document>(name);
        let documents: Vec<Document> = collection.find(doc! {}).sort(order).await?.try_collect().await?;
        if documents.is_empty() {
            println!("no documents");
        }
        for document in documents {
            println!("{}", manual_format(&document));
        }
        println!();
    }
    Ok(())
}

/// Formats a document like the manual, without the middle of a long array. Omits the ids that the server generates,
/// because they differ in each run.
fn manual_format(document: &Document) -> String {
    let fields = document.iter().filter(|(_, value)| value.as_object_id().is_none());
    let lines: Vec<String> = fields
        .map(|(name, value)| match value {
            Bson::Array(elements) => {
                let texts: Vec<String> = elements.iter().map(Bson::to_string).collect();
                let text = match texts.as_slice() {
                    [first, second, third, _, .., last] => format!("{first}, {second}, {third}, ... {last}"),
                    _ => texts.join(", "),
                };
                format!("  \"{name}\": [ {text} ]")
            }
            _ => format!("  \"{name}\": {value}"),
        })
        .collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

/// Inserts books of which most have a handful of purchases and a few have thousands, the same in every run.
async fn fill(shop: &Books) -> Result<()> {
    let mut state = 1972_u64;
    let mut next = || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut books = Vec::new();
    for id in 1..=SHOP {
        // Half as many books have twice as many purchases; one book in twenty has none.
        let purchases = if next() % 20 == 0 {
            0
        } else {
            20_000 / (1 + next() % 7000)
        };
        books.push(book(id, &format!("Book {id}"), 2023, "Lesley Moreno", purchases));
    }
    shop.collection().clone_with_type::<Book>().insert_many(books).await?;
    Ok(())
}

fn print_analysis(analysis: &Analysis) {
    println!(
        "{} books with {} purchases, {:.1} bytes each in its array.",
        thousands(analysis.documents),
        thousands(analysis.elements),
        analysis.bytes_per_element()
    );
    if let Some(longest) = &analysis.longest {
        println!("Book {} has the most: {}.\n", longest.id, thousands(longest.length));
    }

    println!(
        "    purchases  books{:BAR$}  of all purchases",
        "",
        BAR = BAR as usize - 2
    );
    let ranges = analysis.ranges();
    let most = |of: fn(&LengthRange) -> u64| ranges.iter().map(of).max().unwrap_or(0);
    let (books, purchases) = (most(|range| range.documents), most(|range| range.elements));
    for range in &ranges {
        let label = match (range.from, range.to) {
            (from, to) if from == to => thousands(from),
            (from, to) => format!("{}-{}", thousands(from), thousands(to)),
        };
        let row = format!(
            "{label:>13} {:>6} {:<BAR$} {:>5.1} % {}",
            thousands(range.documents),
            bar(range.documents, books),
            percent(range.elements, analysis.elements),
            bar(range.elements, purchases),
            BAR = BAR as usize,
        );
        println!("{}", row.trim_end());
    }

    println!("\npercent of the books   have up to");
    for (percent, length) in analysis.percentiles() {
        println!("{percent:>20}   {:>10}", thousands(length));
    }

    println!("\nthreshold   outliers   of all books   purchases in overflow");
    for at in analysis.suggestions() {
        println!(
            "{:>9}   {:>8}   {:>10.2} %   {:>19.1} %",
            thousands(at.threshold.into()),
            thousands(at.documents),
            at.documents_share * 100.0,
            at.overflow_share * 100.0
        );
    }
}

/// Returns a bar, or a thin one if the value is too small for a full character.
fn bar(value: u64, most: u64) -> String {
    match value * BAR / most.max(1) {
        0 if value > 0 => "▏".to_owned(),
        #[allow(clippy::cast_possible_truncation)] // at most 24
        length => "█".repeat(length as usize),
    }
}

#[allow(clippy::cast_precision_loss)] // printed with four digits
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}
