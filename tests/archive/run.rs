//! The runs: archiving, restoring, and deleting in the archive. And the verification.

use futures::TryStreamExt;
use mongo_patterns::archive::{Due, Problem};
use mongo_patterns::{ErrorKind, Progress, Repository};
use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::{Bson, doc};
use mongodb::options::IndexOptions;

use super::books::problems;
use support::archive::sales::*;
use support::common::assert_names;
use support::explain::{explain, explain_last};

#[tokio::test]
async fn old_documents_are_archived_with_their_bytes() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let mut permanent = sale(100, old(0));
        permanent.insert("retentionPolicy", "permanent");
        let stay = [permanent, sale(101, new(1)), doc! { "_id": 102 }];
        let go: Vec<_> = (0..12).map(|id| sale(id, old(i64::from(id)))).collect();
        plant(db, go.clone().into_iter().chain(stay)).await;
        let mut seen = Vec::new();
        let run = archive.run().chunk(5);
        let moved = run.on_progress(|at: Progress| seen.push(at)).await.unwrap();
        assert_eq!((moved.documents, moved.conflicts, moved.busy), (12, 0, 0));
        assert_eq!(seen.last().map(|last| (last.done, last.total)), Some((12, 12)));
        let names = db.recorder().names();
        let chunk = ["find", "delete", "insert", "commitTransaction"];
        let mut expected = vec!["find", "listIndexes", "listIndexes", "aggregate", "find"];
        (0..3).for_each(|_| expected.extend(chunk));
        assert_eq!(names, expected);
        let stored = support::common::all(&archived(db)).await;
        assert_eq!(stored, go);
        assert_eq!(both(db).await[0], numbers(100..103));
        db.recorder().clear();
        assert_eq!(archive.run().await.unwrap().documents, 0);
        assert_eq!(db.recorder().names(), ["find", "listIndexes", "listIndexes", "find"]);
    })
    .await;
}

/// The walk reads old documents only.
#[tokio::test]
async fn the_index_counts_and_finds_the_old_documents() {
    testkit::run(async |db| {
        let archive = builder(db).build().unwrap();
        archive.ensure_indexes().await.unwrap();
        assert_eq!(archive.due().await.unwrap(), Due::default());
        let due = (0..9).map(|id| sale(id, old(i64::from(id + 3))));
        plant(db, due.chain((20..70).map(|id| sale(id, new(i64::from(id)))))).await;
        let due = archive.due().await.unwrap();
        assert_eq!((due.documents, due.oldest), (9, Some(old(3))));
        assert_eq!(db.recorder().round_trips(), 1);
        let examined = explain_last(db).await;
        assert_eq!((&*examined.index, examined.documents), ("date_1__id_1", 9));

        let keeping = unchecked(db);
        keeping.ensure_indexes().replace_settings().await.unwrap();
        db.recorder().clear();
        keeping.run().await.unwrap();
        let commands = db.recorder().commands();
        let walk = commands.iter().filter(|command| command.name == "find").nth(1).unwrap();
        current(db).insert_one(sale(-1, old(0))).await.unwrap();
        let examined = explain(db, walk).await;
        assert_eq!((&*examined.index, examined.documents), ("date_1__id_1", 1));
    })
    .await;
}

/// A document that was inserted again under the `_id` of an archived one.
#[tokio::test]
async fn a_conflict_stays_unless_it_replaces() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..4).map(|id| sale(id, old(0)))).await;
        let first = doc! { "_id": 2, "date": old(1), "first": true };
        archived(db).insert_one(first).await.unwrap();
        let planned = archive.run().plan().await.unwrap();
        assert_eq!((planned.migrated.documents, planned.migrated.conflicts), (3, 1));
        assert_eq!(both(db).await, [numbers(0..4), numbers([2])]);
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.conflicts, moved.busy), (3, 1, 0));
        let [current_ids, mut archived_ids] = both(db).await;
        archived_ids.sort_by_key(Bson::as_i32);
        assert_eq!([current_ids, archived_ids], [numbers([2]), numbers(0..4)]);
        let first = doc! { "_id": 2, "first": true };
        assert_eq!(archived(db).count_documents(first.clone()).await.unwrap(), 1);
        assert_eq!(archive.restore(2).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(archive.restore_many(doc! { "_id": 2 }).await.unwrap().conflicts, 1);
        let found: Vec<_> = archive.verify().stream().try_collect().await.unwrap();
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&found.document_id, &found.problem), (&2.into(), &Problem::InBoth));
        let moved = archive.run().replace_archived().await.unwrap();
        assert_eq!((moved.documents, moved.conflicts), (1, 0));
        assert_eq!(archived(db).count_documents(first).await.unwrap(), 0);
        let [current_ids, archived_ids] = both(db).await;
        assert_eq!((current_ids.len(), archived_ids.len()), (0, 4));
    })
    .await;
}

