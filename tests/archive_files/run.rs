//! An archive in files.

use std::sync::Arc;

use futures::TryStreamExt;
use mongo_patterns::archive_files::object_store::memory::InMemory;
use mongo_patterns::archive_files::{ArchiveFile, FileArchive};
use mongo_patterns::{ErrorKind, Progress};
use mongo_patterns_testkit::{self as testkit};
use mongodb::IndexModel;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::IndexOptions;

use crate::archive::values::{ids, values};
use support::archive::files::{archive, assert_tidy, both, builder, content, plant, records};
use support::archive::sales::{current, new, old, sale};
use support::common::{all, assert_names};
use support::explain::explain;

const CHUNK: [&str; 6] = ["find", "insert", "update", "find", "delete", "commitTransaction"];

pub fn sales(ids: std::ops::Range<i32>) -> impl Iterator<Item = Document> {
    ids.map(|id| sale(id, old(i64::from(id))))
}

pub fn numbers(ids: impl IntoIterator<Item = i32>) -> Vec<i32> {
    ids.into_iter().collect()
}

/// Returns the bytes of documents in the collection.
fn moved_bytes(documents: impl Iterator<Item = Document>) -> u64 {
    let bytes = |document: Document| mongodb::bson::serialize_to_vec(&document).unwrap().len() as u64;
    documents.map(bytes).sum()
}

#[tokio::test]
async fn old_documents_are_archived_in_files() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let mut permanent = sale(100, old(0));
        permanent.insert("retentionPolicy", "permanent");
        let stay = [permanent, sale(101, new(1)), doc! { "_id": 102 }];
        plant(db, sales(0..12).chain(stay)).await;
        let planned = archive.run().chunk(5).plan().await.unwrap().migrated;
        assert!(both(db).await[1].is_empty());
        db.recorder().clear();
        let mut seen = Vec::new();
        let run = archive.run().chunk(5);
        let moved = run.on_progress(|at: Progress| seen.push(at)).await.unwrap();
        let bytes = moved_bytes(sales(0..12));
        assert_eq!(
            (moved.documents, moved.bytes, moved.oldest, moved.busy),
            (12, bytes, Some(old(0)), 0)
        );
        assert_eq!(planned, moved);
        assert_eq!(seen.last().map(|last| (last.done, last.total)), Some((12, 12)));
        let mut expected = vec!["find", "listIndexes", "aggregate", "find", "find"];
        (0..3).for_each(|_| expected.extend(CHUNK));
        assert_eq!(db.recorder().names(), expected);
        assert_eq!(both(db).await, [numbers(100..103), numbers(0..12)]);

        let files = archive.files(..).await.unwrap();
        let of = |file: &ArchiveFile| (file.documents, file.oldest, file.newest);
        let found: Vec<_> = files.iter().map(of).collect();
        assert_eq!(found, [(5, old(0), old(4)), (5, old(5), old(9)), (2, old(10), old(11))]);
        let streamed: Vec<_> = archive.files(..).stream().try_collect().await.unwrap();
        assert_eq!(streamed, files);
        assert_eq!(
            archive.read(&files[1].name).await.unwrap(),
            Vec::from_iter(sales(5..10))
        );
        assert_tidy(db, &archive).await;
        db.recorder().clear();
        assert_eq!(archive.run().await.unwrap().documents, 0);
        assert_eq!(db.recorder().names(), ["find", "listIndexes", "find", "find"]);

        db.recorder().clear();
        let restored = archive.restore_file(&files[1].name).await.unwrap();
        let bytes = moved_bytes(sales(5..10));
        assert_eq!(
            (restored.documents, restored.bytes, restored.oldest),
            (5, bytes, Some(old(5)))
        );
        let names = ["find", "update", "insert", "commitTransaction", "delete"];
        assert_eq!(db.recorder().names(), names);
        let restored = numbers((5..10).chain(100..103));
        assert_eq!(both(db).await, [restored, numbers((0..5).chain(10..12))]);
        assert_tidy(db, &archive).await;
        let again = archive.restore_file(&files[1].name).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::NotFound);
    })
    .await;
}

