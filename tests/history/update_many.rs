//! `update_many`: each document of a filter has one revision.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use support::history::*;

fn priced(id: impl Into<Bson>, price: i32) -> Document {
    let mut policy = policy(id);
    policy.insert("price", price);
    policy
}

async fn with_priced(db: &TestDatabase, number: i32) -> Policies {
    let policies = policies(db).await;
    let documents: Vec<Document> = (0..number).map(|id| priced(id, id)).collect();
    policies.insert_many(&documents).await.unwrap();
    db.recorder().clear();
    policies
}

#[tokio::test]
async fn each_document_of_the_filter_has_one_revision() {
    testkit::run(async |db| {
        let policies = with_priced(db, 30).await;
        tick().await;
        let cheap = || doc! { "price": { "$lt": 10 } };
        // An update that keeps the match, and that changes the field of the filter.
        let updated = policies
            .update_many(cheap(), doc! { "$inc": { "price": -1 } })
            .await
            .unwrap();
        assert_eq!((updated.matched, updated.modified), (10, 10));
        let names = db.recorder().names();
        let of = |name: &str| names.iter().filter(|found| *found == name).count();
        assert_eq!(
            (of("aggregate"), of("find"), of("insert"), of("commitTransaction")),
            (1, 1, 10, 10),
            "{names:?}"
        );
        assert_eq!(of("findAndModify"), 10);
        let pipeline = vec![doc! { "$set": { "price": { "$add": ["$price", 100] } } }];
        let updated = policies.update_many(doc! {}, pipeline).await.unwrap();
        assert_eq!((updated.matched, updated.modified), (30, 30));
        let none = policies.update_many(cheap(), push("x")).await.unwrap();
        assert_eq!((none.matched, none.modified), (0, 0));
        for id in 0..30 {
            let revisions: Vec<i64> = if id < 10 { vec![1, 2, 3] } else { vec![1, 2] };
            assert_eq!(numbers(db, id).await, revisions);
            let now = policies.get(id).await.unwrap().unwrap().document;
            assert_eq!(now.get_i32("price").unwrap(), id + 100 - i32::from(id < 10));
        }
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn ids_of_mixed_types_are_updated_once() {
    testkit::run(async |db| {
        let ids: [Bson; 7] = [
            2.into(),
            "2".into(),
            1.5.into(),
            doc! { "$gt": "" }.into(),
            ObjectId::new().into(),
            true.into(),
            "$name".into(),
        ];
        for is_by_id in [false, true] {
            let settings = if is_by_id { by_id } else { builder };
            current(db).drop().await.unwrap();
            revisions(db).drop().await.unwrap();
            let policies = ready(db, settings(db.database())).await;
            let ids = ids.iter().filter(|id| !is_by_id || id.as_document().is_none());
            let document = |id: &Bson| if is_by_id { policy_by_id(id) } else { policy(id) };
            let documents: Vec<Document> = ids.map(document).collect();
            policies.insert_many(&documents).await.unwrap();
            let updated = policies.update_many(doc! {}, push("watch")).await.unwrap();
            assert_eq!(updated.modified, documents.len() as u64);
            let [now, copies] = contents(db).await;
            let is_updated = |now: &Document| number(now, "revision") == 2 && items(now) == ["watch"];
            assert!(now.iter().all(is_updated));
            assert_eq!(copies.len(), 2 * documents.len());
            assert_eq!(findings(&policies).await, []);
        }
    })
    .await;
}

/// Others take documents out of the filter while it runs: those keep what the others wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_does_not_match_any_more_stays_as_it_is() {
    testkit::run(async |db| {
        let policies = with_priced(db, 60).await;
        let other = builder(db.database()).build().unwrap();
        let all_at = || doc! { "price": { "$gte": 0 } };
        let writer = tokio::spawn(async move {
            for id in (0..60).rev().step_by(2) {
                other.update(id, doc! { "$set": { "price": -1 } }).await.unwrap();
            }
        });
        let updated = policies.update_many(all_at(), push("watch")).await.unwrap();
        writer.await.unwrap();
        let mut both = 0;
        for id in 0..60 {
            let copies = copies(db, id).await;
            let numbers: Vec<i64> = copies.iter().map(|copy| number(copy, "revision")).collect();
            assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
            // It was never updated after it had left the filter.
            let prices: Vec<i32> = copies.iter().map(|copy| copy.get_i32("price").unwrap()).collect();
            let pushed: Vec<usize> = copies.iter().map(|copy| items(copy).len()).collect();
            both += pushed.last().unwrap();
            for two in 1..copies.len() {
                assert!(pushed[two] == pushed[two - 1] || prices[two - 1] >= 0, "{copies:?}");
            }
            assert!(*pushed.last().unwrap() <= 1);
        }
        assert_eq!(both as u64, updated.modified);
        assert!(updated.modified >= 30 && updated.matched <= 60, "{updated:?}");
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}

#[tokio::test]
async fn an_error_has_the_document_and_the_number_of_updates() {
    testkit::run(async |db| {
        let policies = with_priced(db, 20).await;
        policies.update(13, doc! { "$set": { "price": "free" } }).await.unwrap();
        let error = policies
            .update_many(doc! {}, doc! { "$inc": { "price": 1 } })
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        assert_eq!(error.document_id(), Some(&13.into()));
        let mut updated = 0;
        for id in 0..20 {
            updated += u64::from(numbers(db, id).await.len() == 2 && id != 13);
        }
        assert_eq!(error.stored_count(), Some(updated));
        assert_eq!(updated, 15, "the documents of four at once, up to that of the error");
        assert!(!error.to_string().contains("free"), "{error}");
        // A document without a revision.
        current(db).insert_one(priced(-5, 7)).await.unwrap();
        let error = policies.update_many(doc! { "price": 7 }, push("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotMigrated, "{error:?}");
        assert_eq!(error.document_id(), Some(&Bson::from(-5)));
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_no_effect() {
    testkit::run(async |db| {
        let policies = with_priced(db, 2).await;
        let before = contents(db).await;
        for filter in [
            doc! { "$nothing": 1 },
            doc! { "price": { "$nothing": 1 } },
            doc! { "$where": "true" },
            doc! { "$text": { "$search": "a" } },
            doc! { "$expr": { "$divide": [1, 0] } },
        ] {
            let shown = filter.to_string();
            let error = policies.update_many(filter, push("x")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{shown}: {error:?}");
        }
        for update in [doc! {}, doc! { "price": 1 }, doc! { "$set": { "policyId": 1 } }] {
            let error = policies.update_many(doc! {}, update).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        let unknown = policies
            .update_many(doc! {}, push("x"))
            .with(doc! { "changedBy": "Ann" });
        assert_eq!(unknown.await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(contents(db).await, before);
    })
    .await;
}

/// A call that is dropped leaves whole updates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_each_document_with_all_of_its_revisions() {
    testkit::run(async |db| {
        let policies = ready(db, builder(db.database()).change_fields(["changedBy"])).await;
        let documents: Vec<Document> = (0..50).map(|id| priced(id, id)).collect();
        policies.insert_many(&documents).await.unwrap();
        // Another client holds a document, so that the call does not end.
        let mut holder = db.plain_client().start_session().await.unwrap();
        holder.start_transaction().await.unwrap();
        let held = current(db);
        let hold = held.update_one(doc! { "policyId": 40 }, doc! { "$set": { "held": true } });
        hold.session(&mut holder).await.unwrap();
        let of_task = policies.clone();
        let call = tokio::spawn(async move {
            let call = of_task.update_many(doc! {}, push("watch"));
            call.with(doc! { "changedBy": "Ann" }).await
        });
        let of_ann = doc! { "changedBy": "Ann" };
        while revisions(db).count_documents(of_ann.clone()).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        drop(call.await);
        holder.abort_transaction().await.unwrap();
        mongo_patterns::drain().await;
        assert_eq!(findings(&policies).await, []);
        let rest = policies.update_many(doc! { "itemsInsured": { "$ne": "watch" } }, push("watch"));
        let rest = rest.with(doc! { "changedBy": "Joe" }).await.unwrap();
        assert!(rest.modified > 0 && rest.modified < 50, "{rest:?}");
        for id in 0..50 {
            assert_eq!(numbers(db, id).await, [1, 2]);
        }
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}
