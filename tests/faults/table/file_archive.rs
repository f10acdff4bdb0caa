//! Old documents in files.

use std::path::PathBuf;
use std::sync::Arc;

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::archive_files::{ArchiveFile, FileArchive};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::archive::complete;
use super::operation::Promise::{Atomic, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, calls, indexes, retry_policy, serialized};
use mongo_patterns::ErrorKind::NotFound;
use support::archive::files::{content_of, create_directory, directory_of, local, name_of, names_in, records_in};
use support::archive::sales::{AGE, new, old, sale};
use support::common::all;

/// The sales 1 to 4 are old, 5 is new, and 6 to 9 are in two files.
pub(super) struct Sales {
    current: Collection<Document>,
    catalog: Collection<Document>,
    directory: PathBuf,
    archive: FileArchive<Document>,
}

impl Sales {
    /// Returns the name of the first file, without the archive.
    async fn first(&self) -> String {
        let records = records_in(&self.catalog).await;
        let first = records
            .iter()
            .find(|record| record.get_datetime("oldest").is_ok_and(|oldest| *oldest == old(6)));
        first.map(name_of).unwrap_or_default()
    }
}

impl Model for Sales {
    const PATTERN: &'static str = "archive";
    const CRATE: &'static str = "archive-files";
    const COLLECTIONS: &'static [&'static str] = &["sales"];

    fn new(of: Of<'_>) -> Self {
        let directory = directory_of(of.database);
        let archive = FileArchive::builder(of.collection("sales"), Arc::new(local()), of.database.name())
            .age_field("date")
            .older_than(AGE)
            .retry(retry_policy());
        Self {
            archive: archive.build().unwrap(),
            current: of.collection("sales"),
            catalog: of.plain.collection("mongo_patterns"),
            directory,
        }
    }

    async fn fill(&self) {
        create_directory(&self.directory);
        let deleted = self.catalog.delete_many(doc! { "_id.kind": "archive_file" });
        deleted.await.unwrap();
        self.archive.ensure_indexes().await.unwrap();
        let filed = (6..10).map(|id| sale(id, old(i64::from(id))));
        self.current.insert_many(filed).await.unwrap();
        assert_eq!(self.archive.run().chunk(2).await.unwrap().documents, 4);
        let current = (1..5).map(|id| sale(id, old(i64::from(id)))).chain([sale(5, new(0))]);
        self.current.insert_many(current).await.unwrap();
    }

    /// Where each document is. One in both has two facts, and one in neither none.
    async fn facts(&self) -> Vec<String> {
        let id = |document: &Document| document.get_i32("_id").unwrap();
        let mut facts: Vec<String> = all(&self.current)
            .await
            .iter()
            .map(|one| format!("{} in sales", id(one)))
            .collect();
        for record in records_in(&self.catalog).await {
            let path = self.directory.join(name_of(&record));
            if record.get_str("state").is_ok_and(|state| state == "stored") && path.exists() {
                let documents = content_of(&path);
                facts.extend(
                    documents
                        .iter()
                        .map(|one| format!("{} in files", one.get_i32("_id").unwrap())),
                );
            }
        }
        facts.extend(indexes(&self.current).await);
        facts.sort_unstable();
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let id = |document: &Document| document.get_i32("_id").unwrap();
        let sales = all(&self.archive.collection()).await;
        let mut facts: Vec<String> = sales.iter().map(|one| format!("{} in sales", id(one))).collect();
        for file in self.archive.files(..).await.ok()? {
            let documents = self.archive.read(file.name).await.ok()?;
            facts.extend(documents.iter().map(|one| format!("{} in files", id(one))));
        }
        facts.sort_unstable();
        Some(facts)
    }

    async fn damage(&self) -> Vec<String> {
        let (mut damage, mut names) = (Vec::new(), names_in(&self.directory));
        for record in records_in(&self.catalog).await {
            let name = name_of(&record);
            let is_there = names.contains(&name);
            names.retain(|one| *one != name);
            match record.get_str("state") {
                Ok("stored") if is_there => {}
                Ok("stored") => damage.push("Missing".to_owned()),
                _ => damage.push("Unfinished".to_owned()),
            }
        }
        damage.extend(names.iter().map(|_| "Unknown".to_owned()));
        damage
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<_> = self.archive.verify().stream().try_collect().await.unwrap();
        found.iter().map(|finding| format!("{:?}", finding.problem)).collect()
    }

    async fn repair(&self) {
        // Nothing is old enough. It deletes what is left.
        match self.archive.run().before(old(0)).await {
            Err(error) if error.is_setup_error() => {}
            run => drop(run.unwrap()),
        }
    }
}

impl Operations for Sales {
    fn operations() -> Vec<Call<Self>> {
        calls! { Sales;
            Steps, "FileArchive::run", "", |m|
                m.archive.run().chunk(2).await.and_then(|moved| complete(&m.current, moved.busy));
            Atomic, "FileArchive::restore_file", "", |m| {
                let restored = m.archive.restore_file(m.first().await).await;
                // It was restored by the call before, whose file the next run deletes.
                if restored.as_ref().is_err_and(|error| error.kind() == NotFound) {
                    m.repair().await;
                }
                restored.map(drop)
            } => retry_errors(&[NotFound]);
            Steps, "FileArchive::delete_before", "", |m| m.archive.delete_before(old(8)).await.map(drop);
            Steps, "FileArchive::ensure_indexes", "", |m|
                m.archive.ensure_indexes().await.map(drop)
                => prepare(|m| m.current.drop_indexes().await.unwrap());
            Reads, "FileArchive::files", "", |m|
                m.archive.files(..).await.map(|files| files.iter().map(ages).collect::<Vec<_>>());
            Reads, "FileArchive::read", "", |m| m.archive.read(m.first().await).await;
            Reads, "FileArchive::ensure_sharded", "plan", |m|
                m.archive.ensure_sharded().plan().await.map(|plan| plan.len());
            Reads, "FileArchive::verify_shard_keys", "", |m| m.archive.verify_shard_keys().await;
            Reads, "FileArchive::run + Run::plan", "", |m| m.archive.run().plan().await.map(drop);
            Reads, "FileArchive::delete_before + DeleteBefore::plan", "", |m|
                m.archive.delete_before(old(8)).plan().await.map(drop);
            Reads, "FileArchive::verify", "", |m| serialized(m.archive.verify().stream()).await;
        }
    }
}

/// What is the same for each file with the same documents.
fn ages(file: &ArchiveFile) -> String {
    format!("{} {:?} {:?}", file.documents, file.oldest, file.newest)
}
