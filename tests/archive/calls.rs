//! The calls for one document, and wrong settings.

use mongo_patterns::archive::{Archive, ArchiveBuilder};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;

use support::archive::sales::*;
use support::common::assert_names;

#[tokio::test]
async fn a_document_is_found_wherever_it_is_and_restored_once() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let stored = sale(1, old(0));
        plant(db, [stored.clone(), sale(2, new(1))]).await;
        archive.run().await.unwrap();
        for (id, is_archived, round_trips) in [(2, Some(false), 1), (1, Some(true), 2), (3, None, 3)] {
            db.recorder().clear();
            let found = archive.get(id).await.unwrap();
            assert_eq!(found.as_ref().map(|found| found.is_archived), is_archived);
            assert!(found.is_none_or(|found| found.document.get("_id") == Some(&id.into())));
            assert_eq!(db.recorder().round_trips(), round_trips);
        }
        let invalid = archive.get(Bson::Array(vec![])).await.unwrap_err();
        assert_eq!(invalid.kind(), ErrorKind::InvalidArgument);
        current(db).delete_one(doc! { "_id": 2 }).await.unwrap();
        db.recorder().clear();
        assert!(!archive.restore(1).await.unwrap().already_there);
        assert_eq!(db.recorder().names(), ["find", "delete", "insert", "commitTransaction"]);
        assert_eq!(current(db).find_one(doc! {}).await.unwrap(), Some(stored));
        assert_eq!(both(db).await, [numbers([1]), vec![]]);
        // A retry.
        assert!(archive.restore(1).await.unwrap().already_there);
        let missing = archive.restore(2).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        archived(db).insert_one(sale(1, old(5))).await.unwrap();
        assert_names(&archive.restore(1).await.unwrap_err(), ErrorKind::AlreadyExists, 1);
        assert_eq!(both(db).await, [numbers([1]), numbers([1])]);
    })
    .await;
}

/// A restore and a change of the application, in a transaction of the caller.
#[tokio::test]
async fn a_restore_is_a_part_of_the_callers_transaction() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (1..3).map(|id| sale(id, old(0)))).await;
        archive.run().await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            archive.restore(1).session(&mut session).await.unwrap();
            let keep = doc! { "$set": { "retentionPolicy": "permanent" } };
            let sales = archive.collection();
            let update = sales.update_one(doc! { "_id": 1 }, keep);
            update.session(&mut session).await.unwrap();
            let read = archive.get(1).session(&mut session).await.unwrap().unwrap();
            assert!(!read.is_archived && read.document.contains_key("retentionPolicy"));
            let found = archive.list(doc! {}).session(&mut session).page().await.unwrap();
            assert_eq!(found.items.len(), 2);
            // A refused call does not abort the transaction.
            let missing = archive.restore(7).session(&mut session).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            assert_eq!(both(db).await, [vec![], numbers([1, 2])]);
            match commits {
                true => session.commit_transaction().await.unwrap(),
                false => session.abort_transaction().await.unwrap(),
            }
        }
        assert_eq!(both(db).await, [numbers([1]), numbers([2])]);
        // A permanent document stays.
        assert_eq!(archive.run().await.unwrap().documents, 0);
        // A conflict is that of the caller's transaction.
        let mut other = db.client().start_session().await.unwrap();
        for session in [&mut session, &mut other] {
            session.start_transaction().await.unwrap();
            archive.get(2).session(session).await.unwrap();
        }
        archive.restore(2).session(&mut session).await.unwrap();
        let conflict = archive.restore(2).session(&mut other).await.unwrap_err();
        assert_eq!((conflict.kind(), conflict.attempts()), (ErrorKind::Contention, None));
        session.commit_transaction().await.unwrap();
        // The server aborts a transaction after the error of a duplicate key.
        archived(db).insert_one(sale(1, old(5))).await.unwrap();
        session.start_transaction().await.unwrap();
        let conflict = archive.restore(1).session(&mut session).await.unwrap_err();
        assert_eq!(conflict.kind(), ErrorKind::AlreadyExists);
        assert!(session.commit_transaction().await.is_err());
        assert_eq!(both(db).await[1], numbers([1]));
        archived(db).delete_one(doc! { "_id": 1 }).await.unwrap();
        // Reads of one moment.
        let mut snapshot = db.client().start_session().snapshot(true).await.unwrap();
        assert!(archive.get(9).session(&mut snapshot).await.unwrap().is_none());
        assert!(archive.get(2).session(&mut snapshot).await.unwrap().is_some());
        let found = archive.list(doc! {}).session(&mut snapshot).page().await.unwrap();
        assert_eq!(found.items.len(), 2);
    })
    .await;
}

