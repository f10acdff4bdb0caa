//! Deletions into a trash, and restores.

use mongo_patterns::archive::Trash;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit};
use mongodb::IndexModel;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::options::IndexOptions;

use super::users::*;
use super::values;
use support::archive::sales::{new, numbers};
use support::archive::users::*;
use support::common::assert_names;
use support::explain::explain;

#[tokio::test]
async fn a_document_is_deleted_and_restored_once() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let stored = user(1);
        plant(db, [stored.clone(), user(2)]).await;
        let before = DateTime::now();
        assert!(trash.delete(1).by("ann").await.unwrap().found);
        assert_eq!(db.recorder().names(), ["findAndModify", "insert", "commitTransaction"]);
        let mut entry = entries(db).find_one(doc! {}).await.unwrap().unwrap();
        assert!(entry.get_object_id("_id").is_ok());
        assert!(before <= deleted_at(&entry) && deleted_at(&entry) <= DateTime::now());
        entry.remove("_id");
        entry.remove("deletedAt");
        assert_eq!(entry, doc! { "document": stored.clone(), "deletedBy": "ann" });

        // A retry.
        db.recorder().clear();
        assert!(!trash.delete(1).await.unwrap().found);
        assert_eq!(db.recorder().names(), ["findAndModify", "find", "commitTransaction"]);
        assert_eq!(both(db).await, [numbers([2]), numbers([1])]);

        db.recorder().clear();
        assert!(!trash.restore(1).await.unwrap().already_there);
        assert_eq!(db.recorder().names(), ["find", "delete", "insert", "commitTransaction"]);
        assert_eq!(users(db).find_one(doc! { "_id": 1 }).await.unwrap(), Some(stored));
        assert!(trash.restore(1).await.unwrap().already_there);
        let missing = trash.restore(3).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        for invalid in [
            trash.delete(Bson::Null).await.unwrap_err(),
            trash.restore(Bson::Array(vec![])).await.unwrap_err(),
        ] {
            assert_eq!(invalid.kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(both(db).await, [numbers([1, 2]), vec![]]);
    })
    .await;
}

/// Nothing in the trash is overwritten, and the newest entry is restored, also among those of one transaction.
#[tokio::test]
async fn a_document_that_is_deleted_several_times_is_kept_each_time() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let collection = db.collection::<Document>("users");
        for n in 0..5 {
            let insert = collection.insert_one(doc! { "_id": 1, "n": n });
            insert.session(&mut session).await.unwrap();
            trash.delete(1).session(&mut session).await.unwrap();
        }
        session.commit_transaction().await.unwrap();
        assert_eq!(both(db).await, [vec![], vec![1.into(); 5]]);
        // Of an older time, with a later `_id`.
        entries(db).insert_one(entry(1, 0)).await.unwrap();
        db.recorder().clear();
        trash.restore(1).await.unwrap();
        let found = users(db).find_one(doc! {}).await.unwrap();
        assert_eq!(found, Some(doc! { "_id": 1, "n": 4 }));
        let find = &db.recorder().commands()[0];
        let examined = explain(db, find).await;
        let index = "document._id_1_deletedAt_-1__id_-1";
        assert_eq!((&*examined.index, examined.documents), (index, 1));
        assert_names(&trash.restore(1).await.unwrap_err(), ErrorKind::AlreadyExists, 1);
        assert_eq!(both(db).await, [numbers([1]), vec![1.into(); 5]]);
        // Each deletion is undone by itself.
        users(db).delete_one(doc! {}).await.unwrap();
        trash.restore(1).await.unwrap();
        let found = users(db).find_one(doc! {}).await.unwrap();
        assert_eq!(found, Some(doc! { "_id": 1, "n": 3 }));
    })
    .await;
}

