//! The commands that each call sends, and their effects.

use mongo_patterns::schema::SchemaRepository;
use mongo_patterns::{Error, ErrorKind, Repository, Result};
use mongo_patterns_core::field::no_array;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::contents;
use support::schema::contacts::*;

fn names(db: &TestDatabase) -> Vec<String> {
    let names = db.recorder().names();
    db.recorder().clear();
    names
}

/// Returns the filter of the only command that was sent.
fn filter(db: &TestDatabase, statements: &str) -> Document {
    assert_eq!(db.recorder().round_trips(), 1, "{:?}", db.recorder().names());
    let command = db.recorder().commands()[0].essence();
    db.recorder().clear();
    let statement = command.get_array(statements).unwrap()[0].as_document().unwrap();
    statement.get_document("q").unwrap().clone()
}

#[tokio::test]
async fn documents_of_the_newest_version_take_one_round_trip_each() {
    testkit::run(async |db| {
        for (contacts, version) in [
            (release_1(db), doc! { "$in": [null, 1] }),
            (typed(db), doc! { "$eq": 2 }),
            (on_server(db), doc! { "$eq": 2 }),
        ] {
            contacts.ensure_indexes().await.unwrap();
            plant(db, [doc! { "_id": 0 }]).await;
            let newest = contacts.newest();
            let taylor = doc! { "_id": 1, "name": "Taylor", "n": 1 };
            assert_eq!(contacts.insert(&taylor).await.unwrap().id, 1.into());
            assert_eq!(names(db), ["insert"]);
            let with_version =
                doc! { "_id": 1, "schemaVersion": i32::try_from(newest).unwrap(), "name": "Taylor", "n": 1 };
            assert_eq!(one(db, 1).await, Some(with_version.clone()));
            assert_eq!(contacts.get(1).await.unwrap(), Some(with_version.clone()));
            assert_eq!(names(db), ["find"]);
            assert!(contacts.update(1, doc! { "$inc": { "n": 1 } }).await.unwrap().modified);
            let newest_one = doc! { "_id": { "$eq": 1 }, "schemaVersion": no_array(version) };
            assert_eq!(filter(db, "updates"), newest_one);
            assert_eq!(one(db, 1).await.unwrap().get("n"), Some(&2.into()));
            assert!(!contacts.update(1, doc! { "$set": { "n": 2 } }).await.unwrap().modified);
            db.recorder().clear();

            // Of any version up to the newest.
            let mut versions = vec![Bson::Null, 1.into()];
            versions.extend((newest == 2).then_some(Bson::from(2)));
            let known = doc! { "_id": { "$eq": 1 }, "schemaVersion": no_array(doc! { "$in": versions }) };
            for document in [taylor.clone(), doc! { "name": "Taylor", "n": 1 }, with_version] {
                contacts.replace(1, &document).await.unwrap();
                assert_eq!(filter(db, "updates"), known);
                assert_eq!(one(db, 1).await.unwrap().get("n"), Some(&1.into()));
            }
            assert!(contacts.delete(1).await.unwrap().found);
            assert_eq!(filter(db, "deletes"), known);
            assert!(!contacts.delete(1).await.unwrap().found);
            assert_eq!(names(db), ["delete", "find"]);
            assert_eq!(contacts.get(1).await.unwrap(), None);
        }
    })
    .await;
}

#[tokio::test]
async fn an_older_document_is_converted_when_it_is_read_and_stays_stored() {
    testkit::run(async |db| {
        let versions = [Bson::Null, 1.into(), 1_i64.into(), 1.0.into()];
        for version in versions.map(Some).into_iter().chain([None]) {
            let mut taylor = v1(1);
            taylor.extend(version.map(|version| ("schemaVersion".to_owned(), version)));
            plant(db, [taylor.clone()]).await;
            assert_eq!(typed(db).get(1).await.unwrap(), Some(v2(1)));
            assert_eq!(names(db), ["find"]);
            let converted = on_server(db).get(1).await.unwrap().unwrap();
            assert_eq!(sorted(&converted), sorted(&v2(1)));
            assert_eq!(names(db), ["find", "aggregate"]);
            let converted = mixed(db).get(1).await.unwrap().unwrap();
            assert_eq!(names(db), ["find", "aggregate", "aggregate"]);
            let expected = doc! {
                "_id": 1, "contactInfo": { "home": "209-555-7788", "work": "503-555-0110" }, "double": 12,
                "fullName": "Taylor", "length": 6, "schemaVersion": 5,
            };
            assert_eq!(sorted(&converted), expected);
            assert_eq!(one(db, 1).await, Some(taylor));
        }
    })
    .await;
}

