//! Old documents in a second collection, and deleted ones.

use futures::future::LocalBoxFuture;
use mongo_patterns::archive::{Archive, ArchiveBuilder};
use mongo_patterns::archive_files::FileArchive;
use mongo_patterns::{Repository, RetryPolicy};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use super::model::{Migrates, migration};
use support::archive::books::{COLD, HOT, book, books_in, wholes};
use support::archive::sales::{archive, archived, builder, current, new, old, sale};
use support::archive::{files, users};

pub(super) const ARCHIVES: [&Migrates; 7] = [&RUN, &RUN_RELATED, &RESTORE, &DELETE, &EMPTY, &RUN_FILES, &DELETE_FILES];

/// While all commands fail, it is tried a few times; not for a short time, which a slow machine may need for one attempt.
fn hurried(db: &TestDatabase) -> ArchiveBuilder<Document> {
    let policy = RetryPolicy::default().with_max_attempts(5);
    builder(db).keep(doc! { "retentionPolicy": "permanent" }).retry(policy)
}

fn with_few_retries(db: &TestDatabase) -> Archive<Document> {
    hurried(db).build().unwrap()
}

/// Twelve old sales, and three new ones.
fn sales() -> Vec<Document> {
    let stay = (12..15).map(|id| sale(id, new(0)));
    (0..12).map(|id| sale(id, old(i64::from(id)))).chain(stay).collect()
}

/// The new ones have another date in each run.
fn without_new_dates(collection: &str, document: &mut Document) {
    if collection == "sales" && document.get_i32("_id").is_ok_and(|id| id >= 12) {
        document.remove("date");
    }
}

async fn fill_sales(db: &TestDatabase) {
    archive(db).await;
    current(db).insert_many(sales()).await.unwrap();
    archived(db).insert_one(sale(100, old(0))).await.unwrap();
}

async fn fill_archive(db: &TestDatabase) {
    archive(db).await;
    let documents: Vec<Document> = (0..12).map(|id| sale(id, old(i64::from(id)))).collect();
    archived(db).insert_many(documents).await.unwrap();
    current(db).insert_one(sale(100, old(0))).await.unwrap();
}

const RUN: Migrates = migration!(
    "archive::run",
    |db| fill_sales(db).await,
    |db, call| call.of(with_few_retries(db).run()).await,
    lists_all: false,
    normalize: without_new_dates,
);

/// Books with their overflow documents.
const RUN_RELATED: Migrates = migration!(
    "archive::run, related",
    |db| {
        for names in [HOT, COLD] {
            books_in(db.database(), names).ensure_indexes().await.unwrap();
        }
        related(db).ensure_indexes().await.unwrap();
        let books = books_in(db.database(), HOT);
        for id in 0..6 {
            let customers = if id % 2 == 0 { 1 } else { 7 };
            books.insert(&book(id, id.into(), customers)).await.unwrap();
        }
    },
    |db, call| call.of(related(db).run()).await,
    lists_all: false,
    normalize: |collection, document| {
        if [HOT[1], COLD[1]].contains(&collection) {
            document.remove("_id");
        }
    },
);

fn related(db: &TestDatabase) -> Archive<Document> {
    wholes(hurried(db), db.database()).build().unwrap()
}

const RESTORE: Migrates = migration!(
    "archive::restore_many",
    |db| fill_archive(db).await,
    |db, call| call.of(with_few_retries(db).restore_many(doc! { "_id": { "$lt": 10 } })).await,
    lists_all: false,
);

pub(super) const DELETE: Migrates = migration!(
    "archive::delete_before",
    |db| fill_archive(db).await,
    |db, call| call.of(with_few_retries(db).delete_before(old(9))).await,
    lists_all: false,
);

/// Entries of a trash.
const EMPTY: Migrates = migration!(
    "trash::delete_before",
    |db| {
        users::trash(db).await;
        let stored = (0..12).map(|id: u8| {
            let mut entry = users::entry(i32::from(id), i64::from(id));
            entry.insert("_id", ObjectId::from_bytes([id; 12]));
            entry
        });
        users::entries(db).insert_many(stored).await.unwrap()
    },
    |db, call| call.of(users::builder(db).build().unwrap().delete_before(old(9))).await,
    lists_all: false,
);

fn in_files(db: &TestDatabase) -> FileArchive<Document> {
    let policy = RetryPolicy::default().with_max_attempts(5);
    files::builder(db).retry(policy).build().unwrap()
}

/// The documents of the files that are a part of the archive, and how many files are not.
fn files_of(db: &TestDatabase) -> LocalBoxFuture<'_, Vec<String>> {
    Box::pin(async move {
        let records = files::records(db).await;
        let others = files::listed(db).len().abs_diff(records.len());
        let mut files = vec![format!("{others} other files")];
        let filed = files::filed(db).await;
        files.extend(filed.iter().map(|document| format!("in files {document:?}")));
        files
    })
}

async fn fill_before_files(db: &TestDatabase) {
    files::archive(db).await;
    current(db).insert_many(sales()).await.unwrap();
}

pub(super) const RUN_FILES: Migrates = migration!(
    "archive_files::run",
    |db| fill_before_files(db).await,
    |db, call| call.of(in_files(db).run()).await,
    elsewhere: Some(files_of),
    lists_all: false,
    normalize: without_new_dates,
);

/// A file is deleted or not.
const DELETE_FILES: Migrates = migration!(
    "archive_files::delete_before",
    |db| {
        fill_before_files(db).await;
        in_files(db).run().chunk(3).await.unwrap()
    },
    |db, call| call.of(in_files(db).delete_before(old(9))).await,
    elsewhere: Some(files_of),
    normalize: without_new_dates,
    is_paced: false,
);