#[tokio::test]
async fn a_unique_value_is_free_after_a_deletion_and_refuses_a_restore_when_it_is_taken() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let mut other = user(2);
        other.insert("email", "1@example.com");
        plant(db, [user(1)]).await;
        users(db).insert_one(other.clone()).await.unwrap_err();
        trash.delete(1).await.unwrap();
        users(db).insert_one(other).await.unwrap();
        let refused = trash.restore(1).await.unwrap_err();
        assert_names(&refused, ErrorKind::DuplicateKey, 1);
        assert!(!refused.to_string().contains("example"), "{refused}");
        assert_eq!(both(db).await, [numbers([2]), numbers([1])]);
        // The same value several times in the trash.
        trash.delete(2).await.unwrap();
        assert_eq!(both(db).await, [vec![], numbers([1, 2])]);
        trash.restore(1).await.unwrap();
        assert_eq!(both(db).await, [numbers([1]), numbers([2])]);
    })
    .await;
}

#[tokio::test]
async fn documents_keep_their_bytes_under_ids_of_all_types() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let ids = values::ids();
        let documents = values::values().into_iter().zip(ids.iter().cycle()).enumerate();
        for (n, (value, id)) in documents {
            let n = i32::try_from(n).unwrap();
            let stored = doc! { "z": 1, "_id": id, "email": n, "deletedAt": value.clone(), "document": { "_id": n } };
            plant(db, [stored]).await;
            let raw = db.plain_collection::<RawDocumentBuf>("users");
            let before = raw.find_one(doc! {}).await.unwrap().unwrap();
            assert!(trash.delete(id.clone()).by(value.clone()).await.unwrap().found, "{id}");
            let entries = db.plain_collection::<RawDocumentBuf>("deleted_users");
            let entry = entries.find_one(doc! {}).await.unwrap().unwrap();
            assert_eq!(entry.get_document("document").unwrap().as_bytes(), before.as_bytes());
            let by: Bson = entry.get("deletedBy").unwrap().unwrap().try_into().unwrap();
            assert_eq!(format!("{by:?}"), format!("{value:?}"));
            assert!(!trash.restore(id.clone()).await.unwrap().already_there, "{id}");
            let after = raw.find_one(doc! {}).await.unwrap().unwrap();
            assert_eq!(after.as_bytes(), before.as_bytes());
            users(db).delete_many(doc! {}).await.unwrap();
            assert_eq!(both(db).await, [vec![], vec![]]);
        }
    })
    .await;
}

/// The largest document whose entry fits is deleted. One more byte is refused, also in a transaction of the caller, which
/// can commit.
#[tokio::test]
async fn a_document_whose_entry_would_be_too_large_stays() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let with_text = |bytes: usize| doc! { "_id": 1, "email": "x".repeat(bytes) };
        let bytes = |document: &Document| mongodb::bson::serialize_to_vec(document).unwrap().len();
        let mut own = entry(1, 0);
        own.insert("deletedBy", "ann");
        own.insert("document", with_text(0));
        let fits = 16 * 1024 * 1024 - bytes(&own);
        users(db).drop_indexes().await.unwrap();
        plant(db, [with_text(fits), user(2)]).await;
        assert_names(&trash.delete(1).by("anna").await.unwrap_err(), ErrorKind::TooLarge, 1);
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let refused = trash.delete(1).by("anna").session(&mut session).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        trash.delete(2).session(&mut session).await.unwrap();
        session.commit_transaction().await.unwrap();
        assert_eq!(both(db).await, [numbers([1]), numbers([2])]);
        assert!(trash.delete(1).by("ann").await.unwrap().found);
        let page = trash.list().newest_first().page().await.unwrap();
        assert_eq!(page.items[0].document, with_text(fits));
        trash.restore(1).await.unwrap();
        assert_eq!(both(db).await, [numbers([1]), numbers([2])]);
    })
    .await;
}