/// The stored form, as other programs read it.
#[tokio::test]
async fn the_record_and_the_file_are_as_documented() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..3)).await;
        archive.run().await.unwrap();
        let file = archive.files(..).await.unwrap().pop().unwrap();
        let record = doc! {
            "_id": { "kind": "archive_file", "collection": "sales", "name": &file.name }, "state": "stored",
            "documents": 3_i64, "bytes": i64::try_from(file.bytes).unwrap(), "oldest": old(0), "newest": old(2),
            "archived": file.archived_at, "sha256": &file.sha256,
        };
        assert_eq!(records(db).await, [record]);
        assert_eq!(content(db, &file.name).len(), 3);
        let entry = db.plain_collection::<Document>("mongo_patterns");
        let entry = entry.find_one(doc! { "_id.kind": "archive" }).await.unwrap().unwrap();
        assert_eq!(
            entry.get_document("settings").unwrap(),
            &doc! { "age": "date", "files": true, "keep": [["retentionPolicy", "permanent"]] }
        );
        // The other form of archive has other settings.
        let error = support::archive::sales::unchecked(db).run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
    })
    .await;
}

#[tokio::test]
async fn documents_keep_their_bytes_there_and_back() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let of_values = (100..)
            .zip(values())
            .map(|(id, value)| doc! { "z": 1, "_id": id, "date": old(0), "value": value, "a": 1 });
        let of_ids = ids().into_iter().map(|id| sale(id, old(1)));
        plant(db, of_values.chain(of_ids)).await;
        // With a field twice, which no other form than BSON keeps.
        let mut twice = RawDocumentBuf::new();
        twice.append(mongodb::bson::cstr!("_id"), "twice");
        twice.append(mongodb::bson::cstr!("date"), old(2));
        twice.append(mongodb::bson::cstr!("n"), 1);
        twice.append(mongodb::bson::cstr!("n"), 1.0);
        let raw = db.plain_collection::<RawDocumentBuf>("sales");
        raw.insert_one(twice).await.unwrap();
        let read = async || -> Vec<Vec<u8>> {
            let found = raw.find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
            let found: Vec<RawDocumentBuf> = found.try_collect().await.unwrap();
            found.into_iter().map(RawDocumentBuf::into_bytes).collect()
        };
        let before = read().await;
        assert_eq!(archive.run().chunk(7).await.unwrap().documents, before.len() as u64);
        assert!(read().await.is_empty());
        for file in archive.files(..).await.unwrap() {
            archive.restore_file(file.name).await.unwrap();
        }
        assert_eq!(read().await, before);
        assert_tidy(db, &archive).await;
    })
    .await;
}

/// 40 MB, and a document of nearly 16 MiB.
#[tokio::test]
async fn documents_of_any_size_are_archived_and_restored() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let large = |id: i32, bytes: usize| doc! { "_id": id, "date": old(i64::from(id)), "photo": "x".repeat(bytes) };
        let documents = (0..20)
            .map(|id| large(id, 2 << 20))
            .chain([large(20, (16 << 20) - 100)]);
        for document in documents {
            current(db).insert_one(document).await.unwrap();
        }
        assert_eq!(archive.run().await.unwrap().documents, 21);
        let files = archive.files(..).await.unwrap();
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            archive.restore_file(file.name).await.unwrap();
        }
        assert_eq!(current(db).count_documents(doc! {}).await.unwrap(), 21);
    })
    .await;
}

#[tokio::test]
async fn files_are_found_by_the_ages_of_their_documents() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..9)).await;
        archive.run().chunk(3).await.unwrap();
        let first = async |files: mongo_patterns::action::Find<'_, ArchiveFile>| -> Vec<_> {
            files.await.unwrap().into_iter().map(|file| file.oldest).collect()
        };
        assert_eq!(first(archive.files(old(2)..old(3))).await, [old(0)]);
        assert_eq!(first(archive.files(old(2)..=old(3))).await, [old(0), old(3)]);
        assert_eq!(first(archive.files(old(6)..)).await, [old(6)]);
        assert_eq!(first(archive.files(old(9)..)).await, []);
        assert_eq!(first(archive.files(..old(0))).await, []);
        assert_eq!(first(archive.files(..).limit(2)).await, [old(0), old(3)]);
    })
    .await;
}

