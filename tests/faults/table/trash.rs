//! Deleted documents in a second collection.

use mongo_patterns::Repository;
use mongo_patterns::archive::Trash;
use mongodb::Collection;
use mongodb::bson::Document;

use super::operation::Promise::{Atomic, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, calls, indexes, retry_policy, serialized};
use support::archive::sales::old;
use support::archive::users::{MONTH, entry, user};
use support::common::all;

/// The users 1 to 4 are there, and 6 to 9 are deleted.
pub(super) struct Users {
    current: Collection<Document>,
    deleted: Collection<Document>,
    trash: Trash<Document>,
}

impl Model for Users {
    const PATTERN: &'static str = "trash";
    const CRATE: &'static str = "archive";
    const COLLECTIONS: &'static [&'static str] = &["users", "deleted_users"];

    fn new(of: Of<'_>) -> Self {
        let (current, deleted) = (of.collection("users"), of.collection("deleted_users"));
        let trash = Trash::builder(current.clone(), deleted.clone())
            .expires_after(MONTH)
            .retry(retry_policy());
        Self {
            trash: trash.build().unwrap(),
            current,
            deleted,
        }
    }

    async fn fill(&self) {
        self.trash.ensure_indexes().await.unwrap();
        self.current.insert_many((1..5).map(user)).await.unwrap();
        let deleted = (6..10).map(|id| entry(id, i64::from(id)));
        self.deleted.insert_many(deleted).await.unwrap();
    }

    /// Where each document is. One in both has two facts, and one in neither none.
    async fn facts(&self) -> Vec<String> {
        let deleted = all(&self.deleted).await;
        let deleted = deleted.iter().map(|entry| entry.get_document("document").unwrap());
        let mut facts: Vec<String> = deleted.map(|user| fact(user, &self.deleted)).collect();
        facts.extend(all(&self.current).await.iter().map(|user| fact(user, &self.current)));
        for collection in [&self.current, &self.deleted] {
            facts.extend(indexes(collection).await);
        }
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let deleted = self.trash.list().newest_first().page().await.ok()?.items; // an error without the index
        let mut facts: Vec<String> = deleted
            .iter()
            .map(|entry| fact(&entry.document, &self.deleted))
            .collect();
        facts.extend(all(&self.current).await.iter().map(|user| fact(user, &self.current)));
        Some(facts)
    }
}

impl Operations for Users {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Atomic, "Trash::delete", "", |m| m.trash.delete(2).by("ann").await.map(drop);
            Atomic, "Trash::delete", "absent", |m| m.trash.delete(70).await;
            Atomic, "Trash::restore", "", |m| m.trash.restore(7).await.map(drop);
            Steps, "Trash::delete_before", "", |m| m.trash.delete_before(old(9)).chunk(2).await.map(drop);
            Steps, "Trash::ensure_indexes", "", |m|
                m.trash.ensure_indexes().await.map(drop)
                => prepare(|m| m.deleted.drop_indexes().await.unwrap());
            Reads, "Trash::list", "", |m| m.trash.list().newest_first().limit(3).page().await;
            Reads, "Trash::verify", "", |m| serialized(m.trash.verify().stream()).await;
            Reads, "Trash::ensure_sharded", "plan", |m| m.trash.ensure_sharded().plan().await.map(|plan| plan.len());
            Reads, "Trash::verify_shard_keys", "", |m| m.trash.verify_shard_keys().await;
            Reads, "Trash::delete_before + DeleteBefore::plan", "", |m|
                m.trash.delete_before(old(9)).plan().await.map(drop);
        }
    }
}

fn fact(user: &Document, collection: &Collection<Document>) -> String {
    format!("{} in {}", user.get_i32("_id").unwrap(), collection.name())
}
