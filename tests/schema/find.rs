//! Queries over documents of several versions.

use std::collections::HashSet;

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::schema::SchemaRepository;
use mongo_patterns_testkit::{self as testkit};
use mongodb::bson::{Bson, Document, doc};

use support::schema::contacts::*;

fn ids(found: &[Document]) -> Vec<i32> {
    found.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

fn of_city(n: i32) -> Bson {
    if n % 3 == 0 { "Cork".into() } else { "Dublin".into() }
}

/// Version 1 has a field `city`, version 2 a document `place`, and version 3 `places`.
fn people(repository: mongo_patterns::schema::SchemaRepositoryBuilder<Document>) -> SchemaRepository<Document> {
    let set = doc! { "$set": { "place": { "city": "$city" } } };
    let to_place = vec![set, doc! { "$unset": "city" }];
    let to_places = |mut old: Document| {
        let place = old.remove("place").unwrap_or(Bson::Null);
        old.insert("places", vec![place]);
        Ok(old)
    };
    let repository = repository.pipeline_step(1, to_place);
    repository.step(2, to_places).build().unwrap()
}

#[tokio::test]
async fn documents_of_all_versions_are_found_and_converted() {
    testkit::run(async |db| {
        let all = (0..30).map(|n| match n % 4 {
            0 => doc! { "_id": n, "city": of_city(n) },
            1 => doc! { "_id": n, "schemaVersion": 1, "city": of_city(n) },
            2 => doc! { "_id": n, "schemaVersion": 2, "place": { "city": of_city(n) } },
            _ => doc! { "_id": n, "schemaVersion": 3, "places": [{ "city": of_city(n) }] },
        });
        plant(db, all).await;
        let people = people(builder(db));
        let find = || {
            let newest = people.find(doc! { "places.city": "Cork" });
            let with_first = newest.older(1, doc! { "city": "Cork" });
            with_first.older(2, doc! { "place.city": "Cork" })
        };
        let expected: Vec<i32> = (0..30).filter(|n| n % 3 == 0).collect();
        let found = find().sort(doc! { "_id": 1 }).await.unwrap();
        assert_eq!(ids(&found), expected);
        let cork = Bson::from(vec![doc! { "city": "Cork" }]);
        for document in &found {
            assert_eq!(document.get("places"), Some(&cork));
            assert_eq!(document.get("schemaVersion"), Some(&3.into()));
        }
        db.recorder().clear();
        let mut streamed: Vec<Document> = find().stream().try_collect().await.unwrap();
        streamed.sort_by_key(|document| document.get_i32("_id").unwrap());
        assert_eq!(streamed, found);
        let first = find().sort(doc! { "_id": -1 }).limit(3).await.unwrap();
        assert_eq!(ids(&first), expected.iter().rev().take(3).copied().collect::<Vec<_>>());
        // With a filter for each version there is nothing to check.
        db.recorder().clear();
        find().limit(1).await.unwrap();
        assert_eq!(db.recorder().names(), ["find", "aggregate"]);
        // One command converts all documents of a version.
        db.recorder().clear();
        find().await.unwrap();
        assert_eq!(db.recorder().names(), ["find", "aggregate"]);
        db.recorder().clear();
        let streamed: Vec<Document> = find().stream().try_collect().await.unwrap();
        assert_eq!(
            (streamed.len(), db.recorder().names()),
            (found.len(), vec!["find".to_owned(), "aggregate".to_owned()])
        );
        // All documents of a version.
        let all = people.find(doc! {}).older(1, doc! {}).older(2, doc! {}).await.unwrap();
        assert_eq!(all.len(), 30);
    })
    .await;
}

#[tokio::test]
async fn a_query_that_would_miss_older_documents_is_refused() {
    testkit::run(async |db| {
        let people = people(builder(db));
        let newest = doc! { "_id": 1, "schemaVersion": 3, "n": 1 };
        plant(db, [newest, doc! { "_id": 2, "schemaVersion": 2, "n": 1 }]).await;
        for find in [
            people.find(doc! { "n": 1 }),
            people.find(doc! { "n": 1 }).older(1, doc! {}),
        ] {
            let refused = find.await.unwrap_err();
            assert_error(&refused, ErrorKind::NotMigrated, None, Some(&2.into()));
        }
        let refused: Result<Vec<_>, _> = people.find(doc! {}).stream().try_collect().await;
        assert_error(&refused.unwrap_err(), ErrorKind::NotMigrated, None, Some(&2.into()));
        let both = people.find(doc! { "n": 1 }).older(2, doc! { "n": 1 });
        assert_eq!(both.await.unwrap().len(), 2);
        set_up(&people, db).await;
        people.migrate().await.unwrap();
        db.recorder().clear();
        assert_eq!(people.find(doc! { "n": 1 }).await.unwrap().len(), 2);
        assert_eq!(db.recorder().names(), ["find", "find"]);
        // Without steps there is nothing to check.
        db.recorder().clear();
        let newest = builder::<Document>(db).newest(3).build().unwrap();
        assert_eq!(newest.find(doc! { "n": 1 }).await.unwrap().len(), 2);
        assert_eq!(db.recorder().names(), ["find"]);
        let refused = newest.find(doc! { "$noSuch": "s3cret" }).await.unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("s3cret"));
    })
    .await;
}

