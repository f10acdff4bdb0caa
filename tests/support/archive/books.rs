//! Books whose outliers have overflow documents, and their archive.

use mongo_patterns::archive::ArchiveBuilder;
use mongo_patterns::outlier::OutlierRepository;
use mongodb::Database;
use mongodb::bson::{Document, doc};

use crate::archive::sales::*;

pub type Books = OutlierRepository<Document, String>;

/// The main documents and the overflow documents, and those in the archive.
pub const HOT: [&str; 2] = ["sales", "extra_sales"];

pub const COLD: [&str; 2] = ["archived_sales", "archived_extra_sales"];

/// Two customers stay in a book, and three are in an overflow document.
pub fn books_in(database: &Database, [main, extra]: [&str; 2]) -> Books {
    let books = Books::builder(
        database.collection::<Document>(main),
        database.collection::<Document>(extra),
    );
    let books = books.array_field("customers").parent_field("book_id").threshold(2);
    books.max_overflow_elements(3).build().unwrap()
}

pub fn wholes(builder: ArchiveBuilder<Document>, database: &Database) -> ArchiveBuilder<Document> {
    let [hot, cold] = [HOT[1], COLD[1]].map(|name| database.collection::<Document>(name));
    builder.related(hot, cold, "book_id")
}

/// Returns a book with this number of customers.
pub fn book(id: i32, minute: i64, customers: usize) -> Document {
    let customers: Vec<String> = (0..customers).map(|number| format!("user{number:02}")).collect();
    doc! { "_id": id, "date": old(minute), "customers": customers }
}
