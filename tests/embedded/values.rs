//! Ids and values that look like operators, paths or expressions are taken literally.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, Timestamp, Uuid, doc, oid::ObjectId};

use crate::common::support::{all, create_validated};
use crate::embedded::support::*;

fn ids_of_all_types() -> Vec<Bson> {
    vec![
        "$name".into(),
        "$$ROOT".into(),
        "".into(),
        "a.b".into(),
        0.into(),
        (1_i64 << 60).into(),
        (-1.5).into(),
        f64::NAN.into(),
        false.into(),
        ObjectId::from_bytes([7; 12]).into(),
        Uuid::from_bytes([7; 16]).into(),
        DateTime::from_millis(-1).into(),
        Bson::Timestamp(Timestamp { time: 7, increment: 7 }),
        doc! {}.into(),
        doc! { "a": [1, Bson::Null], "b": { "c": "$name" } }.into(),
    ]
}

#[tokio::test]
async fn ids_of_every_type_match_one_child_and_no_other() {
    testkit::run(async |db| {
        let patrons = builder(db).build().unwrap();
        let ids = ids_of_all_types();
        for (n, id) in ids.iter().enumerate() {
            patrons.insert(&patron(id.clone(), [])).await.unwrap();
            for child in &ids[..=n] {
                patrons.add_child(id.clone(), &address(child.clone())).await.unwrap();
                let upserted = patrons.upsert_child(id.clone(), &address(child.clone())).await;
                assert!(!upserted.unwrap().inserted, "{child}");
                let again = patrons
                    .add_child(id.clone(), &address(child.clone()))
                    .await
                    .unwrap_err();
                assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{child}");
            }
        }
        let parent = ids.last().unwrap();
        for (n, id) in ids.iter().enumerate() {
            let n = i32::try_from(n).unwrap();
            patrons
                .update_child(parent.clone(), id.clone(), doc! { "$set": { "n": n } })
                .await
                .unwrap();
        }
        let reversed: Vec<Bson> = ids.iter().rev().cloned().collect();
        patrons.reorder_children(parent.clone(), reversed).await.unwrap();
        let stored = patrons.get(parent.clone()).await.unwrap().unwrap();
        let order: Vec<i32> = stored
            .get_array("addresses")
            .unwrap()
            .iter()
            .map(|address| address.as_document().unwrap().get_i32("n").unwrap())
            .collect();
        assert_eq!(order, (0..i32::try_from(ids.len()).unwrap()).rev().collect::<Vec<_>>());
        for (left, id) in ids.iter().enumerate().rev() {
            let child = patrons.child(parent.clone(), id.clone()).await.unwrap().unwrap();
            assert_eq!(child.get_i32("n").unwrap(), i32::try_from(left).unwrap());
            assert!(patrons.remove_child(parent.clone(), id.clone()).await.unwrap().found);
            assert_eq!(super::support::ids(db, parent.clone()).await.len(), left);
        }
    })
    .await;
}

#[tokio::test]
async fn an_id_that_looks_like_an_operator_matches_nothing_else() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let joe = patron("joe", [address("a"), address("b")]);
        plant(db, &joe).await;
        for hostile in [
            doc! { "$gt": "" },
            doc! { "$ne": 1 },
            doc! { "$exists": true },
            doc! { "$literal": "a" },
        ] {
            let id = || Bson::from(hostile.clone());
            let kinds = [
                patrons.add_child(id(), &address(1)).await.unwrap_err().kind(),
                patrons.replace_child(id(), &address("a")).await.unwrap_err().kind(),
                patrons
                    .update_child(id(), "a", doc! { "$set": { "zip": 1 } })
                    .await
                    .unwrap_err()
                    .kind(),
                patrons.remove_child(id(), "a").await.unwrap_err().kind(),
                patrons.reorder_children(id(), ["b", "a"]).await.unwrap_err().kind(),
            ];
            assert_eq!(kinds, [ErrorKind::NotFound; 5], "{hostile}");
            let kinds = [
                patrons.replace_child("joe", &address(id())).await.unwrap_err().kind(),
                patrons
                    .update_child("joe", id(), doc! { "$set": { "zip": 1 } })
                    .await
                    .unwrap_err()
                    .kind(),
            ];
            assert_eq!(kinds, [ErrorKind::ChildNotFound; 2], "{hostile}");
            assert!(!patrons.remove_child("joe", id()).await.unwrap().found, "{hostile}");
            let error = patrons.reorder_children("joe", [id(), "a".into()]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ChildSetMismatch);
            assert_eq!(patrons.get(id()).await.unwrap(), None);
            assert_eq!(patrons.child("joe", id()).await.unwrap(), None);
            assert_eq!(all(&stored(db)).await, std::slice::from_ref(&joe));
        }
    })
    .await;
}

