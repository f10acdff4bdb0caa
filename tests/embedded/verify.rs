//! Builder, validator and verify.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::embedded::{Finding, Problem};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, Regex, cstr, doc};
use mongodb::options::Collation;

use support::common::create_validated;
use support::embedded::*;

/// Damaged parents, with their findings.
fn damages() -> Vec<(Document, Vec<Problem>)> {
    let with = |addresses: Bson| doc! { "_id": 0, "addresses": addresses };
    let regex = Bson::RegularExpression(Regex {
        pattern: cstr!("a").into(),
        options: cstr!("").into(),
    });
    let without_ids = vec![
        address(1).into(),
        doc! { "zip": 1 }.into(),
        Bson::from(address(Bson::Null)),
        address(vec![1]).into(),
        address(regex).into(),
    ];
    let doubled = vec![
        address(1),
        address("1"),
        address(1.0),
        address(doc! { "a": 1 }),
        address(doc! { "a": 1_i64 }),
    ];
    let mut everything: Vec<Bson> = (0..4).map(|id| address(id).into()).collect();
    everything.extend([7.into(), Bson::Null, address(Bson::Null).into(), address(0).into()]);
    vec![
        (doc! { "_id": 0 }, vec![Problem::ChildrenMissing]),
        (with(Bson::Null), vec![Problem::ChildrenNotArray]),
        (with("none".into()), vec![Problem::ChildrenNotArray]),
        (with(doc! { "0": address(1) }.into()), vec![Problem::ChildrenNotArray]),
        (
            patron(0, (0..6).map(address)),
            vec![Problem::TooManyChildren { children: 6 }],
        ),
        (
            with(vec![Bson::from(1), Bson::Array(vec![])].into()),
            vec![Problem::ChildNotDocument { children: 2 }],
        ),
        (with(without_ids.into()), vec![Problem::ChildIdMissing { children: 4 }]),
        (patron(0, doubled), vec![Problem::DuplicateChildId { children: 2 }]),
        (
            with(everything.into()),
            vec![
                Problem::TooManyChildren { children: 8 },
                Problem::ChildNotDocument { children: 2 },
                Problem::ChildIdMissing { children: 1 },
                Problem::DuplicateChildId { children: 1 },
            ],
        ),
    ]
}

fn sound() -> Vec<Document> {
    vec![
        patron(1, []),
        patron(2, (0..5).map(address)),
        patron(3, [address("$name"), address(doc! {})]),
    ]
}

async fn findings(db: &TestDatabase) -> Vec<Finding> {
    patrons(db).verify().stream().try_collect().await.unwrap()
}

#[tokio::test]
async fn each_kind_of_damage_is_found_without_false_findings() {
    testkit::run(async |db| {
        stored(db).insert_many(sound()).await.unwrap();
        assert_eq!(findings(db).await, []);
        assert_eq!(db.recorder().names(), ["find", "aggregate"]);
        for (damage, problems) in damages() {
            plant(db, &damage).await;
            let found = findings(db).await;
            assert!(found.iter().all(|finding| finding.document_id == 0.into()));
            let found: Vec<Problem> = found.into_iter().map(|finding| finding.problem).collect();
            assert_eq!(found, problems, "{damage}");
            stored(db).delete_one(doc! { "_id": 0 }).await.unwrap();
        }
        // More than the first batch of a cursor has.
        let bad = (1000..1150).map(|id| doc! { "_id": id });
        stored(db).insert_many(bad).await.unwrap();
        db.recorder().clear();
        assert_eq!(findings(db).await.len(), 150);
        assert!(db.recorder().names().contains(&"getMore".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn the_validator_refuses_every_damage() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        create_validated(&db.plain_client().database(db.database().name()), &patrons).await;
        for parent in sound() {
            patrons.insert(&parent).await.unwrap();
        }
        for (damage, _) in damages() {
            let error = stored(db).insert_one(&damage).await.unwrap_err();
            assert_eq!(mongo_patterns_core::error::code(&error), Some(121), "{damage}");
        }
        patrons.add_child(1, &address(1)).await.unwrap();
        patrons.reorder_children(2, [4, 3, 2, 1, 0]).await.unwrap();
        let push = doc! { "$push": { "addresses": address(9) } };
        let error = stored(db).update_one(doc! { "_id": 2 }, push).await.unwrap_err();
        assert_eq!(mongo_patterns_core::error::code(&error), Some(121));
    })
    .await;
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    testkit::run(async |db| {
        for builder in [
            Patrons::builder(db.collection::<Document>("patron")),
            builder(db).children_field("_id"),
            builder(db).child_id_field("07"),
            builder(db).max_children(0),
            builder(db).max_children(u32::MAX),
        ] {
            let shown = format!("{builder:?}");
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{shown}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn no_index_is_needed_and_only_the_simple_collation_is_accepted() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        assert!(patrons.indexes().is_empty());
        let ensured = patrons.ensure_indexes().await.unwrap();
        assert!(ensured.created.is_empty() && ensured.existing.is_empty());
        assert_eq!(
            db.recorder().names(),
            ["find", "listCollections", "listIndexes", "update", "find", "update"]
        );

        let collation = Collation::builder().locale("de").build();
        let database = db.plain_client().database(db.database().name());
        database.create_collection("patron").collation(collation).await.unwrap();
        assert_eq!(
            patrons.ensure_indexes().await.unwrap_err().kind(),
            ErrorKind::UnsupportedCollation
        );
    })
    .await;
}

#[tokio::test]
async fn errors_contain_no_ids_or_children() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("secret", [address("secret")])).await;
        let child = doc! { "id": "secret", "note": "secret" };
        let update = |field: &str| doc! { "$set": { field: 1 } };
        for error in [
            patrons.insert(&patron("secret", [])).await.map(drop),
            patrons.add_child("secret", &child).await,
            patrons
                .update_child("secret", "other", update("secret"))
                .await
                .map(drop),
            patrons
                .update_child("secret", "other", update("$secret"))
                .await
                .map(drop),
            patrons.reorder_children("secret", ["secret", "secret"]).await,
        ] {
            let error = error.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    })
    .await;
}
