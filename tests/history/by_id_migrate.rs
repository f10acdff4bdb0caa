//! Existing collections of documents whose id is their `_id`.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, doc};

use support::history::by_id_migrate::*;
use support::history::*;

/// The most frequent adoption: a collection of the application, keyed by `_id`, without a history.
#[tokio::test]
async fn documents_without_a_history_are_migrated() {
    testkit::run(async |db| {
        let ids: [Bson; 5] = [
            1.into(),
            "1".into(),
            2.5.into(),
            ObjectId::new().into(),
            doc! { "shop": 1, "n": 2 }.into(),
        ];
        current(db).insert_many(ids.clone().map(policy_by_id)).await.unwrap();
        let policies = by_id(db.database()).build().unwrap();
        let migrated = policies.migrate_existing().await.unwrap();
        assert_eq!((migrated.documents, migrated.removed_duplicates), (5, 0));
        assert_eq!(
            migrated.created_indexes,
            ["documentId_1_revision_1", "documentId_1_dateSet_1_revision_1"]
        );
        assert_eq!(findings(&policies).await, []);
        for id in ids {
            let copies = copies_with(db, "documentId", id.clone()).await;
            assert_eq!((copies.len(), number(&copies[0], "revision")), (1, 1));
            assert!(copies[0].get_object_id("_id").is_ok());
            let first = policies.at(id.clone(), 1).await.unwrap().unwrap().document.unwrap();
            assert_eq!(first.get("_id"), Some(&id));
            assert_eq!(policies.update(id, push("watch")).await.unwrap().revision, 2);
        }
    })
    .await;
}

/// Revisions that a program has stored with the `_id` of their document in a field of its own.
#[tokio::test]
async fn revisions_with_a_field_of_the_application_are_migrated() {
    testkit::run(async |db| {
        by_the_recipe(db, "policy").await;
        let policies = by_id(db.database()).document_id_field("policy").build().unwrap();
        let migrated = policies.migrate_existing().await.unwrap();
        assert_eq!((migrated.documents, migrated.removed_duplicates), (1, 1));
        assert_eq!(findings(&policies).await, []);
        for (id, expected) in [(1, 2), (2, 2), (3, 1)] {
            assert_eq!(copies_with(db, "policy", id).await.len(), expected);
        }
        assert_eq!(policies.upsert(&policy_by_id(2)).await.unwrap().revision, 3);
    })
    .await;
}

#[tokio::test]
async fn embedded_histories_become_revisions() {
    testkit::run(async |db| {
        let version = |n: i64| doc! { "_id": 7, "customerName": n.to_string(), "dateSet": time(n) };
        let mut now = policy_by_id(1);
        now.insert("versions", vec![version(1), version(2)]);
        current(db).insert_one(&now).await.unwrap();
        let policies = by_id(db.database()).build().unwrap();
        policies.migrate_existing().embedded_versions("versions").await.unwrap();
        let names = policies.revisions(1).page().await.unwrap().items.into_iter();
        let names: Vec<String> = names
            .map(|of| {
                let document = of.document.unwrap();
                assert_eq!(document.get("_id"), Some(&1.into()));
                document.get_str("customerName").unwrap().to_owned()
            })
            .collect();
        assert_eq!(names, ["1", "2", "Michelle"]);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_migrated_is_refused_with_no_effect() {
    testkit::run(async |db| {
        let revision = |id: Bson| doc! { "documentId": id, "revision": 1, "dateSet": time(1) };
        let with = |field: &str, value: Bson| {
            let mut policy = policy_by_id(2);
            policy.insert(field, value);
            policy
        };
        let element = doc! { "dateSet": time(1), "documentId": 5 };
        let refused = [
            (true, with("documentId", 5.into()), false),
            (true, with("documentId", Bson::Null), false),
            (true, policy_by_id(Bson::MinKey), false),
            (true, policy_by_id(Bson::Null), false),
            // Copies of the manual's recipe for such documents, which have lost the id.
            (false, doc! { "revision": 1, "dateSet": time(1) }, false),
            (false, revision(Bson::Null), false),
            (false, revision(vec![Bson::from(1)].into()), false),
            (true, with("versions", vec![element].into()), true),
        ];
        for (is_current, document, is_embedded) in refused {
            current(db).drop().await.unwrap();
            revisions(db).drop().await.unwrap();
            current(db).insert_one(policy_by_id(1)).await.unwrap();
            let collection = if is_current { current(db) } else { revisions(db) };
            collection.insert_one(&document).await.unwrap();
            let before = contents(db).await;
            let policies = by_id(db.database()).build().unwrap();
            let migration = || match is_embedded {
                true => policies.migrate_existing().embedded_versions("versions"),
                false => policies.migrate_existing(),
            };
            for error in [migration().await.unwrap_err(), migration().plan().await.unwrap_err()] {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{document}: {error:?}");
            }
            assert_eq!(contents(db).await, before, "{document}");
        }
    })
    .await;
}
