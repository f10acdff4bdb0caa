//! An archive of the manual's sales in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, io};

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use mongo_patterns::archive_files::object_store::local::LocalFileSystem;
use mongo_patterns::archive_files::object_store::path::Path as StorePath;
use mongo_patterns::archive_files::object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutPayload, Result as StoreResult,
};
use mongo_patterns::archive_files::{FileArchive, FileArchiveBuilder, Problem};
use mongo_patterns::{Repository, RetryPolicy};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Database};
use tokio::sync::Semaphore;

use crate::archive::sales::*;
use crate::common::all;
use crate::hooked_store::{Hooked, Hooks};

/// The directory of the files of a test.
pub fn directory(db: &TestDatabase) -> PathBuf {
    directory_of(db.database())
}

/// A directory beside the test program, which `cargo clean` deletes.
pub fn directory_of(database: &Database) -> PathBuf {
    root().join(database.name())
}

fn root() -> PathBuf {
    env::current_exe().unwrap().with_file_name("files")
}

/// Returns the store of all files. The prefix of a test is the name of its database.
pub fn local() -> LocalFileSystem {
    fs::create_dir_all(root()).unwrap();
    LocalFileSystem::new_with_prefix(root()).unwrap().with_fsync(true)
}

/// Creates an empty directory in place of another one.
pub fn create_directory(path: &Path) {
    let _ = fs::remove_dir_all(path);
    fs::create_dir_all(path).unwrap();
}

pub fn builder_in(db: &TestDatabase, store: Arc<dyn ObjectStore>) -> FileArchiveBuilder<Document> {
    FileArchive::builder(db.collection::<Document>("sales"), store, db.database().name())
        .age_field("date")
        .older_than(AGE)
        .keep(doc! { "retentionPolicy": "permanent" })
        .retry(RetryPolicy::default().with_max_elapsed(std::time::Duration::from_secs(20)))
}

pub fn builder(db: &TestDatabase) -> FileArchiveBuilder<Document> {
    builder_in(db, Arc::new(local()))
}

/// Returns an archive in an empty directory, with its indexes.
pub async fn archive_in(db: &TestDatabase, store: Arc<dyn ObjectStore>) -> FileArchive<Document> {
    create_directory(&directory(db));
    let archive = builder_in(db, store).build().unwrap();
    archive.ensure_indexes().await.unwrap();
    db.recorder().clear();
    archive
}

pub async fn archive(db: &TestDatabase) -> FileArchive<Document> {
    archive_in(db, Arc::new(local())).await
}

/// Stores documents in place of all others.
pub async fn plant(db: &TestDatabase, documents: impl IntoIterator<Item = Document>) {
    current(db).delete_many(doc! {}).await.unwrap();
    current(db).insert_many(documents).await.unwrap();
    db.recorder().clear();
}

/// Returns the records of files.
pub async fn records(db: &TestDatabase) -> Vec<Document> {
    records_in(&db.plain_collection("mongo_patterns")).await
}

pub async fn records_in(catalog: &Collection<Document>) -> Vec<Document> {
    let all: Vec<Document> = all(catalog).await;
    let is_file = |record: &Document| {
        record
            .get_document("_id")
            .is_ok_and(|id| id.get_str("kind").is_ok_and(|kind| kind == "archive_file"))
    };
    all.into_iter().filter(is_file).collect()
}

pub fn name_of(record: &Document) -> String {
    record.get_document("_id").unwrap().get_str("name").unwrap().to_owned()
}

/// Returns the names of all files.
pub fn listed(db: &TestDatabase) -> Vec<String> {
    names_in(&directory(db))
}

pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // Without those of a write of the store whose process died.
        .filter(|name| !name.contains('#'))
        .collect();
    names.sort_unstable();
    names
}

pub fn content(db: &TestDatabase, name: &str) -> Vec<RawDocumentBuf> {
    content_of(&directory(db).join(name))
}

