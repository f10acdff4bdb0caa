//! Embedded children: the commands that each call sends, and their effects.

use mongo_patterns::ErrorKind;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc};
use serde::{Deserialize, Serialize};

use support::common::assert_refused;
use support::embedded::*;
use support::explain::{documents_examined, explained, has_stage};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    id: String,
    street: String,
    since: DateTime,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Patron {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    addresses: Vec<Address>,
}

fn home() -> Address {
    Address {
        id: "home".into(),
        street: "123 Fake Street".into(),
        since: DateTime::from_millis(1_698_335_223_000),
    }
}

fn joe(addresses: Vec<Address>) -> Patron {
    Patron {
        id: "joe".into(),
        name: "Joe Bookreader".into(),
        addresses,
    }
}

fn zip() -> Document {
    doc! { "$set": { "zip": 1 } }
}

/// Returns the filter and the update of the only update that was sent.
fn sent(db: &TestDatabase) -> (Document, Bson) {
    assert_eq!(db.recorder().names(), ["update"]);
    let command = db.recorder().commands()[0].essence();
    let statement = command.get_array("updates").unwrap()[0].as_document().unwrap().clone();
    let options: Vec<&String> = statement
        .keys()
        .filter(|key| !["q", "u", "collation"].contains(&key.as_str()))
        .collect();
    assert_eq!(options, Vec::<&String>::new());
    db.recorder().clear();
    (
        statement.get_document("q").unwrap().clone(),
        statement.get("u").unwrap().clone(),
    )
}

#[tokio::test]
async fn users_types_are_returned_as_they_were_stored() {
    testkit::run(async |db| {
        let patrons = EmbeddedRepository::<Patron, Address>::builder(db.collection::<Document>("patron"))
            .children_field("addresses")
            .child_id_field("id")
            .build()
            .unwrap();
        assert_eq!(patrons.max_children(), 100);
        assert_eq!(patrons.insert(&joe(vec![])).await.unwrap().id, "joe".into());
        patrons.add_child("joe", &home()).await.unwrap();
        assert_eq!(patrons.get("joe").await.unwrap(), Some(joe(vec![home()])));
        assert_eq!(patrons.child("joe", "home").await.unwrap(), Some(home()));
        assert_eq!(patrons.child("joe", "work").await.unwrap(), None);
        assert_eq!(patrons.child("jim", "home").await.unwrap(), None);
        assert_eq!(patrons.get("jim").await.unwrap(), None);

        // The stored documents have another type than that of the repository.
        let set = doc! { "$set": { "addresses.0.street": 7, "name": 7 } };
        stored(db).update_one(doc! { "_id": "joe" }, set).await.unwrap();
        for error in [
            patrons.get("joe").await.unwrap_err(),
            patrons.child("joe", "home").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert_eq!(error.document_id(), Some(&"joe".into()));
        }
    })
    .await;
}

