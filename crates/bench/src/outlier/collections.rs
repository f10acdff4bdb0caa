//! The collections of the books, and their documents.

use anyhow::Result;
use mongo_patterns_core::Repository;
use mongo_patterns_outlier::{OutlierRepository, OutlierRepositoryBuilder};
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database, IndexModel};
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
pub(super) use crate::measure::operation;
use crate::measure::settle;

pub(super) const THRESHOLD: u64 = 50;
pub(super) const CAP: u64 = 500;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Book {
    pub(super) _id: i32,
    pub(super) title: String,
    pub(super) customers_purchased: Vec<String>,
}

pub(super) type Books = OutlierRepository<Book, String>;

pub(super) fn user(number: u64) -> String {
    format!("user{number:02}")
}

/// Returns a book with this number of purchases.
pub(super) fn book(id: i32, purchases: u64) -> Book {
    Book {
        _id: id,
        title: "The Wooden Amulet".to_owned(),
        customers_purchased: (0..purchases).map(user).collect(),
    }
}

/// A collection of books, and one of their overflow documents.
#[derive(Clone, Debug)]
pub(super) struct Collections {
    pub(super) sales: Collection<Document>,
    pub(super) extras: Collection<Document>,
}

impl Collections {
    /// Returns the collections by a client without a recorder.
    pub(super) fn timed(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            sales: bench.collection(name),
            extras: bench.collection(&format!("extra_{name}")),
        }
    }

    /// Returns the collections by a client whose commands are recorded.
    pub(super) fn recorded(bench: &Bench<'_>, name: &str) -> Self {
        Self {
            sales: bench.recorded(name),
            extras: bench.recorded(&format!("extra_{name}")),
        }
    }

    pub(super) fn builder(&self) -> OutlierRepositoryBuilder<Book, String> {
        Books::builder(self.sales.clone(), self.extras.clone())
            .array_field("customers_purchased")
            .parent_field("book_id")
    }

    /// Returns a repository over the existing documents.
    pub(super) fn books(&self) -> Result<Books> {
        Ok(self.builder().build()?)
    }

    /// Returns a repository over new collections, with its indexes.
    pub(super) async fn fresh(&self) -> Result<Books> {
        self.fresh_of(self.builder()).await
    }

    pub(super) async fn fresh_of(&self, builder: OutlierRepositoryBuilder<Book, String>) -> Result<Books> {
        self.empty().await?;
        let books = builder.build()?;
        books.ensure_indexes().replace_settings().await?;
        Ok(books)
    }

    /// Creates new collections without the indexes of the repository.
    pub(super) async fn empty(&self) -> Result<()> {
        for collection in [&self.sales, &self.extras] {
            collection.drop().await?;
            self.database().create_collection(collection.name()).await?;
        }
        Ok(())
    }

    /// Creates new collections with the index that the manual proposes.
    pub(super) async fn as_in_the_manual(&self) -> Result<()> {
        self.empty().await?;
        let index = IndexModel::builder().keys(doc! { "book_id": 1 }).build();
        self.extras.create_index(index).await?;
        Ok(())
    }

    /// Inserts the books as documents of one array each.
    pub(super) async fn insert_unbounded(&self, books: impl IntoIterator<Item = Book>) -> Result<()> {
        self.sales.clone_with_type::<Book>().insert_many(books).await?;
        Ok(())
    }

    /// Inserts a book with all further purchases in one overflow document.
    pub(super) async fn insert_as_in_the_manual(&self, id: i32, purchases: u64) -> Result<()> {
        self.insert_unbounded([book(id, purchases.min(THRESHOLD))]).await?;
        if purchases > THRESHOLD {
            let flag = doc! { "$set": { "has_extras": true } };
            self.sales.update_one(doc! { "_id": id }, flag).await?;
            let extras: Vec<String> = (THRESHOLD..purchases).map(user).collect();
            let extras = doc! { "book_id": id, "customers_purchased_extra": extras };
            self.extras.insert_one(extras).await?;
        }
        Ok(())
    }

    pub(super) async fn settle(&self) -> Result<()> {
        settle(self.sales.client()).await
    }

    fn database(&self) -> Database {
        self.sales.client().database(&self.sales.namespace().db)
    }
}
