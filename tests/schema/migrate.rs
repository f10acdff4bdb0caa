//! The migration in the background.

use futures::future::{join, join_all, try_join_all};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;

use support::common::once_elsewhere;
use support::explain::explain;
use support::schema::contacts::*;

#[tokio::test]
async fn all_older_documents_are_converted_and_the_others_stay() {
    testkit::run(async |db| {
        for contacts in both(db) {
            let others = [
                doc! { "_id": 1000, "schemaVersion": 2, "home": 1 },
                doc! { "_id": 1001, "schemaVersion": 3 },
            ];
            plant(db, (0..12).map(v1).chain(others.clone())).await;
            set_up(&contacts, db).await;
            assert_eq!(contacts.migrate().chunk(5).await.unwrap().documents, 12);
            for id in 0..12 {
                assert_eq!(sorted(&one(db, id).await.unwrap()), sorted(&v2(id)));
            }
            assert_eq!([one(db, 1000).await.unwrap(), one(db, 1001).await.unwrap()], others);
            db.recorder().clear();
            assert_eq!(contacts.migrate().await.unwrap().documents, 0);
            assert_eq!(db.recorder().names(), ["find", "listIndexes", "find"]);
        }
        // One round trip for a chunk on the server, three with a function.
        for (contacts, of_chunk) in [
            (typed(db), &["find", "update", "commitTransaction"][..]),
            (on_server(db), &["update"]),
        ] {
            plant(db, (0..10).map(v1)).await;
            assert_eq!(contacts.migrate().chunk(5).await.unwrap().documents, 10);
            let names = db.recorder().names();
            let mut expected = vec!["find", "listIndexes", "find"];
            expected.extend(of_chunk.iter().chain(of_chunk));
            assert_eq!(names, expected);
        }
        plant(db, (0..7).map(v1)).await;
        assert_eq!(mixed(db).migrate().chunk(3).await.unwrap().documents, 7);
        let converted = doc! { "schemaVersion": 5, "double": 12, "fullName": "Taylor", "name": { "$exists": false } };
        assert_eq!(stored(db).count_documents(converted).await.unwrap(), 7);
    })
    .await;
}

/// The walk does not read the documents that are converted already.
#[tokio::test]
async fn the_index_finds_the_older_documents() {
    testkit::run(async |db| {
        let contacts = typed(db);
        let newest = (0..300).map(|id| doc! { "_id": id, "schemaVersion": 2 });
        plant(db, newest.chain([v1(150_000)])).await;
        set_up(&contacts, db).await;
        contacts.migrate().await.unwrap();
        let commands = db.recorder().commands();
        let walk = commands.iter().filter(|command| command.name == "find").nth(1).unwrap();
        let examined = explain(db, walk).await;
        assert_eq!(examined.index, "schemaVersion_1__id_1");
        assert!(examined.keys <= 5 && examined.documents == 0, "{examined:?}");
        // The counts come from the index alone.
        db.recorder().clear();
        let counts = contacts.versions().await.unwrap();
        let counts: Vec<_> = counts.iter().map(|count| (count.version, count.documents)).collect();
        assert_eq!(counts, [(Some(2), 301)]);
        assert_eq!(db.recorder().round_trips(), 1);
    })
    .await;
}

#[tokio::test]
async fn versions_are_counted() {
    testkit::run(async |db| {
        let contacts = typed(db);
        set_up(&contacts, db).await;
        assert_eq!(contacts.versions().await.unwrap(), []);
        let of = |n: i32, version: Bson| doc! { "_id": n, "schemaVersion": version };
        let versions = [
            of(1, 1.into()),
            of(2, Bson::Null),
            of(3, 1.0.into()),
            of(4, 2.into()),
            of(5, 2_i64.into()),
            of(6, "2".into()),
            of(7, 1.5.into()),
            of(8, 9.into()),
        ];
        plant(db, versions.into_iter().chain([doc! { "_id": 9 }])).await;
        let counts = contacts.versions().await.unwrap();
        let counts: Vec<_> = counts.iter().map(|count| (count.version, count.documents)).collect();
        assert_eq!(counts, [(Some(1), 4), (Some(2), 2), (Some(9), 1), (None, 2)]);
        stored(db).drop_indexes().await.unwrap();
        let missing = contacts.versions().await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::IndexMissing);
        let missing = contacts.migrate().await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::IndexMissing);
    })
    .await;
}

