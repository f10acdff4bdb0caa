//! Counters, whose processes have counts in memory.

use std::future::ready;

use mongo_patterns::counters::{Counters, CountersBuilder, Repository};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::operation::Promise::{Atomic, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, retry_policy};
use support::common::all;

/// The articles 1 and 2 are there, and 3 is not.
pub(super) struct Articles {
    stored: Collection<Document>,
    one: Counters,
    several: Counters,
    existing: Counters,
}

/// Returns counters with a count of each of these articles.
fn of<const N: usize>(builder: CountersBuilder, articles: [i32; N]) -> Counters {
    let counters = builder.field("views").retry(retry_policy()).build().unwrap();
    for article in articles {
        counters.add(article, 7).unwrap();
    }
    counters
}

impl Model for Articles {
    const PATTERN: &'static str = "counters";
    const COLLECTIONS: &'static [&'static str] = &["articles"];

    fn new(database: Of<'_>) -> Self {
        let stored = database.collection("articles");
        let builder = || Counters::builder(stored.clone());
        Self {
            one: of(builder().upsert(), [1]),
            several: of(builder().upsert(), [1, 2, 3]),
            existing: of(builder(), [2, 3]),
            stored,
        }
    }

    async fn fill(&self) {
        let articles = [doc! { "_id": 1, "views": 5_i64 }, doc! { "_id": 2 }];
        self.stored.insert_many(articles).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let articles = all(&self.stored).await;
        let fact =
            |article: &Document| format!("{UNREAD}{:?} has {:?} views", article.get("_id"), article.get("views"));
        articles.iter().map(fact).collect()
    }

    /// It has no reads.
    async fn read(&self) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

impl Operations for Articles {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "Counters::flush", "of a document", |m| m.one.flush().await;
            Steps, "Counters::flush", "of several documents", |m| m.several.flush().await;
            Atomic, "Counters::run", "that ends", |m| m.existing.run().until(ready(())).await;
            Steps, "Counters::ensure_indexes", "", |m| m.one.ensure_indexes().await.map(drop);
            Reads, "Counters::ensure_sharded", "plan", |m| m.one.ensure_sharded().plan().await.map(|plan| plan.len());
            Reads, "Counters::verify_shard_keys", "", |m| m.one.verify_shard_keys().await;
        }
    }
}