#[tokio::test]
async fn a_conflict_restores_nothing() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..4)).await;
        archive.run().await.unwrap();
        let name = archive.files(..).await.unwrap().pop().unwrap().name;
        current(db).insert_one(sale(2, new(0))).await.unwrap();
        assert_names(
            &archive.restore_file(&name).await.unwrap_err(),
            ErrorKind::AlreadyExists,
            2,
        );
        assert_eq!(both(db).await, [numbers([2]), numbers(0..4)]);
        let options = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "customer_name": 1 });
        let index = index.options(options).build();
        current(db).delete_many(doc! {}).await.unwrap();
        current(db).create_index(index).await.unwrap();
        let error = archive.restore_file(&name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey);
        assert_eq!(both(db).await, [vec![], numbers(0..4)]);
        current(db).drop_indexes().await.unwrap();
        assert_eq!(archive.restore_file(&name).await.unwrap().documents, 4);
        assert_eq!(both(db).await, [numbers(0..4), vec![]]);
    })
    .await;
}

/// The transaction decides, and the next run deletes the file.
#[tokio::test]
async fn a_transaction_of_the_caller_restores() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..4)).await;
        archive.run().await.unwrap();
        let name = archive.files(..).await.unwrap().pop().unwrap().name;
        let mut session = db.client().start_session().await.unwrap();
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            let moved = archive.restore_file(&name).session(&mut session).await.unwrap();
            assert_eq!(moved.documents, 4);
            let permanent = doc! { "$set": { "retentionPolicy": "permanent" } };
            let sales = archive.collection();
            let update = sales.update_many(doc! {}, permanent).session(&mut session);
            assert_eq!(update.await.unwrap().modified_count, 4);
            match commits {
                true => session.commit_transaction().await.unwrap(),
                false => session.abort_transaction().await.unwrap(),
            }
            assert_eq!(archive.run().await.unwrap().documents, 0);
            let mut expected = [vec![], numbers(0..4)];
            expected.rotate_left(usize::from(commits));
            assert_eq!(both(db).await, expected);
            assert_tidy(db, &archive).await;
        }
    })
    .await;
}

#[tokio::test]
async fn old_files_are_deleted() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..9)).await;
        archive.run().chunk(3).await.unwrap();
        // The second file has a newer document.
        let planned = archive.delete_before(old(5)).plan().await.unwrap();
        assert_eq!(planned.migrated.documents, 3);
        assert_eq!(planned.commands.iter().filter(|command| command.writes).count(), 2);
        assert_eq!(both(db).await[1].len(), 9);
        db.recorder().clear();
        assert_eq!(archive.delete_before(old(5)).await.unwrap().documents, 3);
        assert_eq!(db.recorder().names(), ["find", "find", "find", "update", "delete"]);
        assert_eq!(both(db).await, [vec![], numbers(3..9)]);
        assert_tidy(db, &archive).await;
    })
    .await;
}

#[tokio::test]
async fn invalid_names_and_settings_are_refused() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..3)).await;
        for name in ["", "../sales", "/etc/passwd", "$where", "a\0b", &"x".repeat(5000)] {
            let missing = archive.restore_file(name).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound, "{name}");
            let missing = archive.read(name).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound, "{name}");
        }
        for invalid in [builder(db).age_field("_id"), builder(db).keep(doc! {})] {
            assert_eq!(invalid.build().unwrap_err().kind(), ErrorKind::Configuration);
        }
        let bare = FileArchive::<Document>::builder(current(db), Arc::new(InMemory::new()), "");
        assert_eq!(bare.build().unwrap_err().kind(), ErrorKind::Configuration);
        assert_eq!(both(db).await, [numbers(0..3), vec![]]);
    })
    .await;
}

/// A chunk is read by its `_id`s, however many older documents there are.
#[tokio::test]
async fn the_reads_examine_the_documents_of_their_chunk() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..500)).await;
        archive.run().chunk(100).await.unwrap();
        let commands = db.recorder().commands();
        let reads = commands.iter().filter(|command| command.name == "find");
        // After those of the catalog and the walk.
        let reads: Vec<_> = reads.skip(3).step_by(2).collect();
        plant(db, sales(0..500)).await;
        for read in [reads[0], reads[3]] {
            let examined = explain(db, read).await;
            assert!(examined.documents <= 100, "{examined:?}");
        }
        assert_eq!(all(&current(db)).await.len(), 500);
    })
    .await;
}