#[tokio::test]
async fn every_write_is_one_command_that_changes_what_it_names() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [address("a"), address("b")])).await;
        // A parent that is migrated to a subset has a version.
        let none = doc! { "$exists": false };
        let this = |id: &str| {
            let address = doc! { "$elemMatch": { "id": { "$eq": id } } };
            doc! { "_id": { "$eq": "joe" }, "addresses": address, "addresses_version": &none }
        };

        patrons.add_child("joe", &address("c")).await.unwrap();
        let room = doc! { "properties": { "addresses": { "bsonType": "array", "maxItems": 4 } } };
        let without = doc! { "$not": { "$elemMatch": { "id": { "$eq": "c" } } } };
        let joe = doc! { "$eq": "joe" };
        let filter = doc! { "_id": joe, "$jsonSchema": room, "addresses": without, "addresses_version": &none };
        let push = doc! { "$push": { "addresses": address("c") } };
        assert_eq!(sent(db), (filter, push.into()));
        assert_eq!(ids(db, "joe").await, ["a", "b", "c"].map(Bson::from));

        let change = doc! { "$set": { "zip": "54321" }, "$unset": { "street": "", "none": "" } };
        let changed = patrons.update_child("joe", "b", change.clone()).await.unwrap();
        assert!(changed.modified);
        let update = doc! {
            "$set": { "addresses.$.zip": "54321" },
            "$unset": { "addresses.$.street": "", "addresses.$.none": "" },
        };
        assert_eq!(sent(db), (this("b"), update.into()));
        let b = doc! { "id": "b", "zip": "54321" };
        let expected = vec![address("a"), b.clone(), address("c")];
        assert_eq!(addresses(db, "joe").await, Some(expected.into()));
        assert!(
            !patrons.update_child("joe", "b", change).await.unwrap().modified,
            "it is so already"
        );
        db.recorder().clear();

        let other = doc! { "zip": 1, "id": "a" };
        assert!(patrons.replace_child("joe", &other).await.unwrap().modified);
        assert_eq!(sent(db), (this("a"), doc! { "$set": { "addresses.$": &other } }.into()));
        assert!(!patrons.replace_child("joe", &other).await.unwrap().modified);
        db.recorder().clear();

        patrons.reorder_children("joe", ["c", "a", "b"]).await.unwrap();
        sent(db);
        let expected = vec![address("c"), other.clone(), b];
        assert_eq!(addresses(db, "joe").await, Some(expected.into()));
        patrons.reorder_children("joe", ["c", "a", "b"]).await.unwrap();
        db.recorder().clear();

        assert!(patrons.remove_child("joe", "b").await.unwrap().found);
        let pull = doc! { "$pull": { "addresses": { "id": { "$eq": "b" } } } };
        assert_eq!(sent(db), (this("b"), pull.into()));
        assert_eq!(addresses(db, "joe").await, Some(vec![address("c"), other].into()));

        patrons.get("joe").await.unwrap().unwrap();
        assert_eq!(patrons.child("joe", "c").await.unwrap(), Some(address("c")));
        assert_eq!(db.recorder().names(), ["find", "find"]);
        let reply = db.recorder().commands()[1].reply.clone().unwrap();
        let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        assert_eq!(
            batch,
            &[doc! { "_id": "joe", "addresses": [address("c")] }.into()],
            "the command contains no other child"
        );
    })
    .await;
}

#[tokio::test]
async fn each_write_examines_one_document() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let all = (0..50).map(|n| patron(n, [address("a"), address("b")]));
        stored(db).insert_many(all).await.unwrap();
        patrons.add_child(7, &address("c")).await.unwrap();
        patrons.update_child(7, "a", zip()).await.unwrap();
        patrons.replace_child(7, &address("a")).await.unwrap();
        patrons.reorder_children(7, ["c", "b", "a"]).await.unwrap();
        assert!(patrons.remove_child(7, "c").await.unwrap().found);
        patrons.child(7, "a").await.unwrap().unwrap();
        patrons.get(7).await.unwrap().unwrap();
        let commands = db.recorder().commands();
        assert_eq!(commands.len(), 7);
        for command in commands {
            let explained = explained(db, &command).await;
            assert!(!has_stage(&explained, "COLLSCAN"), "{explained}");
            assert_eq!(documents_examined(&explained), 1, "{explained}");
        }
    })
    .await;
}