/// A deletion with a change of the application, in a transaction of the caller.
#[tokio::test]
async fn a_deletion_is_a_part_of_the_callers_transaction() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        plant(db, (1..4).map(user)).await;
        trash.delete(3).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        for commits in [false, true] {
            session.start_transaction().await.unwrap();
            assert!(trash.delete(1).session(&mut session).await.unwrap().found);
            assert!(!trash.delete(1).session(&mut session).await.unwrap().found);
            trash.restore(3).session(&mut session).await.unwrap();
            assert!(trash.restore(2).session(&mut session).await.unwrap().already_there);
            let missing = trash.restore(7).session(&mut session).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            let listed = trash.list().session(&mut session).page().await.unwrap();
            assert_eq!(listed.items[0].document.get("_id"), Some(&1.into()));
            assert_eq!(both(db).await, [numbers([1, 2]), numbers([3])]);
            match commits {
                true => session.commit_transaction().await.unwrap(),
                false => session.abort_transaction().await.unwrap(),
            }
        }
        assert_eq!(both(db).await, [numbers([2, 3]), numbers([1])]);
        // A conflict is that of the caller's transaction.
        let mut other = db.client().start_session().await.unwrap();
        for session in [&mut session, &mut other] {
            session.start_transaction().await.unwrap();
            trash.list().session(session).page().await.unwrap();
        }
        trash.delete(2).session(&mut session).await.unwrap();
        let conflict = trash.delete(2).session(&mut other).await.unwrap_err();
        assert_eq!((conflict.kind(), conflict.attempts()), (ErrorKind::Contention, None));
        session.commit_transaction().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn wrong_settings_are_refused() {
    testkit::run(async |db| {
        let of =
            |second| Trash::<Document>::builder(db.collection::<Document>("users"), db.collection::<Document>(second));
        let at_once = builder(db).expires_after(std::time::Duration::ZERO);
        assert_eq!(at_once.build().unwrap_err().kind(), ErrorKind::Configuration);
        // A trash with documents that are no entries.
        let plain = db.plain_collection::<Document>("deleted_users");
        plain.insert_one(user(1)).await.unwrap();
        let refused = builder(db).build().unwrap().ensure_indexes().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SettingsMismatch);
        plain.drop().await.unwrap();
        // What deletes entries needs the settings in the catalog, and they decide.
        let ready = builder(db).build().unwrap();
        let unset = ready.delete_before(new(0)).await.unwrap_err();
        assert_eq!(unset.kind(), ErrorKind::SettingsMismatch);
        ready.ensure_indexes().await.unwrap();
        plant(db, [user(1)]).await;
        let other = of("other").build().unwrap();
        for error in [
            other.ensure_indexes().await.unwrap_err(),
            other.delete_before(new(0)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
        }
        // The time changes by name only.
        let other_time = builder(db).expires_after(MONTH).build().unwrap();
        for error in [
            other_time.ensure_indexes().await.unwrap_err(),
            other_time.delete_before(new(0)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
        }
        other_time.ensure_indexes().replace_settings().await.unwrap();
        ready.ensure_indexes().replace_settings().await.unwrap();
        plain.drop_indexes().await.unwrap();
        for error in [
            ready.list().page().await.unwrap_err(),
            ready.restore(1).await.unwrap_err(),
            ready.delete_before(new(0)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
        }
    })
    .await;
}

/// A read that names it would find no other ones.
#[tokio::test]
async fn an_index_with_some_of_the_entries_is_refused() {
    testkit::run(async |db| {
        let ready = trash(db).await;
        plant(db, (0..4).map(user)).await;
        for id in 0..4 {
            ready.delete(id).await.unwrap();
        }
        let shop = db.plain_client().database(db.database().name());
        let by_document = doc! { "document._id": 1, "deletedAt": -1, "_id": -1 };
        let indexes = [
            ("deletedAt_1__id_1", doc! { "deletedAt": 1, "_id": 1 }),
            ("document._id_1_deletedAt_-1__id_-1", by_document),
        ];
        for (name, key) in indexes {
            let some = doc! { "document._id": { "$gt": 2 } };
            for (index, is_sound) in [
                (
                    doc! { "key": key.clone(), "name": name, "partialFilterExpression": some },
                    false,
                ),
                (doc! { "key": key, "name": name }, true),
            ] {
                let drop = doc! { "dropIndexes": "deleted_users", "index": name };
                shop.run_command(drop).await.unwrap();
                let create = doc! { "createIndexes": "deleted_users", "indexes": [index] };
                shop.run_command(create).await.unwrap();
                let other = builder(db).build().unwrap();
                if is_sound {
                    assert_eq!(other.list().page().await.unwrap().items.len(), 4);
                    continue;
                }
                for error in [
                    other.list().page().await.unwrap_err(),
                    other.restore(1).await.unwrap_err(),
                ] {
                    assert_eq!(error.kind(), ErrorKind::IndexMismatch, "{name} {error:?}");
                }
            }
        }
        let other = builder(db).build().unwrap();
        db.recorder().clear();
        assert!(!other.restore(1).await.unwrap().already_there);
        assert_eq!(other.list().page().await.unwrap().items.len(), 3);
        let sent = db.recorder().names();
        assert_eq!(sent.iter().filter(|name| *name == "listIndexes").count(), 1, "{sent:?}");
    })
    .await;
}

/// An entry without a document, from another program, is named by the calls that meet it.
#[tokio::test]
async fn an_entry_without_a_document_is_an_error() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let broken = doc! { "_id": 7, "document": [{ "_id": 1 }], "deletedAt": new(0) };
        entries(db).insert_one(broken).await.unwrap();
        for error in [
            trash.restore(1).await.unwrap_err(),
            trash.list().page().await.unwrap_err(),
        ] {
            assert_names(&error, ErrorKind::Corrupt, 7);
            assert_eq!(error.document_namespace().unwrap().coll, "deleted_users");
        }
        assert_eq!(entries(db).count_documents(doc! {}).await.unwrap(), 1);
    })
    .await;
}