/// A document that a step refuses stops the migration before its chunk.
#[tokio::test]
async fn a_refused_document_is_named_and_the_others_of_its_chunk_stay() {
    testkit::run(async |db| {
        let contacts = typed(db);
        plant(db, (0..10).map(v1)).await;
        let update = async |update: Document| stored(db).update_one(doc! { "_id": 7 }, update).await.unwrap();
        update(doc! { "$unset": { "name": "" } }).await;
        set_up(&contacts, db).await;
        let planned = contacts.migrate().chunk(3).plan().await.unwrap_err();
        let refused = contacts.migrate().chunk(3).await.unwrap_err();
        for error in [planned, refused] {
            assert_error(&error, ErrorKind::Decode, Some("1"), Some(&7.into()));
        }
        let newest = doc! { "schemaVersion": 2 };
        assert_eq!(stored(db).count_documents(newest.clone()).await.unwrap(), 6);
        update(doc! { "$set": { "name": "Taylor" } }).await;
        assert_eq!(contacts.migrate().await.unwrap().documents, 4);
        assert_eq!(stored(db).count_documents(newest).await.unwrap(), 10);
    })
    .await;
}

/// 10 MB in a chunk, and a document of nearly 16 MiB.
#[tokio::test]
async fn documents_of_any_size_are_converted() {
    testkit::run(async |db| {
        for contacts in both(db) {
            let large = |id: i32, bytes: usize| {
                let mut document = v1(id);
                document.insert("photo", "x".repeat(bytes));
                document
            };
            let documents = (0..10).map(|id| large(id, 1 << 20));
            plant(db, documents.chain([large(20, (16 << 20) - 400)])).await;
            set_up(&contacts, db).await;
            assert_eq!(contacts.migrate().await.unwrap().documents, 11);
            let converted =
                doc! { "schemaVersion": 2, "contactInfo.home": "209-555-7788", "home": { "$exists": false } };
            assert_eq!(stored(db).count_documents(converted).await.unwrap(), 11);
            let stored = stored(db);
            let photos = stored.aggregate([
                doc! { "$group": { "_id": { "$strLenBytes": "$photo" }, "n": { "$sum": 1 } } },
                doc! { "$sort": { "_id": 1 } },
            ]);
            let photos: Vec<Document> = futures::TryStreamExt::try_collect(photos.await.unwrap()).await.unwrap();
            let largest = doc! { "_id": (16 << 20) - 400, "n": 1 };
            assert_eq!(photos, [doc! { "_id": 1 << 20, "n": 10 }, largest]);
        }
    })
    .await;
}

/// Writers of the second release count in the documents that the migration converts.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: cargo xtask ci"]
async fn no_write_is_lost_beside_the_migration() {
    testkit::run(async |db| {
        const DOCUMENTS: i32 = 40;
        const WRITES: i32 = 30;
        for contacts in [typed(db), on_server(db), mixed(db)] {
            plant(db, (0..DOCUMENTS).map(v1)).await;
            set_up(&contacts, db).await;
            let writers = (0..4).map(|writer| {
                let contacts = contacts.clone();
                tokio::spawn(async move {
                    for n in 0..WRITES {
                        let id = (n * 7 + writer) % DOCUMENTS;
                        contacts.update(id, doc! { "$inc": { "n": 1 } }).await.unwrap();
                        assert!(contacts.get(id).await.unwrap().unwrap().contains_key("contactInfo"));
                    }
                })
            });
            let runs = (0..4).map(|_| async { contacts.migrate().chunk(5).await });
            let (migrated, written) = join(try_join_all(runs), join_all(writers)).await;
            migrated.unwrap();
            written.into_iter().for_each(Result::unwrap);
            let newest = i32::try_from(contacts.newest()).unwrap();
            let sum = doc! { "$group": { "_id": "$schemaVersion", "n": { "$sum": "$n" }, "documents": { "$sum": 1 } } };
            let sums = stored(db).aggregate([sum]).await.unwrap();
            let sums: Vec<Document> = futures::TryStreamExt::try_collect(sums).await.unwrap();
            assert_eq!(sums, [doc! { "_id": newest, "n": 4 * WRITES, "documents": DOCUMENTS }]);
        }
    })
    .await;
}