/// Reads a file, as `zstd -dc FILE | bsondump` does.
pub fn content_of(path: &Path) -> Vec<RawDocumentBuf> {
    let bytes = zstd::decode_all(&*fs::read(path).unwrap()).unwrap();
    let (mut rest, mut documents) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let length = i32::from_le_bytes(rest[..4].try_into().unwrap());
        let (document, others) = rest.split_at(length.try_into().unwrap());
        documents.push(RawDocumentBuf::from_bytes(document.to_vec()).unwrap());
        rest = others;
    }
    documents
}

/// Returns the documents of the files that are a part of the archive, without the archive.
pub async fn filed(db: &TestDatabase) -> Vec<Document> {
    let records = records(db).await;
    let stored = records
        .iter()
        .filter(|record| record.get_str("state").is_ok_and(|state| state == "stored"));
    let documents = stored.flat_map(|record| content(db, &name_of(record)));
    documents
        .map(|document| Document::try_from(&document).unwrap())
        .collect()
}

/// Returns the `_id`s of the collection and of the files, which are numbers.
pub async fn both(db: &TestDatabase) -> [Vec<i32>; 2] {
    [all(&current(db)).await, filed(db).await].map(|documents: Vec<Document>| {
        let mut ids: Vec<i32> = documents.iter().map(|one| one.get_i32("_id").unwrap()).collect();
        ids.sort_unstable();
        ids
    })
}

pub async fn problems(archive: &FileArchive<Document>) -> Vec<(String, Problem)> {
    let found: Vec<_> = archive.verify().stream().try_collect().await.unwrap();
    let found = found.into_iter();
    let mut found: Vec<_> = found
        .map(|one| (one.document_id.as_str().unwrap().to_owned(), one.problem))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// Checks that each file has a record, each record a file, and that the archive finds no problem.
pub async fn assert_tidy(db: &TestDatabase, archive: &FileArchive<Document>) {
    assert_eq!(problems(archive).await, []);
    let mut names: Vec<String> = records(db).await.iter().map(name_of).collect();
    names.sort_unstable();
    assert_eq!(names, listed(db));
}

/// A directory whose writes wait for a permit, and fail if they have one for it.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The writes that have begun.
    pub begun: Arc<Semaphore>,
    pub open: Arc<Semaphore>,
    /// Whether the next deletions fail.
    pub refuses_deletions: Arc<AtomicBool>,
    /// Whether the next reads return a part of a file.
    pub truncates_reads: Arc<AtomicBool>,
    /// The error of writes, which fail in the middle, as on a full disk.
    pub fails_with: Option<io::ErrorKind>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            begun: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
            refuses_deletions: Arc::default(),
            truncates_reads: Arc::default(),
            fails_with: None,
        }
    }
}

impl Gate {
    /// Returns the store.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(Hooked::new(local(), self.clone()))
    }

    /// Waits until a write has begun.
    pub async fn begun(&self) {
        self.begun.acquire().await.unwrap().forget();
    }
}

fn failed(kind: io::ErrorKind) -> StoreError {
    StoreError::Generic {
        store: "test",
        source: io::Error::from(kind).into(),
    }
}

#[async_trait]
impl Hooks for Gate {
    async fn before_put(&self, files: &LocalFileSystem, path: &StorePath, content: &PutPayload) -> StoreResult<()> {
        self.begun.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        let Some(kind) = self.fails_with else { return Ok(()) };
        let half = Bytes::from(content.clone()).slice(..content.content_length() / 2);
        files.put(path, half.into()).await?;
        Err(failed(kind))
    }

    fn around_delete(&self) -> StoreResult<()> {
        match self.refuses_deletions.load(Ordering::Relaxed) {
            true => Err(failed(io::ErrorKind::PermissionDenied)),
            false => Ok(()),
        }
    }

    fn read_bytes(&self, bytes: usize) -> usize {
        if self.truncates_reads.load(Ordering::Relaxed) {
            bytes / 2
        } else {
            bytes
        }
    }
}

/// Returns the `n` of all documents of the collection and of the files.
pub async fn sum(db: &TestDatabase) -> i64 {
    let mut documents: Vec<Document> = all(&current(db)).await;
    documents.extend(filed(db).await);
    let n = |one: &Document| one.get("n").and_then(Bson::as_i32).unwrap_or(0);
    documents.iter().map(|one| i64::from(n(one))).sum()
}
