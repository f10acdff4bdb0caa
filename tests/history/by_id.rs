//! Documents whose id is their `_id`.

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::history::Problem;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use support::common::{all, create_validated};
use support::history::*;

async fn policies_by_id(db: &TestDatabase) -> Policies {
    ready(db, by_id(db.database())).await
}

async fn copies_by_id(db: &TestDatabase, id: impl Into<Bson>) -> Vec<Document> {
    copies_with(db, "documentId", id).await
}

#[tokio::test]
async fn the_revisions_have_the_id_in_a_field_of_their_own() {
    testkit::run(async |db| {
        let policies = policies_by_id(db).await;
        policies.insert(&policy_by_id(1)).await.unwrap();
        let updated = policies.update(1, push("watch")).await.unwrap();
        let now = all(&current(db)).await;
        let expected = doc! {
            "_id": 1, "customerName": "Michelle", "itemsInsured": ["watch"], "revision": 2, "dateSet": updated.time,
        };
        assert_eq!(now, std::slice::from_ref(&expected));
        let copies = copies_by_id(db, 1).await;
        let mut copied = doc! { "_id": copies[1].get_object_id("_id").unwrap(), "documentId": 1 };
        copied.extend(without_id(&expected));
        assert_eq!(copies[1], copied);
        assert_eq!(copies.len(), 2);
        // Reads return the document as it was.
        assert_eq!(policies.get(1).await.unwrap().unwrap().document, expected);
        let as_of = policies.as_of(1, DateTime::MAX).await.unwrap().unwrap();
        assert_eq!(as_of.document, Some(expected));
        let first = policies.at(1, 1).await.unwrap().unwrap().document.unwrap();
        assert_eq!(
            first.keys().collect::<Vec<_>>(),
            ["_id", "customerName", "itemsInsured", "revision", "dateSet"]
        );
        assert_eq!(policies.diff(1, 1, 2).await.unwrap().changes.len(), 1);
        let streamed: Vec<_> = policies.revisions(1).limit(1).stream().try_collect().await.unwrap();
        assert!(
            streamed
                .iter()
                .all(|of| of.document.as_ref().unwrap().get("_id") == Some(&1.into()))
        );
        // The document of a read can be written again.
        assert_eq!(policies.replace(1, &first).await.unwrap().revision, 3);
        assert_eq!(policies.delete(1).await.unwrap().revision, Some(4));
        let tombstone = &copies_by_id(db, 1).await[3];
        let names: Vec<&String> = tombstone.keys().collect();
        assert_eq!(names, ["_id", "documentId", "revision", "dateSet", "deleted"]);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn the_set_up_creates_the_collection_and_no_further_index() {
    testkit::run(async |db| {
        let policies = by_id(db.database()).build().unwrap();
        let error = policies.insert(&policy_by_id(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing);
        let created = policies.ensure_indexes().await.unwrap().created;
        let indexes = ["documentId_1_revision_1", "documentId_1_dateSet_1_revision_1", "_id_"];
        for index in indexes {
            assert!(created.iter().any(|created| created == index), "{created:?}");
        }
        assert_eq!(created.len(), 3);
        let again = policies.ensure_indexes().await.unwrap();
        assert_eq!((again.created.len(), again.existing.len()), (0, 3));
        assert_eq!(current(db).list_index_names().await.unwrap(), ["_id_"]);
        policies.insert(&policy_by_id(1)).await.unwrap();
        // Other settings are those of other documents.
        for other in [builder(db.database()), by_id(db.database()).document_id_field("policy")] {
            let error = other.build().unwrap().ensure_indexes().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
        }
        let [now, history] = ["contracts", "contractRevisions"].map(|name| db.collection::<Document>(name));
        let contracts = Policies::builder(now, history.clone())
            .id_field("_id")
            .document_id_field("contract");
        let contracts = contracts.build().unwrap();
        contracts.ensure_indexes().await.unwrap();
        contracts.insert(&doc! { "_id": 1, "documentId": 5 }).await.unwrap();
        let copy = history.find_one(doc! { "contract": 1 }).await.unwrap().unwrap();
        assert_eq!(copy.get_i32("documentId").unwrap(), 5);
        assert_eq!(findings(&contracts).await, []);
    })
    .await;
}

#[tokio::test]
async fn invalid_input_is_refused_and_has_no_effect() {
    testkit::run(async |db| {
        let policies = policies_by_id(db).await;
        policies.insert(&policy_by_id(1)).await.unwrap();
        let before = contents(db).await;
        db.recorder().clear();
        let documents = [
            doc! { "customerName": "Michelle" },
            doc! { "_id": Bson::Null },
            doc! { "_id": [1] },
            doc! { "_id": Bson::MaxKey },
            doc! { "_id": 2, "documentId": 2 },
            doc! { "_id": 2, "deleted": false },
        ];
        for document in documents {
            for error in [
                policies.insert(&document).await.unwrap_err(),
                policies.insert_many(std::slice::from_ref(&document)).await.unwrap_err(),
                policies.upsert(&document).await.unwrap_err(),
                policies.replace(2, &document).await.unwrap_err(),
            ] {
                assert!(error.is_invalid_input(), "{document}: {error:?}");
            }
        }
        let error = policies.replace(1, &policy_by_id(2)).await.unwrap_err();
        assert!(error.is_invalid_input(), "{error:?}");
        let update = doc! { "$push": { "documentId.parts": 1 } };
        assert!(policies.update(1, update).await.unwrap_err().is_invalid_input());
        assert_eq!(db.recorder().round_trips(), 0);
        // The server refuses an `_id` with operators.
        let operator = [policy_by_id(doc! { "$gt": 1 })];
        for error in [
            policies.insert(&operator[0]).await.unwrap_err(),
            policies.insert_many(&operator).await.unwrap_err(),
            policies.upsert(&operator[0]).await.unwrap_err(),
        ] {
            assert!(error.is_invalid_input(), "{error:?}");
        }
        assert_eq!(policies.get(doc! { "$gt": 0 }).await.unwrap(), None);
        assert!(!policies.delete(doc! { "$gt": 0 }).await.unwrap().found);
        let exists = policies.insert(&policy_by_id(1.0)).await.unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        let many = [policy_by_id(2), policy_by_id(1_i64)];
        let exists = policies.insert_many(&many).await.unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        assert_eq!(contents(db).await, before);
    })
    .await;
}

#[tokio::test]
async fn ids_are_values_of_any_type() {
    testkit::run(async |db| {
        let policies = policies_by_id(db).await;
        let ids: [Bson; 6] = [
            "$name".into(),
            "1".into(),
            1.into(),
            doc! { "shop": 1, "n": "a.b" }.into(),
            ObjectId::new().into(),
            true.into(),
        ];
        let documents = ids.clone().map(policy_by_id);
        policies.insert_many(&documents).await.unwrap();
        for id in ids {
            assert_eq!(policies.update(id.clone(), push("a")).await.unwrap().revision, 2);
            assert_eq!(policies.upsert(&policy_by_id(id.clone())).await.unwrap().revision, 3);
            assert_eq!(policies.delete(id.clone()).await.unwrap().revision, Some(4));
            assert_eq!(policies.restore(id.clone(), 2).await.unwrap().revision, 5);
            let now = policies.get(id.clone()).await.unwrap().unwrap().document;
            assert_eq!((now.get("_id"), items(&now).len()), (Some(&id), 1));
            assert_eq!(policies.revisions(id.clone()).page().await.unwrap().items.len(), 5);
            assert_eq!(copies_by_id(db, id.clone()).await.len(), 5);
        }
        assert_eq!(findings(&policies).await, []);
        // Equal numbers are one id, and a restored document has the type that it had.
        assert_eq!(policies.delete(1_i64).await.unwrap().revision, Some(6));
        assert_eq!(policies.restore(1.0, 5).await.unwrap().revision, 7);
        let now = policies.get(1_i64).await.unwrap().unwrap().document;
        assert_eq!(now.get("_id"), Some(&Bson::Int32(1)));
        policies.delete(1).await.unwrap();
        assert_eq!(policies.upsert(&policy_by_id(1.0)).await.unwrap().revision, 9);
        let now = policies.get(1).await.unwrap().unwrap().document;
        assert_eq!(now.get("_id"), Some(&Bson::Double(1.0)));
        assert_eq!(policies.revisions(1).page().await.unwrap().items.len(), 9);
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn what_other_programs_wrote_is_found_and_repaired() {
    testkit::run(async |db| {
        let policies = policies_by_id(db).await;
        policies.insert_many(&[1, 2, 3, 4].map(policy_by_id)).await.unwrap();
        let set = |id: i32, field: &str| {
            let (current, update) = (current(db), doc! { "$set": { field: "x" } });
            async move { current.update_one(doc! { "_id": id }, update).await.unwrap() }
        };
        set(1, "customerName").await;
        revisions(db).delete_one(doc! { "documentId": 2 }).await.unwrap();
        set(3, "documentId").await;
        current(db).delete_one(doc! { "_id": 4 }).await.unwrap();
        let found = findings(&policies).await.into_iter();
        let mut found: Vec<(Bson, Problem)> = found.map(|one| (one.document_id, one.problem)).collect();
        found.sort_by_key(|(id, _)| id.as_i32());
        let expected = [
            (1.into(), Problem::Different { revision: 1 }),
            (2.into(), Problem::Unrecorded { revision: 1 }),
            (3.into(), Problem::Invalid),
            (4.into(), Problem::CurrentMissing { revision: 1 }),
        ];
        assert_eq!(found, expected);
        let repaired: Vec<_> = policies.repair().stream().try_collect().await.unwrap();
        let done = repaired.iter().filter(|repaired| repaired.unrepaired.is_none());
        assert_eq!(done.count(), 2);
        let left = findings(&policies).await;
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(copies_by_id(db, 1).await.len(), 2);
        // The field is in no revision, and a write of the whole document removes it.
        policies.update(3, push("a")).await.unwrap();
        assert_eq!(copies_by_id(db, 3).await.len(), 2);
        policies.upsert(&policy_by_id(3)).await.unwrap();
        policies.restore(4, 1).await.unwrap();
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn the_validators_take_the_documents_of_the_repository_alone() {
    testkit::run(async |db| {
        let policies = by_id(db.database()).build().unwrap();
        create_validated(db.database(), &policies).await;
        policies.ensure_indexes().await.unwrap();
        policies.insert(&policy_by_id(1)).await.unwrap();
        policies.update(1, push("a")).await.unwrap();
        policies.delete(1).await.unwrap();
        policies.upsert(&policy_by_id(1)).await.unwrap();
        let set = doc! { "$set": { "documentId": 1 } };
        current(db).update_one(doc! {}, set).await.unwrap_err();
        let unset = doc! { "$unset": { "documentId": "" } };
        revisions(db).update_one(doc! {}, unset).await.unwrap_err();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_lose_and_double_nothing() {
    testkit::run(async |db| {
        let processes = [policies_by_id(db).await, policies_by_id(db).await];
        let writers = (0..12).map(|writer: usize| {
            let policies = processes[writer % 2].clone();
            tokio::spawn(async move {
                let mut written = 0;
                for n in 0..8 {
                    let id = i32::try_from(n % 3).unwrap();
                    let done = match (writer + n) % 4 {
                        0 => policies.insert(&policy_by_id(id)).await,
                        1 => policies.update(id, push(&writer.to_string())).await,
                        2 => policies.upsert(&policy_by_id(id)).await,
                        _ => {
                            let deleted = policies.delete(id).await.unwrap();
                            written += usize::from(deleted.found);
                            continue;
                        }
                    };
                    match done {
                        Ok(_) => written += 1,
                        Err(error) => assert!(
                            matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound),
                            "{error:?}"
                        ),
                    }
                }
                written
            })
        });
        let written: usize = join_all(writers).await.into_iter().map(Result::unwrap).sum();
        assert_eq!(all(&revisions(db)).await.len(), written);
        for id in 0..3 {
            let numbers = copies_by_id(db, id).await;
            let numbers: Vec<i64> = numbers.iter().map(|copy| number(copy, "revision")).collect();
            assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
        }
        assert_eq!(findings(&processes[0]).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_follower_stores_the_writes_of_other_programs() {
    testkit::run(async |db| {
        let policies = policies_by_id(db).await;
        let follow = async || {
            let follow = policies.follow("by id").enable_pre_images();
            follow.run_until_current().await.unwrap().written
        };
        assert_eq!(follow().await, 0);
        let (other, first) = (current(db), || doc! { "_id": 1 });
        let named = |name: &str| doc! { "_id": 1, "customerName": name };
        other.insert_one(named("new")).await.unwrap();
        let rename = doc! { "$set": { "customerName": "renamed", "documentId": "taken" } };
        other.update_one(first(), rename).await.unwrap();
        other.replace_one(first(), named("replaced")).await.unwrap();
        other.delete_one(first()).await.unwrap();
        other.insert_one(named("again")).await.unwrap();
        policies.insert(&policy_by_id("own")).await.unwrap();
        policies.delete("own").await.unwrap();
        assert_eq!(follow().await, 5);
        assert_eq!(follow().await, 0);
        let copies = copies_by_id(db, 1).await;
        let names: Vec<Option<&str>> = copies.iter().map(|copy| copy.get_str("customerName").ok()).collect();
        assert_eq!(
            names,
            [Some("new"), Some("renamed"), Some("replaced"), None, Some("again")]
        );
        assert_eq!(policies.update(1, push("a")).await.unwrap().revision, 6);
        assert_eq!(findings(&policies).await, []);
        let mismatch = by_id(db.database()).document_id_field("policy").build().unwrap();
        let error = mismatch.follow("by id").run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
    })
    .await;
}
