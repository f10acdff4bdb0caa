//! Outliers whose overflow documents are in the trash with them.

use mongo_patterns::Repository;
use mongo_patterns::archive::Trash;
use mongodb::bson::Document;
use mongodb::{Collection, Database};

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, documents, retry_policy};
use support::archive::books::{HOT, book, books_in};

const DELETED: &str = "deleted_sales";

/// The books 1 to 3 are there, 6 to 8 are deleted, and all but 1 and 6 have overflow documents.
pub(super) struct Books {
    database: Database,
    collections: [Collection<Document>; 3],
    trash: Trash<Document>,
}

impl Books {
    /// Returns where the main documents are, and where the overflow documents are.
    async fn stored(&self) -> [Vec<String>; 2] {
        let [main, overflow, deleted] = &self.collections;
        let [main, overflow, deleted] = documents([main, overflow, deleted]).await;
        let document = |entry: &Document| entry.get_document("document").unwrap().clone();
        let (related, own): (Vec<_>, Vec<_>) = deleted.iter().partition(|entry| entry.contains_key("of"));
        let book = |one: &Document| one.get_i32("_id").unwrap().to_string();
        let part = |one: &Document| format!("{}/{}", one.get_i32("book_id").unwrap(), one.get_i32("seq").unwrap());
        let in_place = |text: String, place: &str| format!("{text} in {place}");
        let mut mains: Vec<String> = main.iter().map(|one| in_place(book(one), HOT[0])).collect();
        mains.extend(own.into_iter().map(|entry| in_place(book(&document(entry)), DELETED)));
        let mut parts: Vec<String> = overflow.iter().map(|one| in_place(part(one), HOT[1])).collect();
        parts.extend(
            related
                .into_iter()
                .map(|entry| in_place(part(&document(entry)), DELETED)),
        );
        [mains, parts]
    }
}

impl Model for Books {
    const PATTERN: &'static str = "trash";
    const CRATE: &'static str = "archive";
    const COLLECTIONS: &'static [&'static str] = &[HOT[0], HOT[1], DELETED];

    fn new(of: Of<'_>) -> Self {
        let [main, overflow, deleted] = [HOT[0], HOT[1], DELETED].map(|name| of.collection(name));
        let trash = Trash::builder(main.clone(), deleted.clone()).related(overflow.clone(), "book_id");
        Self {
            trash: trash.retry(retry_policy()).build().unwrap(),
            collections: [main, overflow, deleted],
            database: of.database.clone(),
        }
    }

    async fn fill(&self) {
        let books = books_in(&self.database, HOT);
        books.ensure_indexes().await.unwrap();
        self.trash.ensure_indexes().await.unwrap();
        for first in [6, 1] {
            for (id, customers) in [(first, 1), (first + 1, 4), (first + 2, 7)] {
                books.insert(&book(id, id.into(), customers)).await.unwrap();
                if first == 6 {
                    self.trash.delete(id).await.unwrap();
                }
            }
        }
    }

    /// Where each document is, with an overflow document as an aside.
    async fn facts(&self) -> Vec<String> {
        let [mains, parts] = self.stored().await;
        let mut facts = mains;
        facts.extend(parts.iter().map(|part| format!("{UNREAD}{part}")));
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let deleted = self.trash.list().page().await.ok()?.items;
        let text = |one: &Document, place: &str| format!("{} in {place}", one.get_i32("_id").unwrap());
        let mut read: Vec<String> = deleted.iter().map(|entry| text(&entry.document, DELETED)).collect();
        let [main] = documents([&self.collections[0]]).await;
        read.extend(main.iter().map(|one| text(one, HOT[0])));
        Some(read)
    }
}

impl Operations for Books {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "Trash::delete", "related", |m| m.trash.delete(3).by("ann").await.map(drop);
            Atomic, "Trash::restore", "related", |m| m.trash.restore(8).await.map(drop);
            Steps, "Trash::delete_before", "related", |m|
                m.trash.delete_before(mongodb::bson::DateTime::now()).chunk(2).await.map(drop);
        }
    }
}