#[tokio::test]
async fn an_older_document_is_converted_before_its_update() {
    testkit::run(async |db| {
        let update = doc! { "$set": { "contactInfo.cell": "903-555-1122" } };
        let mut expected = v2(1);
        let info = expected.get_document_mut("contactInfo").unwrap();
        info.insert("cell", "903-555-1122");
        for (contacts, commands) in [
            (typed(db), "update find find update commitTransaction update"),
            (on_server(db), "update find update update"),
        ] {
            contacts.ensure_indexes().await.unwrap();
            plant(db, [v1(1), v1(2)]).await;
            assert!(contacts.update(1, update.clone()).await.unwrap().modified);
            assert_eq!(names(db).join(" "), commands);
            assert_eq!(sorted(&one(db, 1).await.unwrap()), sorted(&expected));
            assert_eq!(one(db, 2).await, Some(v1(2)));
            contacts.replace(2, &doc! { "name": "Cameron" }).await.unwrap();
            assert_eq!(names(db), ["update"]);
            let replaced = doc! { "_id": 2, "schemaVersion": 2, "name": "Cameron" };
            assert_eq!(one(db, 2).await, Some(replaced));
        }
        // All steps in their order.
        plant(db, [v1(1)]).await;
        mixed(db).update(1, doc! { "$inc": { "double": 1 } }).await.unwrap();
        let found = one(db, 1).await.unwrap();
        assert_eq!(found.get_i32("double").unwrap(), 13);
        assert_eq!(found.get_i32("schemaVersion").unwrap(), 5);
    })
    .await;
}

