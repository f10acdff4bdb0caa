//! Ids and values that look like operators, paths or expressions are taken literally.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};
use mongodb::options::{Collation, CollationStrength};

use support::common::{all, assert_refused, create_validated};
use support::embedded::*;

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
        assert_refused(patrons.add_child("joe", &address(6)).await, ErrorKind::LimitReached);
        let update = doc! { "$set": { "0": "zero" } };
        patrons.update_child("joe", 3, update).await.unwrap();
        let child = patrons.child("joe", 3).await.unwrap().unwrap();
        assert_eq!(child.get_str("0").unwrap(), "zero");
        assert_eq!(patrons.child("joe", 1).await.unwrap(), Some(number));
    })
    .await;
}

/// To a server, these ids are equal, unless the command has a collation: one child would be stored twice, and another one removed.
#[tokio::test]
async fn ids_that_are_equal_under_a_collation_lose_no_child() {
    testkit::run(async |db| {
        let collation = Collation::builder().locale("en").strength(CollationStrength::Primary);
        let database = db.plain_client().database(db.database().name());
        let create = database.create_collection("patron").collation(collation.build());
        create.await.unwrap();
        let child = |id: &str, n: i32| doc! { "id": id, "n": n };
        plant(db, &patron("joe", [child("a", 1)])).await;
        let patrons = patrons(db);
        for (child, inserted) in [(child("A", 2), true), (child("a", 3), false)] {
            let upserted = patrons.upsert_child("joe", &child).await.unwrap();
            assert_eq!(upserted.inserted, inserted, "{child}");
        }
        assert_eq!(
            addresses(db, "joe").await,
            Some(vec![child("a", 3), child("A", 2)].into())
        );
        patrons.reorder_children("joe", ["A", "a"]).await.unwrap();
        assert_eq!(
            addresses(db, "joe").await,
            Some(vec![child("A", 2), child("a", 3)].into())
        );
        assert_eq!(patrons.child("joe", "a").await.unwrap(), Some(child("a", 3)));
        patrons
            .update_child("joe", "a", doc! { "$set": { "n": 4 } })
            .await
            .unwrap();
        patrons.replace_child("joe", &child("A", 5)).await.unwrap();
        patrons.remove_child("joe", "A").await.unwrap();
        assert_eq!(addresses(db, "joe").await, Some(vec![child("a", 4)].into()));
        for missing in [
            patrons
                .update_child("joe", "A", doc! { "$set": { "n": 6 } })
                .await
                .map(drop),
            patrons.replace_child("joe", &child("A", 6)).await.map(drop),
        ] {
            assert_eq!(missing.unwrap_err().kind(), ErrorKind::ChildNotFound);
        }
        assert!(!patrons.remove_child("joe", "A").await.unwrap().found);
        assert_eq!(patrons.child("joe", "A").await.unwrap(), None);
        patrons.add_child("joe", &child("A", 7)).await.unwrap();
        let both = vec![child("a", 4), child("A", 7)];
        assert_eq!(addresses(db, "joe").await, Some(both.into()));
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
        let id = patrons.insert(&doc! { "name": "Jim" }).await.unwrap().id;
        assert!(matches!(id, Bson::ObjectId(_)));
        patrons.add_child(id, &address(1)).await.unwrap();
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
            let zip = || doc! { "$set": { "zip": 1 } };
            for refused in [
                patrons.add_child(id(), &address(1)).await,
                patrons.replace_child(id(), &address("a")).await.map(drop),
                patrons.update_child(id(), "a", zip()).await.map(drop),
                patrons.remove_child(id(), "a").await.map(drop),
                patrons.reorder_children(id(), ["b", "a"]).await,
            ] {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound, "{hostile}");
            }
            for refused in [
                patrons.replace_child("joe", &address(id())).await,
                patrons.update_child("joe", id(), zip()).await,
            ] {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::ChildNotFound, "{hostile}");
            }
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
