//! Old documents in a second collection, and deleted ones.

use futures::future::LocalBoxFuture;
use mongo_patterns::archive::files::FileArchive;
use mongo_patterns::archive::{Archive, ArchiveBuilder};
use mongo_patterns::{Repository, Result, RetryPolicy};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use super::model::{Call, Called, Migrates};
use support::archive::books::{COLD, HOT, book, books_in, wholes};
use support::archive::sales::{archive, archived, builder, current, new, old, sale};
use support::archive::{files, users};

/// Archives old documents.
pub(super) struct Run;
/// Archives them in another cluster.
pub(super) struct RunElsewhere;
/// Archives books with their overflow documents.
pub(super) struct RunRelated;
/// Restores some of them.
pub(super) struct Restore;
/// Restores them from another cluster.
pub(super) struct RestoreElsewhere;
/// Deletes archived documents.
pub(super) struct Delete;
/// Deletes entries of a trash.
pub(super) struct Empty;
/// Archives old documents in files.
pub(super) struct RunFiles;
/// Deletes old files.
pub(super) struct DeleteFiles;

/// While all commands fail, it is tried a few times; not for a short time, which a slow machine may need for one attempt.
fn hurried(db: &TestDatabase) -> ArchiveBuilder<Document> {
    let policy = RetryPolicy::default().with_max_attempts(5);
    builder(db).keep(doc! { "retentionPolicy": "permanent" }).retry(policy)
}

fn here(db: &TestDatabase) -> Archive<Document> {
    hurried(db).build().unwrap()
}

fn elsewhere(db: &TestDatabase) -> Archive<Document> {
    hurried(db).another_cluster().build().unwrap()
}

impl Migrates for Run {
    fn name(&self) -> &'static str {
        "archive::run"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            archive(db).await;
            let stay = (12..15).map(|id| sale(id, new(0)));
            let documents: Vec<Document> = (0..12).map(|id| sale(id, old(i64::from(id)))).chain(stay).collect();
            current(db).insert_many(documents).await.unwrap();
            archived(db).insert_one(sale(100, old(0))).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move { call.of(here(db).run()).await })
    }

    /// Those of the first chunk, without the transaction.
    fn lists_all(&self) -> bool {
        false
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        if collection == "sales" && document.get_i32("_id").is_ok_and(|id| id >= 12) {
            document.remove("date");
        }
    }
}

/// Removes the ids of moves from the catalogs.
fn without_moves(collection: &str, document: &mut Document) {
    if collection == "mongo_patterns" {
        for field in ["move", "before", "attempt"] {
            document.remove(field);
        }
    }
}

impl Migrates for RunElsewhere {
    fn name(&self) -> &'static str {
        "archive::run, another cluster"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            Run.fill(db).await;
            let elsewhere = elsewhere(db);
            elsewhere.ensure_indexes().replace_settings().await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move { call.of(elsewhere(db).run()).await })
    }

    fn lists_all(&self) -> bool {
        false
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        Run.normalize(collection, document);
        without_moves(collection, document);
    }
}

impl Migrates for RestoreElsewhere {
    fn name(&self) -> &'static str {
        "archive::restore_many, another cluster"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            fill_archive(db).await;
            let elsewhere = elsewhere(db);
            elsewhere.ensure_indexes().replace_settings().await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        let some = doc! { "_id": { "$lt": 10 } };
        Box::pin(async move { call.of(elsewhere(db).restore_many(some)).await })
    }

    fn lists_all(&self) -> bool {
        false
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        without_moves(collection, document);
    }
}

impl Migrates for RunRelated {
    fn name(&self) -> &'static str {
        "archive::run, related"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            for names in [HOT, COLD] {
                books_in(db.database(), names).ensure_indexes().await.unwrap();
            }
            related(db).ensure_indexes().await.unwrap();
            let books = books_in(db.database(), HOT);
            for id in 0..6 {
                books
                    .insert(&book(id, id.into(), if id % 2 == 0 { 1 } else { 7 }))
                    .await
                    .unwrap();
            }
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move { call.of(related(db).run()).await })
    }

    fn lists_all(&self) -> bool {
        false
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        if [HOT[1], COLD[1]].contains(&collection) {
            document.remove("_id");
        }
    }
}

fn related(db: &TestDatabase) -> Archive<Document> {
    wholes(hurried(db), db.database()).build().unwrap()
}

async fn fill_archive(db: &TestDatabase) {
    archive(db).await;
    let documents: Vec<Document> = (0..12).map(|id| sale(id, old(i64::from(id)))).collect();
    archived(db).insert_many(documents).await.unwrap();
    current(db).insert_one(sale(100, old(0))).await.unwrap();
}

impl Migrates for Restore {
    fn name(&self) -> &'static str {
        "archive::restore_many"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(fill_archive(db))
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        let some = doc! { "_id": { "$lt": 10 } };
        Box::pin(async move { call.of(here(db).restore_many(some)).await })
    }

    fn lists_all(&self) -> bool {
        false
    }
}

impl Migrates for Delete {
    fn name(&self) -> &'static str {
        "archive::delete_archived_before"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(fill_archive(db))
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move { call.of(here(db).delete_archived_before(old(9))).await })
    }

    fn lists_all(&self) -> bool {
        false
    }
}

impl Migrates for Empty {
    fn name(&self) -> &'static str {
        "trash::empty_before"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            users::trash(db).await;
            let stored = (0..12).map(|id: u8| {
                let mut entry = users::entry(i32::from(id), i64::from(id));
                entry.insert("_id", ObjectId::from_bytes([id; 12]));
                entry
            });
            users::entries(db).insert_many(stored).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        let trash = users::builder(db).build().unwrap();
        Box::pin(async move { call.of(trash.empty_before(old(9))).await })
    }

    fn lists_all(&self) -> bool {
        false
    }
}

fn in_files(db: &TestDatabase) -> FileArchive<Document> {
    let policy = RetryPolicy::default().with_max_attempts(5);
    files::builder(db).retry(policy).build().unwrap()
}

/// The documents of the files that are a part of the archive, and how many files are not.
async fn files(db: &TestDatabase) -> Vec<String> {
    let records = files::records(db).await;
    let others = files::listed(db).len().abs_diff(records.len());
    let mut files = vec![format!("{others} other files")];
    let filed = files::filed(db).await;
    files.extend(filed.iter().map(|document| format!("in files {document:?}")));
    files
}

impl Migrates for RunFiles {
    fn name(&self) -> &'static str {
        "archive::files::run"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            files::archive(db).await;
            let stay = (12..15).map(|id| sale(id, new(0)));
            let documents: Vec<Document> = (0..12).map(|id| sale(id, old(i64::from(id)))).chain(stay).collect();
            current(db).insert_many(documents).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move { call.of(in_files(db).run()).await })
    }

    fn elsewhere<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<String>> {
        Box::pin(files(db))
    }

    /// Those of the first chunk, without the transaction.
    fn lists_all(&self) -> bool {
        false
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        Run.normalize(collection, document);
    }
}

impl Migrates for DeleteFiles {
    fn name(&self) -> &'static str {
        "archive::files::delete_before"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            RunFiles.fill(db).await;
            in_files(db).run().chunk(3).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move { call.of(in_files(db).delete_before(old(9))).await })
    }

    fn elsewhere<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<String>> {
        Box::pin(files(db))
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        Run.normalize(collection, document);
    }

    /// A file is deleted or not.
    fn is_paced(&self) -> bool {
        false
    }
}