#[tokio::test]
async fn refused_writes_have_distinct_errors_and_no_effect() {
    testkit::run(async |db| {
        use ErrorKind::{AlreadyExists, ChildNotFound, ChildSetMismatch, LimitReached, NotFound};
        let patrons = patrons(db);
        let full = patron("joe", (0..5).map(address));
        plant(db, &full).await;
        let some = patron("jim", [address(1), address(2)]);
        plant(db, &some).await;
        let none = Vec::<i32>::new();
        let cases = [
            (patrons.add_child("joe", &address(5)).await, LimitReached),
            (patrons.add_child("joe", &address(0)).await, AlreadyExists),
            (patrons.add_child("jim", &address(1.0)).await, AlreadyExists),
            (patrons.add_child("jack", &address(1)).await, NotFound),
            (patrons.replace_child("jack", &address(1)).await.map(drop), NotFound),
            (patrons.replace_child("jim", &address(3)).await.map(drop), ChildNotFound),
            (patrons.remove_child("jack", 1).await.map(drop), NotFound),
            (patrons.update_child("jack", 1, zip()).await.map(drop), NotFound),
            (patrons.update_child("jim", 3, zip()).await.map(drop), ChildNotFound),
            (patrons.reorder_children("jack", [1]).await, NotFound),
            (patrons.reorder_children("jim", [1]).await, ChildSetMismatch),
            (patrons.reorder_children("jim", [1, 3]).await, ChildSetMismatch),
            (patrons.reorder_children("jim", [1, 2, 3]).await, ChildSetMismatch),
            (patrons.reorder_children("jim", none).await, ChildSetMismatch),
        ];
        let calls = cases.len();
        for (number, (refused, kind)) in cases.into_iter().enumerate() {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), kind, "{number}: {error}");
            assert_eq!(error.pattern(), Some("embedded"));
            assert!(!error.is_outcome_unknown() && !error.is_contention());
        }
        assert_eq!(
            db.recorder().names(),
            ["update", "find"].repeat(calls),
            "the write, and a read of the reason"
        );
        assert_eq!(support::common::all(&stored(db)).await, [some, full]);
    })
    .await;
}