/// Each value that the version field can have, in releases that know other versions.
#[tokio::test]
async fn a_document_that_get_refuses_is_an_error_of_find_too() {
    testkit::run(async |db| {
        let to_3 = || vec![doc! { "$set": { "third": true } }];
        let same = |old: Document| Ok(old);
        let releases = [
            (release_1(db), 1..1),
            (builder(db).newest(3).build().unwrap(), 3..3),
            (on_server(db), 1..2),
            (
                builder(db).step(1, same).pipeline_step(2, to_3()).build().unwrap(),
                1..3,
            ),
            (builder(db).pipeline_step(2, to_3()).build().unwrap(), 2..3),
        ];
        let mut versions: Vec<Bson> = (-1..=4).map(Bson::from).collect();
        versions.extend([
            2_i64.into(),
            (1_i64 << 40).into(),
            2.0.into(),
            2.5.into(),
            f64::NAN.into(),
        ]);
        versions.extend([Bson::Null, "x".into(), true.into(), doc! {}.into(), Bson::Array(vec![])]);
        versions.extend((1..=4).map(|version| vec![version].into()));
        versions.push(vec![Bson::Null].into());
        let mut versions: Vec<Option<Bson>> = versions.into_iter().map(Some).collect();
        versions.push(None);
        let mut kinds = HashSet::new();
        for version in versions {
            let mut stored = doc! { "_id": 1, "n": 1 };
            stored.extend(version.map(|version| ("schemaVersion".to_owned(), version)));
            plant(db, [stored.clone(), doc! { "_id": 2, "n": 2, "schemaVersion": "x" }]).await;
            for (people, older) in &releases {
                let find = || {
                    let newest = people.find(doc! { "n": 1 });
                    older
                        .clone()
                        .fold(newest, |find, version| find.older(version, doc! { "n": 1 }))
                };
                let by_get = people.get(1).await;
                db.recorder().clear();
                let found = [find().await, find().stream().try_collect().await];
                for found in found {
                    match (&by_get, found) {
                        (Ok(one), Ok(found)) => assert_eq!(found, one.iter().cloned().collect::<Vec<_>>()),
                        (Err(of_get), Err(error)) => {
                            assert_error(&error, of_get.kind(), None, Some(&1.into()));
                            assert_eq!((error.operation(), error.field()), (Some("find"), of_get.field()));
                            kinds.insert(error.kind());
                        }
                        (by_get, found) => panic!("{stored} in {older:?}: {by_get:?}, {found:?}"),
                    }
                }
                if by_get.is_err() {
                    assert_eq!(db.recorder().names(), ["find", "find"]);
                }
            }
        }
        assert_eq!(
            kinds,
            HashSet::from([ErrorKind::NewerVersion, ErrorKind::NotMigrated, ErrorKind::Corrupt])
        );
    })
    .await;
}

/// The error of a document ends the stream. Documents that arrive together are converted together.
#[tokio::test]
async fn a_stream_ends_after_an_error() {
    testkit::run(async |db| {
        let contacts = builder::<ContactV2>(db)
            .step(1, |old: ContactV1| Ok(ContactV2::from(old)))
            .build()
            .unwrap();
        plant(db, [v1(1), doc! { "_id": 2 }, v1(3)]).await;
        let find = contacts.find(doc! {}).older(1, doc! {}).sort(doc! { "_id": 1 });
        let (found, error) = support::common::until_error(find.stream()).await;
        assert!(found.len() <= 1, "{found:?}");
        assert_error(&error, ErrorKind::Decode, Some("1"), Some(&2.into()));
        let found = contacts.find(doc! {}).older(1, doc! { "_id": 1 }).await.unwrap();
        assert_eq!(found[0].contact_info.home.as_deref(), Some("209-555-7788"));
    })
    .await;
}