/// Calls that write the document with the `_id` 1.
async fn writes(contacts: &SchemaRepository<Document>) -> [(&'static str, Result<()>); 3] {
    let set = doc! { "$set": { "a": 1 } };
    [
        ("update", contacts.update(1, set).await.map(drop)),
        ("replace", contacts.replace(1, &doc! { "a": 1 }).await.map(drop)),
        ("delete", contacts.delete(1).await.map(drop)),
    ]
}

#[tokio::test]
async fn a_document_that_the_program_does_not_understand_is_refused_and_stays() {
    testkit::run(async |db| {
        let oldest_2 = builder::<Document>(db).pipeline_step(2, stages()).build().unwrap();
        let newest_3 = builder::<Document>(db).newest(3).build().unwrap();
        let invalid = [
            "2".into(),
            0.into(),
            (-1).into(),
            1.5.into(),
            f64::NAN.into(),
            (1_i64 << 40).into(),
            doc! {}.into(),
        ];
        let mut cases = vec![
            (release_1(db), Bson::from(2), ErrorKind::NewerVersion),
            (typed(db), 3.into(), ErrorKind::NewerVersion),
            (on_server(db), 3_i64.into(), ErrorKind::NewerVersion),
            (oldest_2, 1.into(), ErrorKind::NotMigrated),
            (newest_3, 2.into(), ErrorKind::NotMigrated),
        ];
        cases.extend(invalid.map(|version| (typed(db), version, ErrorKind::Corrupt)));
        for (contacts, version, kind) in cases {
            plant(db, [doc! { "_id": 1, "schemaVersion": version, "secret": "s3cret" }]).await;
            let before = contents(db).await;
            let mut refused = vec![("get", contacts.get(1).await.map(drop))];
            for (call, result) in writes(&contacts).await {
                // What replaces or deletes an older document need not understand it.
                match kind == ErrorKind::NotMigrated && call != "update" {
                    true => result.unwrap(),
                    false => refused.push((call, result)),
                }
            }
            for (call, result) in refused {
                let error = result.unwrap_err();
                assert_error(&error, kind, None, Some(&1.into()));
                assert_eq!((error.operation(), error.field()), (Some(call), Some("schemaVersion")));
                assert!(!error.is_transient() && !error.is_outcome_unknown());
            }
            if kind != ErrorKind::NotMigrated {
                // NaN is not equal to itself.
                assert_eq!(format!("{:?}", contents(db).await), format!("{before:?}"));
            }
        }
        plant(db, [doc! { "_id": 2 }]).await;
        let contacts = typed(db);
        let missing = [
            contacts.update(1, doc! { "$set": { "a": 1 } }).await.unwrap_err(),
            contacts.replace(1, &doc! { "a": 1 }).await.unwrap_err(),
        ];
        for error in missing {
            assert_error(&error, ErrorKind::NotFound, None, None);
        }
    })
    .await;
}

#[tokio::test]
async fn the_error_of_a_step_names_it_and_the_document() {
    testkit::run(async |db| {
        let refuse = |_: Document| Err::<Document, _>(Error::new(ErrorKind::InvalidArgument, "no name"));
        let other_id = |_: Document| Ok(doc! { "_id": 7, "secret": "s3cret" });
        let no_document = |_: Document| Ok(7);
        let too_large = |_: Document| Ok(doc! { "all": "x".repeat(17 << 20) });
        let second = |build: mongo_patterns::schema::SchemaRepositoryBuilder<Document>| {
            build.step(1, |old: Document| Ok(old)).build().unwrap()
        };
        let to_int = vec![doc! { "$set": { "n": { "$toInt": "$secret" } } }];
        let cases = [
            (second(builder(db).step(2, refuse)), ErrorKind::InvalidArgument, "2"),
            (second(builder(db).step(2, other_id)), ErrorKind::InvalidArgument, "2"),
            (second(builder(db).step(2, no_document)), ErrorKind::Encode, "2"),
            (second(builder(db).step(2, too_large)), ErrorKind::TooLarge, "2"),
            (
                second(builder(db).pipeline_step(2, to_int)),
                ErrorKind::InvalidArgument,
                "2",
            ),
            (typed(db), ErrorKind::Decode, "1"),
        ];
        for (contacts, kind, step) in cases {
            plant(db, [doc! { "_id": 1, "secret": "s3cret" }]).await;
            set_up(&contacts, db).await;
            let stored_before = one(db, 1).await;
            let refused = [
                contacts.get(1).await.unwrap_err(),
                contacts.update(1, doc! { "$set": { "a": 1 } }).await.unwrap_err(),
                contacts.migrate().await.unwrap_err(),
            ];
            for error in refused {
                assert_eq!((error.kind(), error.step()), (kind, Some(step)), "{error:?}");
                let text = format!("{error} {error:?}");
                assert!(!text.contains("s3cret"), "{text}");
                assert!(!error.is_outcome_unknown() && !error.is_transient(), "{error:?}");
                // The server does not name the document.
                let of_driver = error.as_driver_error();
                let is_on_server = of_driver.is_some_and(|error| error.server_response().is_some());
                assert!(is_on_server || error.document_id() == Some(&1.into()), "{error:?}");
            }
            assert_eq!(one(db, 1).await, stored_before);
            assert_eq!(stored(db).count_documents(doc! {}).await.unwrap(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_input_is_refused_and_nothing_is_sent() {
    testkit::run(async |db| {
        let contacts = typed(db);
        let with_version = |version: i32| doc! { "_id": 1, "schemaVersion": version };
        let update = async |id: Bson, update: Document| contacts.update(id, update).await.unwrap_err();
        let refused = [
            contacts.insert(&with_version(1)).await.unwrap_err(),
            contacts.insert(&with_version(3)).await.unwrap_err(),
            contacts.insert(&doc! { "schemaVersion": "2" }).await.unwrap_err(),
            contacts.insert(&doc! { "_id": [1] }).await.unwrap_err(),
            contacts.replace(1, &with_version(1)).await.unwrap_err(),
            contacts.replace(1, &doc! { "_id": 2 }).await.unwrap_err(),
            contacts.replace(Bson::Null, &doc! {}).await.unwrap_err(),
            update(1.into(), doc! { "a": 1 }).await,
            update(1.into(), doc! { "$set": { "schemaVersion": 3 } }).await,
            update(1.into(), doc! { "$unset": { "schemaVersion.a": "" } }).await,
            update(1.into(), doc! { "$set": { "_id": 3 } }).await,
            update(Bson::Null, doc! { "$set": { "a": 3 } }).await,
            contacts.get(Bson::Null).await.unwrap_err(),
            contacts.delete(Bson::Array(vec![])).await.unwrap_err(),
            contacts.find(doc! {}).older(2, doc! {}).await.unwrap_err(),
        ];
        for error in refused {
            assert_error(&error, ErrorKind::InvalidArgument, None, None);
        }
        let too_large = doc! { "all": "x".repeat(17 << 20) };
        for error in [
            contacts.insert(&too_large).await.unwrap_err(),
            contacts.replace(1, &too_large).await.unwrap_err(),
        ] {
            assert_error(&error, ErrorKind::TooLarge, None, None);
        }
        let numbers = builder::<i32>(db).build().unwrap();
        assert_error(&numbers.insert(&7).await.unwrap_err(), ErrorKind::Encode, None, None);
        assert_eq!(db.recorder().round_trips(), 0);
        contacts.insert(&doc! { "_id": 1 }).await.unwrap();
        let exists = contacts.insert(&doc! { "_id": 1 }).await.unwrap_err();
        assert_error(&exists, ErrorKind::AlreadyExists, None, None);
    })
    .await;
}

/// To the server they are one `_id`, and it stores the one of the replacement.
#[tokio::test]
async fn an_equal_id_of_another_type_is_the_same() {
    testkit::run(async |db| {
        let contacts = typed(db);
        contacts.ensure_indexes().await.unwrap();
        contacts.insert(&doc! { "_id": 1, "a": 1 }).await.unwrap();
        for (n, equal) in [(2, Bson::Int64(1)), (3, Bson::Double(1.0))] {
            contacts.replace(1, &doc! { "_id": &equal, "a": n }).await.unwrap();
            let expected = doc! { "_id": equal, "schemaVersion": 2, "a": n };
            assert_eq!(one(db, 1).await, Some(expected));
        }
    })
    .await;
}

#[tokio::test]
async fn wrong_settings_are_refused() {
    testkit::run(async |db| {
        let same = |old: Document| Ok(old);
        let build = || builder::<Document>(db);
        let wrong = [
            build().step(1, same).step(3, same),
            build().step(1, same).step(1, same),
            build().step(1, same).pipeline_step(1, stages()),
            build().step(0, same),
            build().step(u32::MAX, same),
            build().step(i32::MAX as u32, same),
            build().newest(0),
            build().newest(u32::MAX),
            build().step(1, same).newest(3),
            build().step(1, same).newest(1),
            build().version_field("_id"),
            build().pipeline_step(1, vec![doc! { "$match": {} }]),
            build().pipeline_step(1, vec![doc! {}]),
            build().pipeline_step(1, vec![doc! { "$set": { "a": 1 }, "$unset": "b" }]),
        ];
        for builder in wrong {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        }
        let right = [
            (build(), 1),
            (build().newest(7), 7),
            (build().step(6, same), 7),
            (build().step(2, same).step(1, same).newest(3), 3),
            (build().step(i32::MAX as u32 - 1, same), i32::MAX as u32),
            (build().pipeline_step(1, Vec::new()), 2),
        ];
        for (builder, newest) in right {
            assert_eq!(builder.build().unwrap().newest(), newest);
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}