#[tokio::test]
async fn invalid_arguments_are_refused_before_a_command_is_sent() {
    use ErrorKind::{Encode, InvalidArgument, InvalidItemId, LimitReached};
    testkit::run(async |db| {
        let patrons = patrons(db);
        let mut errors = vec![];
        for id in [
            Bson::Null,
            Bson::Array(vec![1.into()]),
            Bson::MinKey,
            Bson::MaxKey,
            Bson::Undefined,
        ] {
            for error in [
                patrons.get(id.clone()).await.unwrap_err(),
                patrons.child(id.clone(), 1).await.unwrap_err(),
                patrons.add_child(id.clone(), &address(1)).await.unwrap_err(),
                patrons.upsert_child(id.clone(), &address(1)).await.unwrap_err(),
                patrons.insert(&patron(id.clone(), [])).await.unwrap_err(),
            ] {
                errors.push((error, InvalidArgument));
            }
            for error in [
                patrons.child("joe", id.clone()).await.unwrap_err(),
                patrons.add_child("joe", &address(id.clone())).await.unwrap_err(),
                patrons.replace_child("joe", &address(id.clone())).await.unwrap_err(),
                patrons.upsert_child("joe", &address(id.clone())).await.unwrap_err(),
                patrons.remove_child("joe", id.clone()).await.unwrap_err(),
                patrons.update_child("joe", id.clone(), zip()).await.unwrap_err(),
                patrons.reorder_children("joe", [id.clone()]).await.unwrap_err(),
                patrons.insert(&patron("joe", [address(id)])).await.unwrap_err(),
            ] {
                errors.push((error, InvalidItemId));
            }
        }
        let reordered = patrons
            .reorder_children("joe", [Bson::from(1), 2.into(), 1.0.into()])
            .await;
        errors.push((reordered.unwrap_err(), InvalidArgument));
        for child in [doc! {}, address(doc! { "a": Bson::Undefined })] {
            let added = patrons.add_child("joe", &child).await;
            errors.push((added.unwrap_err(), InvalidItemId));
            let upserted = patrons.upsert_child("joe", &child).await;
            errors.push((upserted.unwrap_err(), InvalidItemId));
        }
        for (bad, kind) in [
            (doc! { "_id": "joe", "addresses": Bson::Null }, InvalidArgument),
            (doc! { "_id": "joe", "addresses": "none" }, InvalidArgument),
            (doc! { "_id": "joe", "addresses": [1] }, InvalidArgument),
            (doc! { "_id": "joe", "addresses": {} }, InvalidArgument),
            (patron("joe", [doc! {}]), InvalidItemId),
            (patron("joe", [address(1), address(1_i64)]), InvalidArgument),
            (patron("joe", (0..6).map(address)), LimitReached),
        ] {
            errors.push((patrons.insert(&bad).await.unwrap_err(), kind));
        }
        for (number, (error, kind)) in errors.into_iter().enumerate() {
            assert_eq!(error.kind(), kind, "{number}: {error}");
        }
        let scalars = EmbeddedRepository::<Document, i32>::builder(db.collection::<Document>("patron"))
            .children_field("addresses")
            .build()
            .unwrap();
        assert_refused(scalars.add_child("joe", &1).await, Encode);
        assert_refused(scalars.upsert_child("joe", &1).await, Encode);
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn an_index_of_the_application_is_named_by_the_error() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let index = mongodb::IndexModel::builder().keys(doc! { "addresses.street": 1 });
        let unique = mongodb::options::IndexOptions::builder()
            .unique(true)
            .name("street".to_owned())
            .build();
        stored(db).create_index(index.options(unique).build()).await.unwrap();
        patrons.insert(&patron("joe", [address(1)])).await.unwrap();
        patrons
            .insert(&patron("jim", [doc! { "id": 1, "street": "other" }]))
            .await
            .unwrap();
        for error in [
            patrons.insert(&patron("jack", [address(1)])).await.unwrap_err(),
            patrons.add_child("jim", &address(2)).await.unwrap_err(),
            patrons.replace_child("jim", &address(1)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
            assert!(error.to_string().contains("`street`"), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_parent_without_the_array_gets_one_and_other_values_are_never_overwritten() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &doc! { "_id": "joe" }).await;
        assert!(!patrons.remove_child("joe", 1).await.unwrap().found);
        assert_eq!(
            patrons.reorder_children("joe", [1]).await.unwrap_err().kind(),
            ErrorKind::ChildSetMismatch
        );
        patrons.add_child("joe", &address(1)).await.unwrap();
        assert_eq!(ids(db, "joe").await, [1.into()]);
        for value in [
            Bson::Null,
            "none".into(),
            0.into(),
            doc! { "0": address(1), "id": 1 }.into(),
        ] {
            stored(db).delete_many(doc! {}).await.unwrap();
            plant(db, &doc! { "_id": "joe", "addresses": &value }).await;
            for error in [
                patrons.add_child("joe", &address(1)).await.unwrap_err(),
                patrons.replace_child("joe", &address(1)).await.unwrap_err(),
                patrons.upsert_child("joe", &address(1)).await.unwrap_err(),
                patrons.update_child("joe", 1, zip()).await.unwrap_err(),
                patrons.remove_child("joe", 1).await.unwrap_err(),
                patrons.reorder_children("joe", [1]).await.unwrap_err(),
                patrons.reorder_children("joe", Vec::<i32>::new()).await.unwrap_err(),
            ] {
                assert!(error.is_corrupt(), "{value}: {error}");
                assert_eq!(error.document_id(), Some(&"joe".into()));
                assert_eq!(error.field(), Some("addresses"));
            }
            assert_eq!(addresses(db, "joe").await, Some(value));
        }
    })
    .await;
}

#[tokio::test]
async fn a_write_that_would_exceed_16_mib_leaves_the_parent_unchanged() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [address(1)])).await;
        let large = |id: i32| doc! { "id": id, "text": "x".repeat(9_000_000) };
        patrons.add_child("joe", &large(2)).await.unwrap();
        for error in [
            patrons.add_child("joe", &large(3)).await.unwrap_err(),
            patrons.replace_child("joe", &large(1)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        }
        assert_eq!(ids(db, "joe").await, [1.into(), 2.into()]);
    })
    .await;
}
