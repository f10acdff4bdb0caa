//! Purchases of a few books, whose array has fifty of them at most.

mod check;

use anyhow::Result;
use mongo_patterns_core::Repository;
use mongo_patterns_outlier::OutlierRepository;
use mongodb::bson::{Document, doc};
use mongodb::options::ReturnDocument;
use mongodb::{Collection, Database, IndexModel};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::all;
use check::{CAP, Layout, THRESHOLD};

const BOOKS: u64 = 4;
const MAIN: &str = "sales";
const OVERFLOW: &str = "extra_sales";

type Books = OutlierRepository<Document, String>;

fn books(database: &Database) -> Result<Books> {
    let (main, overflow) = (
        database.collection::<Document>(MAIN),
        database.collection::<Document>(OVERFLOW),
    );
    let builder = Books::builder(main, overflow)
        .array_field("customers_purchased")
        .parent_field("book_id")
        .threshold(THRESHOLD)
        .max_overflow_elements(CAP)
        .unique_elements();
    Ok(builder.build()?)
}

fn layout(source: Source) -> Layout {
    match source {
        Source::AgentSkills => Layout {
            array: "customers",
            flag: "hasExtras",
            total: Some("customerCount"),
            parent: "bookId",
            extras: "customers",
            position: Some(("batch", 1)),
        },
        Source::Ours => Layout {
            position: Some(("seq", 0)),
            ..layout(Source::Manual)
        },
        _ => Layout {
            array: "customers_purchased",
            flag: "has_extras",
            total: None,
            parent: "book_id",
            extras: "customers_purchased_extra",
            position: None,
        },
    }
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    let index = |field: &str| IndexModel::builder().keys(doc! { field: 1 }).build();
    let (main, overflow) = (
        database.collection::<Document>(MAIN),
        database.collection::<Document>(OVERFLOW),
    );
    database.create_collection(MAIN).await?;
    database.create_collection(OVERFLOW).await?;
    let layout = layout(source);
    match source {
        Source::AgentSkills => {
            main.create_index(index("customers")).await?;
            overflow.create_indexes([index("bookId"), index("customers")]).await?;
        }
        Source::Ours => drop(books(database)?.ensure_indexes().await?),
        _ => {
            drop(overflow.create_index(index("book_id")).await?);
        }
    }
    let new = (0..BOOKS as i32).map(|id| doc! { "_id": id, "title": "The Wooden Amulet", layout.array: [] });
    main.insert_many(new).await?;
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let collections = Collections {
            main: database.collection(MAIN),
            overflow: database.collection(OVERFLOW),
        };
        let books = books(database)?;
        Ok(write(move |number| {
            let (collections, books) = (collections.clone(), books.clone());
            async move {
                let (book, customer) = ((number % BOOKS) as i32, customer(number));
                match source {
                    Source::WriteBack => collections.read_and_set(book, &customer).await?,
                    Source::AgentSkills => collections.push_or_overflow(book, &customer).await?,
                    Source::Ours => drop(books.push_unique(book, &customer).await?),
                    _ => collections.read_and_push(book, &customer).await?,
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

fn customer(number: u64) -> String {
    format!("user{number:02}")
}

#[derive(Clone)]
struct Collections {
    main: Collection<Document>,
    overflow: Collection<Document>,
}

impl Collections {
    /// Follows the manual, "Group Data with the Outlier Pattern", its section on updates.
    async fn read_and_push(&self, book: i32, customer: &str) -> Result<(), Failure> {
        let found = self.main.find_one(doc! { "_id": book });
        let found = found.projection(doc! { "has_extras": 1 }).await?.unwrap_or_default();
        if found.get_bool("has_extras").unwrap_or(false) {
            return self.push_overflow(book, customer).await;
        }
        let push = doc! { "$push": { "customers_purchased": customer } };
        let update = self.main.find_one_and_update(doc! { "_id": book }, push);
        let after = update.return_document(ReturnDocument::After).await?.unwrap_or_default();
        if after
            .get_array("customers_purchased")
            .is_ok_and(|array| array.len() > THRESHOLD as usize)
        {
            let flag = doc! { "$set": { "has_extras": true } };
            self.main.update_one(doc! { "_id": book }, flag).await?;
        }
        Ok(())
    }

    async fn push_overflow(&self, book: i32, customer: &str) -> Result<(), Failure> {
        let push = doc! { "$push": { "customers_purchased_extra": customer } };
        let update = self.overflow.update_one(doc! { "book_id": book }, push);
        update.upsert(true).await?;
        Ok(())
    }

    /// Does the same, and writes the array back.
    async fn read_and_set(&self, book: i32, customer: &str) -> Result<(), Failure> {
        let found = self.main.find_one(doc! { "_id": book }).await?.unwrap_or_default();
        if found.get_bool("has_extras").unwrap_or(false) {
            return self.push_overflow(book, customer).await;
        }
        let mut customers = found.get_array("customers_purchased").cloned().unwrap_or_default();
        customers.push(customer.into());
        let mut set = doc! {};
        if customers.len() > THRESHOLD as usize {
            set.insert("has_extras", true);
        }
        set.insert("customers_purchased", customers);
        self.main.update_one(doc! { "_id": book }, doc! { "$set": set }).await?;
        Ok(())
    }

    /// Follows `mongodb/agent-skills`, `mongodb-schema-design/references/pattern-outlier.md`: a push below the threshold
    /// by the stored total, else to the newest overflow document, else to the next one, and then the flag.
    async fn push_or_overflow(&self, book: i32, customer: &str) -> Result<(), Failure> {
        let is_below = [
            doc! { "customerCount": { "$lt": THRESHOLD } },
            doc! { "customerCount": { "$exists": false } },
            doc! { "customerCount": null },
        ];
        let push = doc! { "$push": { "customers": customer }, "$inc": { "customerCount": 1 } };
        let filter = doc! { "_id": book, "$or": is_below.to_vec() };
        if self.main.update_one(filter, push).await?.matched_count > 0 {
            return Ok(());
        }
        let newest = self.overflow.find_one(doc! { "bookId": book });
        let newest = newest.sort(doc! { "batch": -1 }).await?;
        let field = |name: &str| newest.as_ref().and_then(|newest| newest.get_i32(name).ok());
        let push = doc! { "$push": { "customers": customer }, "$inc": { "count": 1 } };
        let next = field("batch").unwrap_or(0) + 1;
        let has_room = field("count").is_some_and(|count| count < CAP as i32);
        let mut is_stored = false;
        if has_room {
            let filter = doc! { "bookId": book, "batch": next - 1, "count": { "$lt": CAP } };
            is_stored = self.overflow.update_one(filter, push.clone()).await?.matched_count > 0;
        }
        if !is_stored {
            let update = self.overflow.update_one(doc! { "bookId": book, "batch": next }, push);
            update.upsert(true).await?;
        }
        let flag = doc! { "$set": { "hasExtras": true }, "$inc": { "customerCount": 1 } };
        self.main.update_one(doc! { "_id": book }, flag).await?;
        Ok(())
    }
}

pub(super) async fn check(source: Source, database: &Database, ledger: &Ledger) -> Result<Hazards> {
    let (main, overflow) = (all(database, MAIN).await?, all(database, OVERFLOW).await?);
    check::hazards(layout(source), &main, &overflow, ledger)
}
