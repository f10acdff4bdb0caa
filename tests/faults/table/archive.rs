//! Old documents in a second collection.

use futures::TryStreamExt;
use mongo_patterns::archive::Archive;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_core::action::Call as CoreCall;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::operation::Promise::{Atomic, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, calls, indexes, retry_policy, serialized};
use support::archive::sales::{AGE, new, old, sale};
use support::common::all;

/// The sales 1 to 4 are old, 5 is new, and 6 to 9 are archived.
pub(super) struct Sales {
    current: Collection<Document>,
    archived: Collection<Document>,
    archive: Archive<Document>,
}

impl Model for Sales {
    const PATTERN: &'static str = "archive";
    const COLLECTIONS: &'static [&'static str] = &["sales", "archived_sales"];

    fn new(of: Of<'_>) -> Self {
        let (current, archived) = (of.collection("sales"), of.collection("archived_sales"));
        let archive = Archive::builder(current.clone(), archived.clone())
            .age_field("date")
            .older_than(AGE)
            .retry(retry_policy());
        Self {
            archive: archive.build().unwrap(),
            current,
            archived,
        }
    }

    async fn fill(&self) {
        self.archive.ensure_indexes().await.unwrap();
        let current = (1..5).map(|id| sale(id, old(i64::from(id)))).chain([sale(5, new(0))]);
        self.current.insert_many(current).await.unwrap();
        let archived = (6..10).map(|id| sale(id, old(i64::from(id))));
        self.archived.insert_many(archived).await.unwrap();
    }

    /// Where each document is. One in both has two facts, and one in neither none.
    async fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        for collection in [&self.current, &self.archived] {
            let ids = all(collection)
                .await
                .into_iter()
                .map(|found| found.get_i32("_id").unwrap());
            let mut ids: Vec<i32> = ids.collect();
            ids.sort_unstable();
            facts.extend(ids.iter().map(|id| format!("{id} in {}", collection.name())));
            facts.extend(indexes(collection).await);
        }
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let found = self.archive.list(doc! {}).page().await.ok()?.items; // an error without the index
        let mut read: Vec<(bool, i32)> = found
            .iter()
            .map(|found| (found.is_archived, found.document.get_i32("_id").unwrap()))
            .collect();
        read.sort_unstable();
        let collections = [&self.current, &self.archived];
        let facts = read
            .into_iter()
            .map(|(is_archived, id)| format!("{id} in {}", collections[usize::from(is_archived)].name()));
        Some(facts.collect())
    }

    async fn damage(&self) -> Vec<String> {
        let mut ids: Vec<i32> = Vec::new();
        for collection in [&self.current, &self.archived] {
            ids.extend(all(collection).await.iter().map(|found| found.get_i32("_id").unwrap()));
        }
        ids.sort_unstable();
        let twice = ids.windows(2).filter(|pair| pair[0] == pair[1]);
        twice.map(|_| "InBoth".to_owned()).collect()
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<_> = self.archive.verify().stream().try_collect().await.unwrap();
        found.iter().map(|finding| format!("{:?}", finding.problem)).collect()
    }

    async fn repair(&self) {}
}

impl Operations for Sales {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Steps, "Archive::run", "", |m| m.archive.run().chunk(2).await.and_then(|moved| complete(&m.current, moved.busy));
            Atomic, "Archive::restore", "", |m| m.archive.restore(7).await.map(drop);
            Steps, "Archive::restore_many", "", |m| {
                let restored = m.archive.restore_many(doc! { "_id": { "$lt": 9 } }).chunk(2).await;
                restored.and_then(|moved| complete(&m.current, moved.busy))
            };
            Steps, "Archive::delete_before", "", |m|
                m.archive.delete_before(old(9)).chunk(2).await.map(drop);
            Steps, "Archive::ensure_indexes", "", |m|
                m.archive.ensure_indexes().await.map(drop)
                => prepare(|m| m.current.drop_indexes().await.unwrap());
            Reads, "Archive::get", "archived", |m| m.archive.get(7).await;
            Reads, "Archive::get", "absent", |m| m.archive.get(70).await;
            Reads, "Archive::list", "", |m|
                m.archive.list(doc! { "_id": { "$ne": 5 } }).newest_first().limit(3).page().await;
            Reads, "Archive::due", "", |m| m.archive.due().await;
            Reads, "Archive::ensure_sharded", "plan", |m| m.archive.ensure_sharded().plan().await.map(|plan| plan.len());
            Reads, "Archive::verify_shard_keys", "", |m| m.archive.verify_shard_keys().await;
            Reads, "Archive::run + Run::plan", "", |m| m.archive.run().plan().await.map(drop);
            Reads, "Archive::restore_many + RestoreMany::plan", "", |m|
                m.archive.restore_many(doc! {}).plan().await.map(drop);
            Reads, "Archive::delete_before + DeleteBefore::plan", "", |m|
                m.archive.delete_before(old(9)).plan().await.map(drop);
            Steps, "Archive::repair + RepairArchive::stream", "", |m|
                m.archive.repair().stream().try_collect::<Vec<_>>().await.map(drop)
                => prepare(|m| m.archived.insert_one(sale(5, old(5))).await.map(drop).unwrap());
            Reads, "Archive::verify", "", |m| serialized(m.archive.verify().stream()).await;
        }
    }
}

/// A document that others write all the time stays, as after a conflict that exhausts the policy of another call.
pub(super) fn complete(current: &Collection<Document>, busy: u64) -> Result<(), Error> {
    match busy {
        0 => Ok(()),
        _ => {
            let error = Error::new(ErrorKind::Contention, "some documents are busy");
            Err(CoreCall::new("archive", "run", &current.clone_with_type()).name(error))
        }
    }
}
