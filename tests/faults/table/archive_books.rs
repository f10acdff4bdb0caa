//! Outliers that are archived with their overflow documents.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::archive::Archive;
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database};

use super::archive::complete;
use super::operation::Promise::{Atomic, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, documents, retry_policy, serialized};
use support::archive::books::{COLD, HOT, book, books_in, wholes};
use support::archive::sales::{AGE, old};

/// The books 1 to 3 are current, 6 to 8 are archived, and all but 1 and 6 have overflow documents.
pub(super) struct Books {
    database: Database,
    collections: [Collection<Document>; 4],
    archive: Archive<Document>,
}

impl Books {
    /// Returns the numbers of the books of all main documents, and of all overflow documents, by collection.
    async fn stored(&self) -> [Vec<(i32, String)>; 4] {
        let [hot, extra, cold, cold_extra] = &self.collections;
        let stored = documents([hot, extra, cold, cold_extra]).await;
        stored.map(|documents| {
            let name = |one: &Document| match one.get_i32("book_id") {
                Ok(book) => (book, format!("{book}/{}", one.get_i32("seq").unwrap())),
                Err(_) => (one.get_i32("_id").unwrap(), one.get_i32("_id").unwrap().to_string()),
            };
            let mut names: Vec<_> = documents.iter().map(name).collect();
            names.sort();
            names
        })
    }
}

impl Model for Books {
    const PATTERN: &'static str = "archive";
    const COLLECTIONS: &'static [&'static str] = &[HOT[0], HOT[1], COLD[0], COLD[1]];

    fn new(of: Of<'_>) -> Self {
        let [hot, cold] = [HOT[0], COLD[0]].map(|name| of.collection(name));
        let builder = Archive::builder(hot, cold).age_field("date").older_than(AGE);
        let archive = wholes(builder.retry(retry_policy()), of.database);
        Self {
            archive: archive.build().unwrap(),
            collections: [HOT[0], HOT[1], COLD[0], COLD[1]].map(|name| of.collection(name)),
            database: of.database.clone(),
        }
    }

    async fn fill(&self) {
        for (names, first) in [(HOT, 1), (COLD, 6)] {
            let books = books_in(&self.database, names);
            books.ensure_indexes().await.unwrap();
            for (id, customers) in [(first, 1), (first + 1, 4), (first + 2, 7)] {
                books.insert(&book(id, id.into(), customers)).await.unwrap();
            }
        }
        self.archive.ensure_indexes().await.unwrap();
    }

    /// Where each document is, with an overflow document as an aside.
    async fn facts(&self) -> Vec<String> {
        let [hot, extra, cold, cold_extra] = self.stored().await;
        let mut facts = Vec::new();
        for (current, archived, names, prefix) in [
            (hot, cold, [HOT[0], COLD[0]], ""),
            (extra, cold_extra, [HOT[1], COLD[1]], UNREAD),
        ] {
            for (documents, name) in [current, archived].into_iter().zip(names) {
                facts.extend(
                    documents
                        .iter()
                        .map(|(_, document)| format!("{prefix}{document} in {name}")),
                );
            }
        }
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let found = self.archive.list(doc! {}).page().await.ok()?.items;
        let mut read: Vec<(bool, i32)> = found
            .iter()
            .map(|found| (found.is_archived, found.document.get_i32("_id").unwrap()))
            .collect();
        read.sort_unstable();
        let name = |is_archived| if is_archived { COLD[0] } else { HOT[0] };
        Some(
            read.into_iter()
                .map(|(is_archived, id)| format!("{id} in {}", name(is_archived)))
                .collect(),
        )
    }

    async fn damage(&self) -> Vec<String> {
        let [hot, extra, cold, cold_extra] = self.stored().await;
        let twice = hot.iter().filter(|one| cold.contains(one));
        let mut damage: Vec<String> = twice.map(|_| "InBoth".to_owned()).collect();
        for (related, own, other) in [(extra, &hot, &cold), (cold_extra, &cold, &hot)] {
            let has = |books: &[(i32, String)], id| books.iter().any(|(book, _)| *book == id);
            let elsewhere = related.iter().filter(|(book, _)| !has(own, *book) && has(other, *book));
            damage.extend(elsewhere.map(|_| "Elsewhere".to_owned()));
        }
        damage
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<_> = self.archive.verify().stream().try_collect().await.unwrap();
        found.iter().map(|finding| format!("{:?}", finding.problem)).collect()
    }

    async fn repair(&self) {}
}

impl Operations for Books {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Steps, "Archive::run", "related", |m|
                m.archive.run().chunk(2).await.and_then(|moved| complete(&m.collections[0], moved.busy));
            Atomic, "Archive::restore", "related", |m| m.archive.restore(7).await.map(drop);
            Steps, "Archive::restore_many", "related", |m| {
                let restored = m.archive.restore_many(doc! { "_id": { "$lt": 9 } }).chunk(2).await;
                restored.and_then(|moved| complete(&m.collections[0], moved.busy))
            };
            Steps, "Archive::delete_before", "related", |m|
                m.archive.delete_before(old(8)).chunk(2).await.map(drop);
            Reads, "Archive::verify", "related", |m| serialized(m.archive.verify().stream()).await;
        }
    }
}