/// The server takes numbers of different types for one `_id`.
#[tokio::test]
async fn equal_ids_of_different_types_are_a_conflict() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..5).map(|id| sale(id, old(0)))).await;
        let decimal = Bson::Decimal128("3.00".parse().unwrap());
        let there = [Bson::Int64(1), Bson::Double(2.0), decimal].map(|id| sale(id, old(1)));
        archived(db).insert_many(there).await.unwrap();
        let planned = archive.run().plan().await.unwrap().migrated;
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.conflicts, moved.busy), (2, 3, 0));
        assert_eq!(planned, moved);
        assert_eq!(both(db).await[0], numbers(1..4));
        let found: Vec<_> = archive.verify().stream().try_collect().await.unwrap();
        assert_eq!(found.len(), 3);
        let moved = archive.run().replace_archived().await.unwrap();
        assert_eq!((moved.documents, moved.conflicts), (3, 0));
        assert_eq!(archived(db).count_documents(doc! {}).await.unwrap(), 5);
    })
    .await;
}

#[tokio::test]
async fn documents_are_restored_by_a_filter() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let of = |id: i32, name: &str| {
            let mut sale = sale(id, old(i64::from(id)));
            sale.insert("customer_name", name);
            sale
        };
        plant(db, (0..6).map(|id| of(id, if id < 3 { "Ann" } else { "Bea" }))).await;
        archive.run().await.unwrap();
        current(db).insert_one(sale(1, new(0))).await.unwrap();
        let filter = doc! { "customer_name": "Ann" };
        let planned = archive.restore_many(filter.clone()).plan().await.unwrap().migrated;
        let moved = archive.restore_many(filter).await.unwrap();
        assert_eq!((moved.documents, moved.conflicts), (2, 1));
        assert_eq!(planned, moved);
        let [mut current_ids, archived_ids] = both(db).await;
        current_ids.sort_by_key(Bson::as_i32);
        assert_eq!(current_ids, numbers(0..3));
        assert_eq!(archived_ids.len(), 4);
        assert_eq!(archive.restore_many(doc! {}).await.unwrap().documents, 3);
        let invalid = archive.restore_many(doc! { "$nonsense": 1 }).await.unwrap_err();
        assert_eq!(invalid.kind(), ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test]
async fn archived_documents_are_deleted_by_their_age() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..6).map(|id| sale(id, old(i64::from(id))))).await;
        archive.run().await.unwrap();
        // It was permanent only later.
        let permanent = doc! { "$set": { "retentionPolicy": "permanent" } };
        archived(db).update_one(doc! { "_id": 1 }, permanent).await.unwrap();
        let planned = archive.delete_before(old(4)).chunk(2).plan().await.unwrap();
        assert_eq!(planned.migrated.documents, 3);
        assert_eq!(planned.commands.iter().filter(|command| command.writes).count(), 1);
        assert_eq!(archived(db).count_documents(doc! {}).await.unwrap(), 6);
        db.recorder().clear();
        let deleted = archive.delete_before(old(4)).chunk(2).await.unwrap();
        assert_eq!(deleted.documents, 3);
        let names = ["find", "listIndexes", "listIndexes", "find", "delete", "delete"];
        assert_eq!(db.recorder().names(), names);
        assert_eq!(both(db).await, [vec![], numbers([1, 4, 5])]);
    })
    .await;
}

/// 40 MB in a chunk, and a document of nearly 16 MiB.
#[tokio::test]
async fn documents_of_any_size_are_archived() {
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
        let sizes = doc! { "$group": { "_id": { "$strLenBytes": "$photo" }, "n": { "$sum": 1 } } };
        let sorted = [sizes, doc! { "$sort": { "_id": 1 } }];
        let sizes = archived(db).aggregate(sorted).await.unwrap();
        let sizes: Vec<_> = sizes.try_collect().await.unwrap();
        let largest = doc! { "_id": (16 << 20) - 100, "n": 1 };
        assert_eq!(sizes, [doc! { "_id": 2 << 20, "n": 20 }, largest]);
    })
    .await;
}

