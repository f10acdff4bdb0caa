//! Ids and values that look like operators, paths or expressions are taken literally.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, Timestamp, doc};

use crate::common::support::{all, create_validated};
use crate::embedded::support::*;

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
