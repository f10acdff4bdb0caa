//! The example of MongoDB's manual, "Group Data with the Outlier Pattern", with a repository on a real server: the
//! stored documents, and the commands on the wire.
//!
//! `cargo run --example book_sales`

mod support;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::outlier::OutlierRepository;
use mongo_patterns_testkit::CommandRecorder;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};
use support::shell;

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
    let books = repository(&database)?;

    println!("# One unique index, so that a book's overflow documents have an order\n");
    books.ensure_indexes().await?;
    for plan in books.indexes() {
        println!("{plan}\n");
    }

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
    Ok(())
}

fn repository(database: &Database) -> Result<Books> {
    let sales = database.collection::<Document>("sales");
    let extras = database.collection::<Document>("extra_sales");
    let builder = Books::builder(sales, extras)
        .array_field("customers_purchased")
        .parent_field("book_id")
        .threshold(50)
        .max_overflow_elements(500);
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
