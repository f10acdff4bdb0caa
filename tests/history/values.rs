//! Builder, ids of any type, and input that is refused with no effect.

use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::options::IndexOptions;
use serde::{Deserialize, Serialize};

use support::common::all;
use support::history::*;

#[tokio::test]
async fn invalid_settings_are_refused() {
    testkit::run(async |db| {
        let collection = |name: &str| db.collection::<Document>(name);
        let elsewhere = db
            .client()
            .database("elsewhere")
            .collection::<Document>("policyRevisions");
        let manual = || builder(db.database());
        let by_id = || by_id(db.database());
        let mut builders = vec![
            Policies::builder(collection("currentPolicies"), collection("policyRevisions")),
            Policies::builder(collection("currentPolicies"), elsewhere).id_field("policyId"),
            manual().revision_field("policyId"),
            manual().time_field("revision"),
            manual().deleted_field("dateSet"),
            manual().revision_field("_id"),
            manual().document_id_field("x"),
            by_id().document_id_field("_id"),
            by_id().document_id_field("revision"),
            by_id().document_id_field("a.b"),
            by_id().revision_field("documentId"),
            by_id().change_fields(["documentId"]),
            manual().change_fields(["a", "a"]),
        ];
        let taken = ["revision", "_id", "a.b", "policyId"].into_iter();
        builders.extend(taken.map(|name| manual().change_fields([name])));
        for builder in builders {
            let shown = format!("{builder:?}");
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{shown}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

#[tokio::test]
async fn invalid_input_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let before = contents(db).await;
        db.recorder().clear();
        let deleted = doc! { "policyId": 2, "deleted": true };
        let (other, without) = (policy(2), doc! { "customerName": "Michelle" });
        let refused = [
            policies.insert(&without).await.unwrap_err(),
            policies.insert(&deleted).await.unwrap_err(),
            policies.upsert(&without).await.unwrap_err(),
            policies.upsert(&deleted).await.unwrap_err(),
            policies.upsert(&policy(vec![1])).await.unwrap_err(),
            policies.replace(1, &other).await.unwrap_err(),
            policies.replace(2, &deleted).await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        let updates = [
            doc! {},
            doc! { "customerName": "Michelle" },
            doc! { "$inc": { "revision": 1 } },
            doc! { "$rename": { "customerName": "policyId" } },
            doc! { "$nothing": { "a": 1 } },
        ];
        for update in updates {
            let shown = update.to_string();
            let error = policies.update(1, update).await.unwrap_err();
            assert!(error.is_invalid_input(), "{shown}: {error:?}");
        }
        let pipeline = vec![doc! { "$set": { "revision": 7 } }];
        assert!(policies.update(1, pipeline).await.unwrap_err().is_invalid_input());
        assert_eq!(db.recorder().round_trips(), 0);
        assert_eq!(contents(db).await, before);
    })
    .await;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    policy_id: i32,
    customer_name: String,
    items_insured: Vec<String>,
}

/// A type does not need the fields of the repository, and a document from a read can be written again.
#[tokio::test]
async fn documents_are_of_the_callers_type() {
    testkit::run(async |db| {
        policies(db).await;
        let [now, history] = ["currentPolicies", "policyRevisions"].map(|name| db.collection::<Document>(name));
        let policies = mongo_patterns::history::HistoryRepository::<Policy>::builder(now, history)
            .id_field("policyId")
            .time_field("dateSet")
            .build()
            .unwrap();
        let mut policy = Policy {
            policy_id: 1,
            customer_name: "Michelle".to_owned(),
            items_insured: vec!["watch".to_owned()],
        };
        policies.insert(&policy).await.unwrap();
        policy.items_insured.push("ring".to_owned());
        policies.replace(1, &policy).expecting(1).await.unwrap();
        assert_eq!(policies.get(1).await.unwrap().unwrap().document, policy);
        let second = policies.at(1, 2).await.unwrap().unwrap();
        assert_eq!(second.document.as_ref(), Some(&policy));

        // A document with the fields of an older revision: the repository writes its own.
        let documents = builder(db.database()).build().unwrap();
        let old = documents.at(1, 1).await.unwrap().unwrap().document.unwrap();
        let replaced = documents.replace(1, &old).await.unwrap();
        assert_eq!(replaced.revision, 3);
        assert!(replaced.time > second.time);
        let mut other = old;
        other.extend(doc! { "_id": "another", "policyId": 1_i64 });
        let upserted = documents.upsert(&other).await.unwrap();
        assert!(upserted.revision == 4 && upserted.time > replaced.time, "{upserted:?}");
        assert_eq!(judge(db, 1).await.different, 0);
        let set = doc! { "$set": { "itemsInsured": 7 } };
        current(db).update_one(doc! {}, set).await.unwrap();
        assert_eq!(policies.get(1).await.unwrap_err().kind(), ErrorKind::Decode);
    })
    .await;
}

/// A document of another program has no revision, so nothing is written to it.
#[tokio::test]
async fn a_document_without_a_revision_is_not_migrated() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        current(db).insert_one(policy(1)).await.unwrap();
        let before = all(&current(db)).await;
        let kinds = [
            policies.update(1, push("watch")).await.unwrap_err().kind(),
            policies.replace(1, &policy(1)).await.unwrap_err().kind(),
            policies.delete(1).await.unwrap_err().kind(),
            policies.upsert(&policy(1)).await.unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::NotMigrated; 4]);
        assert_eq!(
            policies.insert(&policy(1)).await.unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        let now = policies.get(1).await.unwrap().unwrap();
        assert_eq!((now.revision, now.time, &now.document), (0, None, &before[0]));
        assert_eq!(contents(db).await, [before, vec![]]);
        // Nor to one that another program has marked as deleted.
        let mut marked = policy(2);
        marked.extend(doc! { "revision": 1, "dateSet": DateTime::now(), "deleted": true });
        current(db).insert_one(marked).await.unwrap();
        let before = contents(db).await;
        assert_eq!(
            policies.upsert(&policy(2)).await.unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        assert_eq!(contents(db).await, before);
    })
    .await;
}