/// The value of a unique index went to another document in the meantime.
#[tokio::test]
async fn a_unique_index_refuses_a_restore_and_an_archiving() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let with_code = |id: i32, date| {
            let mut sale = sale(id, date);
            sale.insert("code", "A");
            sale
        };
        let unique = || {
            let options = IndexOptions::builder().unique(true).sparse(true).build();
            IndexModel::builder().keys(doc! { "code": 1 }).options(options).build()
        };
        plant(db, [with_code(1, old(0))]).await;
        current(db).create_index(unique()).await.unwrap();
        archive.run().await.unwrap();
        current(db).insert_one(with_code(2, old(1))).await.unwrap();
        assert_names(&archive.restore(1).await.unwrap_err(), ErrorKind::DuplicateKey, 1);
        archived(db).create_index(unique()).await.unwrap();
        assert_eq!(archive.run().await.unwrap().conflicts, 1);
        assert_eq!(both(db).await, [numbers([2]), numbers([1])]);
    })
    .await;
}

/// What moves or deletes documents needs the settings of the catalog, and the index.
#[tokio::test]
async fn wrong_settings_and_a_missing_index_are_refused() {
    testkit::run(async |db| {
        let of = || builder_of(db, "archived_sales");
        let full = || of().age_field("date").older_than(AGE);
        for builder in [
            of().age_field("date"),
            of().older_than(AGE),
            full().age_field("_id"),
            full().keep(doc! {}),
        ] {
            assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::Configuration);
        }
        current(db).insert_one(sale(1, old(0))).await.unwrap();
        let archive = full().build().unwrap();
        assert_eq!(archive.run().await.unwrap_err().kind(), ErrorKind::SettingsMismatch);
        archive.ensure_indexes().await.unwrap();
        // Another field, and another archive.
        for wrong in [
            full().age_field("sold").build().unwrap(),
            builder_of(db, "other")
                .age_field("date")
                .older_than(AGE)
                .build()
                .unwrap(),
        ] {
            for error in [
                wrong.ensure_indexes().await.unwrap_err(),
                wrong.run().await.unwrap_err(),
                wrong.restore_many(doc! {}).await.unwrap_err(),
                wrong.delete_before(old(9)).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
            }
        }
        current(db).drop_indexes().await.unwrap();
        for error in [
            archive.run().await.unwrap_err(),
            archive.run().plan().await.unwrap_err(),
            archive.list(doc! {}).page().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
        }
        assert_eq!(both(db).await, [numbers([1]), vec![]]);
        // An archive that has documents without the field is none of this.
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        let without = doc! { "_id": 7, "sold": old(0) };
        archived(db).insert_one(without).await.unwrap();
        let refused = archive.ensure_indexes().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SettingsMismatch);
    })
    .await;
}

/// A read that names it would return these, as if there were no others. The indexes are checked once for a repository.
#[tokio::test]
async fn an_index_with_some_of_the_documents_is_refused() {
    testkit::run(async |db| {
        let ready = archive(db).await;
        plant(db, (0..10).map(|id| sale(id, old(id.into())))).await;
        ready.run().before(old(5)).await.unwrap();
        let replace = async |collection: &str, options: Document| {
            let shop = db.plain_client().database(db.database().name());
            let drop = doc! { "dropIndexes": collection, "index": "date_1__id_1" };
            shop.run_command(drop).await.unwrap();
            let mut index = doc! { "key": { "date": 1, "_id": 1 }, "name": "date_1__id_1" };
            index.extend(options);
            let create = doc! { "createIndexes": collection, "indexes": [index] };
            shop.run_command(create).await.unwrap();
        };
        for options in [
            doc! { "partialFilterExpression": { "_id": { "$gt": 7 } } },
            doc! { "sparse": true },
            doc! { "collation": { "locale": "en" } },
        ] {
            for collection in ["sales", "archived_sales"] {
                replace(collection, options.clone()).await;
                let other = unchecked(db);
                for error in [
                    other.list(doc! {}).page().await.unwrap_err(),
                    other.due().await.unwrap_err(),
                    other.run().await.unwrap_err(),
                ] {
                    assert_eq!(
                        error.kind(),
                        ErrorKind::IndexMismatch,
                        "{collection} {options} {error:?}"
                    );
                }
                replace(collection, doc! {}).await;
            }
        }
        let other = unchecked(db);
        db.recorder().clear();
        let zero = other.list(doc! {}).limit(0).page().await.unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidArgument);
        assert_eq!(other.list(doc! {}).page().await.unwrap().items.len(), 10);
        assert_eq!(other.due().await.unwrap().documents, 5);
        let names = ["listIndexes", "listIndexes", "find", "find", "aggregate"];
        assert_eq!(db.recorder().names(), names);
    })
    .await;
}

/// Returns a builder without settings, of an archive with this name.
fn builder_of(db: &TestDatabase, archive: &str) -> ArchiveBuilder<Document> {
    Archive::builder(db.collection::<Document>("sales"), db.collection::<Document>(archive))
}