/// What rewrites documents checks first that the settings fit them.
#[tokio::test]
async fn a_migration_needs_the_settings_of_the_catalog() {
    testkit::run(async |db| {
        plant(db, [v1(1), doc! { "_id": 2, "version": "draft" }]).await;
        let contacts = typed(db);
        let refused = contacts.migrate().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SettingsMismatch);
        set_up(&contacts, db).await;
        let other = || {
            let other = builder::<Document>(db).version_field("version");
            other.pipeline_step(1, stages()).build().unwrap()
        };
        for error in [
            other().migrate().await.unwrap_err(),
            other().ensure_indexes().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
        }
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        // A field of the application is not taken for the version.
        let refused = other().ensure_indexes().await.unwrap_err();
        let mismatch = (ErrorKind::SettingsMismatch, Some("version"));
        assert_eq!((refused.kind(), refused.field()), mismatch);
        // Releases with other steps have the same settings.
        for contacts in [release_1(db), mixed(db), on_server(db)] {
            contacts.ensure_indexes().await.unwrap();
        }
        assert_eq!(one(db, 1).await, Some(v1(1)));
    })
    .await;
}

/// A unique index refuses what a step returns, and a limit of time is not the fault of a step.
#[tokio::test]
async fn errors_of_the_server_have_different_kinds() {
    testkit::run(async |db| {
        let options = IndexOptions::builder().unique(true);
        let options = options.partial_filter_expression(doc! { "schemaVersion": 2 }).build();
        let unique = IndexModel::builder()
            .keys(doc! { "contactInfo.home": 1 })
            .options(options);
        for contacts in both(db) {
            plant(db, [v1(1), v1(2)]).await;
            set_up(&contacts, db).await;
            stored(db).create_index(unique.clone().build()).await.unwrap();
            let refused = contacts.migrate().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::DuplicateKey, "{refused:?}");
            assert_eq!(stored(db).count_documents(doc! {}).await.unwrap(), 2);
            stored(db).drop_index("contactInfo.home_1").await.unwrap();
        }
        plant(db, [v1(1)]).await;
        let fault = FailPoint::on(&["aggregate"]).times(1).error_code(50).enable(db).await;
        let late = on_server(db).get(1).await.unwrap_err();
        fault.disable().await;
        assert_eq!((late.kind(), late.step()), (ErrorKind::Driver, Some("1")), "{late:?}");
    })
    .await;
}

/// A program of the first release writes all documents after the conversion has read them. The transaction conflicts, and runs
/// again.
#[tokio::test]
async fn a_write_between_the_read_and_the_replacement_is_kept() {
    testkit::run(async |db| {
        for updates in [false, true] {
            plant(db, (0..5).map(v1)).await;
            let write = once_elsewhere(db, "contacts", doc! { "$set": { "home": "new" } });
            let step = move |old: ContactV1| {
                write();
                Ok(ContactV2::from(old))
            };
            let contacts = builder::<Document>(db).step(1, step).build().unwrap();
            set_up(&contacts, db).await;
            if updates {
                contacts.update(1, doc! { "$set": { "n": 1 } }).await.unwrap();
            }
            contacts.migrate().await.unwrap();
            let kept = doc! { "schemaVersion": 2, "contactInfo.home": "new", "home": { "$exists": false } };
            assert_eq!(stored(db).count_documents(kept).await.unwrap(), 5);
        }
    })
    .await;
}