/// A validator of the trash refuses an entry: the document stays.
#[tokio::test]
async fn a_validator_of_the_trash_refuses_a_deletion() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        plant(db, [user(1)]).await;
        let validator = doc! { "deletedBy": { "$type": "string" } };
        let database = db.plain_client().database(db.database().name());
        let validate = doc! { "collMod": "deleted_users", "validator": validator };
        database.run_command(validate).await.unwrap();
        let refused = trash.delete(1).await.unwrap_err();
        assert_names(&refused, ErrorKind::ValidationFailed, 1);
        assert_eq!(refused.document_namespace().unwrap().coll, "users");
        assert_eq!(both(db).await, [numbers([1]), vec![]]);
        trash.delete(1).by("ann").await.unwrap();
    })
    .await;
}

/// The error of an index of the trash names the trash, and the document that stays in the collection.
#[tokio::test]
async fn a_deletion_that_the_trash_refuses_names_both() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        plant(db, [user(1)]).await;
        let unique = IndexOptions::builder().name("by_name".to_owned()).unique(true).build();
        let index = IndexModel::builder()
            .keys(doc! { "document.name": 1 })
            .options(unique)
            .build();
        entries(db).create_index(index).await.unwrap();
        entries(db).insert_one(entry(2, 1)).await.unwrap();
        let error = trash.delete(1).await.unwrap_err();
        assert_names(&error, ErrorKind::DuplicateKey, 1);
        assert_eq!(error.document_namespace(), Some(&users(db).namespace()));
        assert!(error.to_string().contains("`by_name` of `deleted_users`"), "{error}");
        assert_eq!(both(db).await[0], numbers([1]));
    })
    .await;
}

/// Another program may store an entry under any `_id`.
#[tokio::test]
async fn entries_with_any_id_are_listed_once() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        let ids = [Bson::Null, Bson::MinKey, Bson::MaxKey, 7.into(), 0.5.into()];
        for (n, id) in (0..).zip(ids) {
            let mut entry = entry(n, 3);
            entry.insert("_id", id);
            entries(db).insert_one(entry).await.unwrap();
        }
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = trash.list().newest_first().limit(1).after(after).page().await.unwrap();
            listed.extend(page.items.iter().map(|entry| entry.document.get_i32("_id").unwrap()));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(listed, [2, 3, 4, 0, 1]);
    })
    .await;
}