#[tokio::test]
async fn without_the_indexes_a_write_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        policies(db).await.insert(&policy(1)).await.unwrap();
        for (collection, index) in [(current(db), "policyId_1"), (revisions(db), "policyId_1_revision_1")] {
            policies(db).await;
            collection.drop_index(index).await.unwrap();
            let policies = builder(db.database()).build().unwrap();
            let error = policies.insert(&policy(2)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{index}: {error:?}");
            assert!(
                error.is_setup_error() && error.to_string().contains("ensure_indexes()"),
                "{error}"
            );
            assert!(contents(db).await.iter().all(Vec::is_empty));
        }
    })
    .await;
}

#[tokio::test]
async fn a_large_document_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let half = "x".repeat(9 << 20);
        policies.update(1, doc! { "$set": { "one": &half } }).await.unwrap();
        let error = policies.update(1, doc! { "$set": { "two": &half } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error:?}");
        assert_eq!(numbers(db, 1).await, [1, 2]);
        assert_eq!(policies.update(1, push("watch")).await.unwrap().revision, 3);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

/// The index of an application on the current documents is its own constraint. On the revisions, it is a mistake.
#[tokio::test]
async fn a_unique_index_of_the_application_refuses_with_its_own_error() {
    testkit::run(async |db| {
        let index = |name: &str| {
            let unique = IndexOptions::builder().unique(true).name(name.to_owned()).build();
            IndexModel::builder()
                .keys(doc! { "customerName": 1 })
                .options(unique)
                .build()
        };
        let is_refused = |error: Error| assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
        let policies = unsharded(db).await;
        let ann = |id: i32| doc! { "policyId": id, "customerName": "Ann", "itemsInsured": [] };
        current(db).create_index(index("of_current")).await.unwrap();
        policies.insert(&policy(1)).await.unwrap();
        policies.insert(&ann(2)).await.unwrap();
        is_refused(policies.insert(&ann(3)).await.unwrap_err());
        let rename = doc! { "$set": { "customerName": "Ann" } };
        is_refused(policies.update(1, rename).await.unwrap_err());
        assert_eq!((numbers(db, 1).await, numbers(db, 3).await), (vec![1], vec![]));
        current(db).drop_index("of_current").await.unwrap();

        revisions(db).create_index(index("of_revisions")).await.unwrap();
        let updated = policies.update(1, push("watch")).await;
        let inserted = policies.insert(&ann(4)).await;
        is_refused(updated.unwrap_err());
        is_refused(inserted.unwrap_err());
        assert_eq!(findings(&policies).await, []);
        is_refused(policies.update(1, push("ring")).await.unwrap_err());
        assert_eq!(numbers(db, 1).await, [1]);

        revisions(db).drop_index("of_revisions").await.unwrap();
        policies.update(1, push("ring")).await.unwrap();
        assert_eq!(numbers(db, 1).await, [1, 2]);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}
