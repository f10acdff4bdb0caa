//! An archive of the manual's sales in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs};

use futures::TryStreamExt;
use mongo_patterns::archive::files::{Directory, FileArchive, FileArchiveBuilder, FileProblem, FileStore, StoreFuture};
use mongo_patterns::{Repository, RetryPolicy};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{Collection, Database};
use tokio::sync::Semaphore;

use crate::archive::sales::*;
use crate::common::all;

/// The directory of the files of a test.
pub fn directory(db: &TestDatabase) -> PathBuf {
    directory_of(db.database())
}

/// A directory beside the test program, which `cargo clean` deletes.
pub fn directory_of(database: &Database) -> PathBuf {
    let program = env::current_exe().unwrap();
    program.with_file_name("files").join(database.name())
}

/// Creates an empty directory in place of another one.
pub fn create_directory(path: &Path) {
    let _ = fs::remove_dir_all(path);
    fs::create_dir_all(path).unwrap();
}

pub fn builder_in(db: &TestDatabase, store: impl FileStore) -> FileArchiveBuilder<Document> {
    FileArchive::builder(db.collection::<Document>("sales"), store)
        .age_field("date")
        .older_than(AGE)
        .keep(doc! { "retentionPolicy": "permanent" })
        .retry(RetryPolicy::default().with_max_elapsed(std::time::Duration::from_secs(20)))
}

pub fn builder(db: &TestDatabase) -> FileArchiveBuilder<Document> {
    builder_in(db, Directory::new(directory(db)))
}

/// Returns an archive in an empty directory, with its indexes.
pub async fn archive_in(db: &TestDatabase, store: impl FileStore) -> FileArchive<Document> {
    create_directory(&directory(db));
    let archive = builder_in(db, store).build().unwrap();
    archive.ensure_indexes().await.unwrap();
    db.recorder().clear();
    archive
}

pub async fn archive(db: &TestDatabase) -> FileArchive<Document> {
    archive_in(db, Directory::new(directory(db))).await
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

/// Returns the names of all files, also of temporary ones.
pub fn listed(db: &TestDatabase) -> Vec<String> {
    names_in(&directory(db))
}

pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
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

pub async fn problems(archive: &FileArchive<Document>) -> Vec<(String, FileProblem)> {
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
#[derive(Clone)]
pub struct Gated {
    pub directory: Directory,
    /// The writes that have begun.
    pub begun: Arc<Semaphore>,
    pub open: Arc<Semaphore>,
    /// Whether the next deletions fail.
    pub refuses_deletions: Arc<AtomicBool>,
    /// The error of writes, which fail in the middle, as on a full disk.
    pub fails_with: Option<std::io::ErrorKind>,
}

impl Gated {
    pub fn of(db: &TestDatabase) -> Self {
        Self {
            directory: Directory::new(directory(db)),
            begun: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
            refuses_deletions: Arc::default(),
            fails_with: None,
        }
    }

    /// Waits until a write has begun.
    pub async fn begun(&self) {
        self.begun.acquire().await.unwrap().forget();
    }
}

impl FileStore for Gated {
    fn put(&self, name: &str, mut content: Vec<u8>) -> StoreFuture<()> {
        let (gate, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            gate.begun.add_permits(1);
            gate.open.acquire().await.unwrap().forget();
            let Some(error) = gate.fails_with else {
                return gate.directory.put(&name, content).await;
            };
            content.truncate(content.len() / 2);
            let _ = gate.directory.put(&name, content).await;
            Err(error.into())
        })
    }

    fn get(&self, name: &str) -> StoreFuture<Vec<u8>> {
        self.directory.get(name)
    }

    fn delete(&self, name: &str) -> StoreFuture<()> {
        match self.refuses_deletions.load(Ordering::Relaxed) {
            true => Box::pin(async { Err(std::io::ErrorKind::PermissionDenied.into()) }),
            false => self.directory.delete(name),
        }
    }

    fn list(&self) -> StoreFuture<Vec<String>> {
        self.directory.list()
    }
}

/// Returns the `n` of all documents of the collection and of the files.
pub async fn sum(db: &TestDatabase) -> i64 {
    let mut documents: Vec<Document> = all(&current(db)).await;
    documents.extend(filed(db).await);
    let n = |one: &Document| one.get("n").and_then(Bson::as_i32).unwrap_or(0);
    documents.iter().map(|one| i64::from(n(one))).sum()
}