#[tokio::test]
async fn each_problem_is_found() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..5).map(|id| sale(id, old(0)))).await;
        archive.run().await.unwrap();
        let current_documents = [
            sale(3, new(0)),
            doc! { "_id": "text", "date": "2018" },
            doc! { "_id": "array", "date": [old(0)] },
            doc! { "_id": "number", "date": 1 },
            // Kept on purpose.
            doc! { "_id": "null", "date": Bson::Null },
            doc! { "_id": "none" },
        ];
        current(db).insert_many(current_documents).await.unwrap();
        let text = doc! { "_id": "text too", "date": "2018" };
        archived(db).insert_one(text).await.unwrap();
        let mut found = problems(&archive).await;
        found.sort_by_key(|(collection, id, _)| (collection.clone(), id.to_string()));
        let of = |collection: &str, id: Bson, problem| (collection.to_owned(), id, problem);
        assert_eq!(
            found,
            [
                of("archived_sales", "text too".into(), Problem::NoDate),
                of("archived_sales", 3.into(), Problem::InBoth),
                of("sales", "array".into(), Problem::NoDate),
                of("sales", "number".into(), Problem::NoDate),
                of("sales", "text".into(), Problem::NoDate),
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn a_verification_of_many_documents_is_one_read_for_a_thousand() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let stored = (0..2500).map(|id| sale(id, old(0)));
        archived(db).insert_many(stored).await.unwrap();
        let both = (1200..1203).map(|id| sale(id, new(0)));
        current(db).insert_many(both).await.unwrap();
        db.recorder().clear();
        let mut done = 0;
        let verify = archive.verify().on_progress(|progress: Progress| done = progress.done);
        let found: Vec<_> = verify.stream().try_collect().await.unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(done, 2500);
        let finds = db.recorder().names().iter().filter(|name| *name == "find").count();
        // The catalog, three of the archive, one more for what is in both, and the ages of both.
        assert_eq!(finds, 1 + 1 + 3 + 1 + 2, "{:?}", db.recorder().names());
    })
    .await;
}

/// A unique index or a validator of the archive refuses a document: it stays, is named, and the others move.
#[tokio::test]
async fn a_document_that_the_archive_refuses_does_not_stop_a_run() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let with = |id: i32, slug: &str| {
            let mut sale = sale(id, old(i64::from(id)));
            sale.insert("slug", slug);
            sale
        };
        let unique = IndexOptions::builder().name("by_slug".to_owned()).unique(true).build();
        let index = IndexModel::builder().keys(doc! { "slug": 1 }).options(unique).build();
        archived(db).create_index(index).await.unwrap();
        plant(db, (1..40).map(|id| with(id, &format!("slug{id}")))).await;
        archived(db).insert_one(with(90, "slug7")).await.unwrap();
        for moved in [38, 0] {
            let done = archive.run().await.unwrap();
            assert_eq!((done.documents, done.conflicts), (moved, 1));
            assert_eq!(both(db).await[0], numbers([7]));
        }
        let found: Vec<_> = archive.verify().stream().try_collect().await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].problem, &found[0].document_id), (Problem::Refused, &7.into()));
        assert_eq!(found[0].namespace, current(db).namespace());
        archived(db).delete_one(doc! { "_id": 90 }).await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 1);
        // In the other direction.
        let shop = db.plain_client().database(db.database().name());
        let validate = doc! { "collMod": "sales", "validator": { "slug": { "$ne": "slug9" } } };
        shop.run_command(validate).await.unwrap();
        let error = archive.restore_many(doc! {}).await.unwrap_err();
        assert_names(&error, ErrorKind::ValidationFailed, 9);
        assert_eq!(error.document_namespace(), Some(&archived(db).namespace()));
        assert!(error.to_string().contains("`sales`"), "{error}");
        assert_eq!(both(db).await[1], numbers([9]));
        let error = archive.restore(9).await.unwrap_err();
        assert_names(&error, ErrorKind::ValidationFailed, 9);
        assert_eq!(error.document_namespace(), Some(&archived(db).namespace()));
    })
    .await;
}