#[tokio::test]
async fn children_with_dollars_and_dots_are_stored_literally() {
    testkit::run(async |db| {
        let patrons = builder(db).build().unwrap();
        plant(db, &patron("joe", [])).await;
        let hostile: Vec<Document> = vec![
            doc! { "id": doc! { "$gt": "" }, "$each": [1, 2], "$position": 0 },
            doc! { "$each": [1], "id": "each" },
            doc! { "id": 3, "a.b": 1, "$set": { "name": "$name" } },
            doc! { "id": "$name", "x": "$$ROOT", "deep": { "$literal": [{ "$inc": 1 }] } },
        ];
        let id = |child: &Document| child.get("id").unwrap().clone();
        for child in &hostile {
            patrons.add_child("joe", child).await.unwrap();
            patrons.replace_child("joe", child).await.unwrap();
        }
        let reversed: Vec<Document> = hostile.iter().rev().cloned().collect();
        patrons.reorder_children("joe", reversed.iter().map(id)).await.unwrap();
        assert_eq!(addresses(db, "joe").await, Some(reversed.clone().into()));
        for child in &hostile {
            assert_eq!(patrons.child("joe", id(child)).await.unwrap().as_ref(), Some(child));
            let value = doc! { "$inc": { "a.b": 1 } };
            patrons
                .update_child("joe", id(child), doc! { "$set": { "v": &value } })
                .await
                .unwrap();
            let mut changed = child.clone();
            changed.insert("v", value);
            assert_eq!(patrons.child("joe", id(child)).await.unwrap(), Some(changed));
            assert!(patrons.remove_child("joe", id(child)).await.unwrap().found);
        }
        patrons.insert(&patron("jim", hostile.clone())).await.unwrap();
        assert_eq!(addresses(db, "jim").await, Some(hostile.into()));
    })
    .await;
}

/// In a path, a number is an index of an array, and also a field of its elements.
#[tokio::test]
async fn numeric_field_names_are_not_array_indexes() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let number = doc! { "id": 1, "4": "four", "0": { "id": 9 } };
        plant(db, &patron("joe", [number.clone()])).await;
        let usual = doc! { "_id": "joe", "addresses.4": { "$exists": false } };
        assert_eq!(
            stored(db).count_documents(usual).await.unwrap(),
            0,
            "the usual guard mistakes one child for a full array"
        );
        for id in 2..=5 {
            patrons.add_child("joe", &address(id)).await.unwrap();
        }
        assert_eq!(
            patrons.add_child("joe", &address(6)).await.unwrap_err().kind(),
            ErrorKind::LimitReached
        );
        patrons
            .update_child("joe", 3, doc! { "$set": { "0": "zero" } })
            .await
            .unwrap();
        let child = patrons.child("joe", 3).await.unwrap().unwrap();
        assert_eq!(child.get_str("0").unwrap(), "zero");
        assert_eq!(patrons.child("joe", 1).await.unwrap(), Some(number));
        let error = builder(db).child_id_field("0").build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    })
    .await;
}

/// To a server, these ids are equal in the expressions of an update, and distinct in its filter: one child would be
/// stored twice, and the other lost.
#[tokio::test]
async fn ids_that_are_equal_under_a_collation_lose_no_child() {
    testkit::run(async |db| {
        let collation = mongodb::options::Collation::builder()
            .locale("en")
            .strength(mongodb::options::CollationStrength::Primary);
        let database = db.plain_client().database(db.database().name());
        database
            .create_collection("patron")
            .collation(collation.build())
            .await
            .unwrap();
        let (small, capital) = (doc! { "id": "a", "n": 1 }, doc! { "id": "A", "n": 2 });
        plant(db, &patron("joe", [small.clone(), capital.clone()])).await;
        patrons(db).reorder_children("joe", ["A", "a"]).await.unwrap();
        assert_eq!(addresses(db, "joe").await, Some(vec![capital, small].into()));
    })
    .await;
}

#[tokio::test]
async fn a_parent_that_is_inserted_without_the_array_has_no_children() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        create_validated(&db.plain_client().database(db.database().name()), &patrons).await;
        let inserted = patrons.insert(&doc! { "_id": "joe", "name": "Joe" }).await.unwrap();
        assert_eq!(inserted.id, "joe".into());
        let stored = doc! { "_id": "joe", "name": "Joe", "addresses": [] };
        assert_eq!(patrons.get("joe").await.unwrap(), Some(stored));
        let findings: Vec<_> = patrons.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
        patrons.add_child("joe", &address("home")).await.unwrap();
        assert_eq!(ids(db, "joe").await, ["home".into()]);
        for other in [Bson::Null, "none".into(), doc! {}.into()] {
            let parent = doc! { "_id": "jane", "addresses": other };
            let error = patrons.insert(&parent).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{parent}");
        }
    })
    .await;
}

/// The server accepts values of deprecated types in every command of the pattern.
#[tokio::test]
async fn fields_of_deprecated_types_are_stored_unchanged() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let fields = doc! {
            "undefined": Bson::Undefined,
            "symbol": Bson::Symbol("s".to_owned()),
            "code": Bson::JavaScriptCode("f()".to_owned()),
            "nested": { "undefined": Bson::Undefined },
        };
        let child = |id: &str| {
            let mut child = address(id);
            child.extend(fields.clone());
            child
        };
        let mut parent = patron("joe", [child("home")]);
        parent.extend(fields.clone());
        patrons.insert(&parent).await.unwrap();
        patrons.add_child("joe", &child("work")).await.unwrap();
        patrons.add_child("joe", &address("club")).await.unwrap();
        patrons.replace_child("joe", &child("work")).await.unwrap();
        patrons.upsert_child("joe", &child("work")).await.unwrap();
        patrons
            .update_child("joe", "club", doc! { "$set": fields.clone() })
            .await
            .unwrap();
        patrons.reorder_children("joe", ["club", "work", "home"]).await.unwrap();
        for id in ["home", "work", "club"] {
            assert_eq!(patrons.child("joe", id).await.unwrap(), Some(child(id)), "{id}");
        }
        assert!(patrons.remove_child("joe", "club").await.unwrap().found);
        parent.insert("addresses", vec![child("work"), child("home")]);
        assert_eq!(patrons.get("joe").await.unwrap(), Some(parent));
        for id in [Bson::Undefined, doc! { "a": Bson::Undefined }.into()] {
            let error = patrons.add_child("joe", &address(id)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidItemId);
        }
    })
    .await;
}

/// The server may replace a `Timestamp(0, 0)` by the time of the insert. A child with one becomes a document
/// nevertheless, also in a second migration, unless another field differs.
#[tokio::test]
async fn an_empty_timestamp_becomes_a_reference() {
    testkit::run(async |db| {
        let none = Timestamp { time: 0, increment: 0 };
        let mut stamped = address(1);
        stamped.extend(doc! { "stamp": none, "stamp2": none });
        plant(db, &patron("joe", [stamped, address(2)])).await;
        let target = db.collection::<Document>("address");
        let plain = db.plain_collection::<Document>("address");
        for _ in 0..2 {
            let migrated = patrons(db).migrate_to_references(&target, "patron_id").await.unwrap();
            assert_eq!(migrated.children, 2);
        }
        let change = doc! { "$set": { "street": "another" } };
        plain.update_one(doc! { "id": 1 }, change).await.unwrap();
        let error = patrons(db)
            .migrate_to_references(&target, "patron_id")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TargetNotEmpty, "{error:?}");
    })
    .await;
}
