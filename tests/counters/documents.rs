//! The documents that a flush writes.

use mongo_patterns::ErrorKind;
use mongo_patterns::counters::{Counters, Flushed};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, Uuid, doc};
use mongodb::options::{Acknowledgment, Collation, CollectionOptions, WriteConcern};

use super::support::*;
use support::common::until;

#[tokio::test]
async fn a_flush_adds_to_stored_counts() {
    testkit::run(async |db| {
        let articles = articles(db);
        let existing = [
            doc! { "_id": 1, "title": "One", "views": 5 },
            doc! { "_id": 2, "views": 5.5 },
            doc! { "_id": 3, "views": null },
            doc! { "_id": 4 },
        ];
        articles.insert_many(existing).await.unwrap();
        let views = views(db);
        for id in 1..=5 {
            views.add(id, 2).unwrap();
        }
        views.add(1, -1).unwrap();
        assert_eq!(db.recorder().names(), Vec::<String>::new());
        let before = DateTime::now();
        let flushed = views.flush().await.unwrap();
        assert_eq!((flushed.documents, flushed.missing), (5, 0));
        assert_eq!(db.recorder().names(), ["update"]);
        let mut one = stored(db, 1).await.unwrap();
        let batches = one.remove("views_batches").unwrap();
        assert_eq!(one, doc! { "_id": 1, "title": "One", "views": 6_i64 });
        let batches = batches.as_array().unwrap();
        let batch = batches[0].as_document().unwrap();
        assert!(batches.len() == 1 && batch.len() == 4, "{batch}");
        assert!(batch.get_object_id("w").is_ok() && batch.get_i64("n").unwrap() == 1);
        // Both clocks are those of this machine.
        let at = *batch.get_datetime("at").unwrap();
        assert!(before <= at && at <= DateTime::now(), "{before} {at}");
        let two = stored(db, 2).await.unwrap();
        assert_eq!(two.get_f64("views").unwrap(), 7.5);
        for id in 3..=5 {
            assert_eq!(count(db, id).await, 2);
        }
        // Nothing to add is no command.
        db.recorder().clear();
        views.add(1, 0).unwrap();
        assert_eq!(views.flush().await.unwrap().documents, 0);
        assert_eq!(db.recorder().names(), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_document_that_was_deleted_is_not_inserted_again_unless_asked() {
    testkit::run(async |db| {
        articles(db)
            .insert_many([1, 2].map(|id| doc! { "_id": id }))
            .await
            .unwrap();
        let views = of_existing(db).build().unwrap();
        for id in 1..=3 {
            views.add(id, 2).unwrap();
        }
        articles(db).delete_one(doc! { "_id": 2 }).await.unwrap();
        let flushed = views.flush().await.unwrap();
        assert_eq!((flushed.documents, flushed.missing, flushed.refused), (1, 2, 0));
        assert_eq!(count(db, 1).await, 2);
        assert_eq!(articles(db).count_documents(doc! {}).await.unwrap(), 1);
        assert_eq!(views.flush().await.unwrap().documents, 0);
    })
    .await;
}

#[tokio::test]
async fn ids_are_values_and_equal_numbers_are_one() {
    testkit::run(async |db| {
        let views = views(db);
        let ids: [Bson; 7] = [
            doc! { "page": "/", "day": DateTime::from_millis(0) }.into(),
            "$views".into(),
            "a.b".into(),
            "".into(),
            ObjectId::new().into(),
            Uuid::new().into(),
            false.into(),
        ];
        for id in &ids {
            views.add(id.clone(), 3).unwrap();
        }
        for equal in [Bson::from(7), 7_i64.into(), 7.0.into()] {
            views.add(equal, 1).unwrap();
        }
        assert_eq!(views.flush().await.unwrap().documents, 8);
        for id in &ids {
            assert_eq!(count(db, id.clone()).await, 3);
        }
        assert_eq!(count(db, 7).await, 3);
        assert_eq!(articles(db).count_documents(doc! {}).await.unwrap(), 8);
        let nested = |levels| (0..levels).fold(Bson::from(1), |id, _| doc! { "a": id }.into());
        for invalid in [
            Bson::Null,
            Bson::Array(vec![]),
            "x".repeat(8_001).into(),
            nested(101),
            doc! { "a\0b": 1 }.into(),
            doc! { "$gt": "" }.into(),
            doc! { "a": { "$where": "1" } }.into(),
        ] {
            assert_eq!(views.add(invalid, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        views.add(nested(100), 1).unwrap();
        assert_eq!(views.flush().await.unwrap().documents, 1);
        for n in 0..1000 {
            views.add(format!("{n}{}", "x".repeat(7_900)), 1).unwrap();
        }
        assert_eq!(views.flush().await.unwrap().documents, 1000);
    })
    .await;
}

/// Two counts of one batch that the server takes for those of one document.
#[tokio::test]
async fn ids_that_only_the_server_takes_for_one_are_both_counted() {
    testkit::run(async |db| {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        let equal: [[Bson; 2]; 4] = [
            [10_000_000_000_000_000_i64.into(), 1e16.into()],
            [decimal("0.5"), 0.5.into()],
            ["1.0", "1"].map(|one| doc! { "a": [decimal(one)] }.into()),
            ["x".into(), Bson::Symbol("x".into())],
        ];
        let views = impatient(db);
        let mut expected = 0;
        for fails in [false, true] {
            for [one, other] in &equal {
                views.add(one.clone(), 3).unwrap();
                views.add(other.clone(), 4).unwrap();
            }
            if fails {
                let fault = FailPoint::on(&["update"]).times(1).write_concern_error(64);
                let fault = fault.enable(db).await;
                views.flush().await.unwrap_err();
                fault.disable().await;
            }
            views.flush().await.unwrap();
            expected += 7;
            for [one, _] in &equal {
                assert_eq!(count(db, one.clone()).await, expected, "{one}");
            }
        }
        assert_eq!(articles(db).count_documents(doc! {}).await.unwrap(), 4);
    })
    .await;
}

/// An index that has the collation of the collection finds them.
#[tokio::test]
async fn ids_that_the_collation_takes_for_one_are_one() {
    testkit::run(async |db| {
        let collation = Collation::builder()
            .locale("en")
            .strength(mongodb::options::CollationStrength::Primary);
        let database = db.plain_client().database(db.database().name());
        let create = database.create_collection("articles");
        create.collation(collation.build()).await.unwrap();
        let views = views(db);
        for (id, number) in [("a", 2), ("A", 3), ("b", 4)] {
            views.add(id, number).unwrap();
        }
        assert_eq!(views.flush().await.unwrap().documents, 3);
        assert_eq!((count(db, "a").await, count(db, "B").await), (5, 4));
        let mut command = db.recorder().last().unwrap().command;
        let statement = command.remove("updates").unwrap().as_array().unwrap()[0].clone();
        let update = doc! { "update": "articles", "updates": [statement] };
        let explain = doc! { "explain": update, "verbosity": "executionStats" };
        let explained = database.run_command(explain).await.unwrap();
        let stats = explained.get_document("executionStats").unwrap();
        for examined in ["totalDocsExamined", "totalKeysExamined"] {
            assert_eq!(stats.get_i32(examined).unwrap(), 1, "{examined}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_document_that_refuses_its_count_does_not_affect_others() {
    testkit::run(async |db| {
        let damaged = [
            doc! { "_id": 1, "views": "many" },
            doc! { "_id": 2, "views": DateTime::from_millis(0) },
            doc! { "_id": 3, "views": [1] },
            doc! { "_id": 5, "views_batches": "mine" },
        ];
        articles(db).insert_many(damaged.clone()).await.unwrap();
        let views = views(db);
        for id in 1..=5 {
            views.add(id, 2).unwrap();
        }
        for number in 1..=2 {
            let error = views.flush().await.unwrap_err();
            let id = error.document_id().unwrap().as_i32().unwrap();
            assert!([1, 2, 3, 5].contains(&id), "{error:?}");
            assert_eq!((error.field(), error.stored_count()), (Some("views"), Some(1)));
            assert!(!error.is_outcome_unknown() && !error.is_transient(), "{error:?}");
            assert_eq!(count(db, 4).await, 2 * number);
            for damaged in &damaged {
                let id = damaged.get_i32("_id").unwrap();
                assert_eq!(stored(db, id).await.as_ref(), Some(damaged));
            }
            views.add(4, 2).unwrap();
        }
        let unset = doc! { "$unset": { "views": "", "views_batches": "" } };
        articles(db).update_many(doc! {}, unset).await.unwrap();
        views.add(1, 5).unwrap();
        assert_eq!(views.flush().await.unwrap().documents, 5);
        for (id, expected) in [(1, 7), (2, 2), (3, 2), (5, 2)] {
            assert_eq!(count(db, id).await, expected);
        }
    })
    .await;
}

/// It reports the document with each flush, and fails only when the process would lose its count.
#[tokio::test]
async fn a_run_continues_beside_a_document_that_refuses_its_count() {
    testkit::run(async |db| {
        articles(db)
            .insert_one(doc! { "_id": 1, "views": "many" })
            .await
            .unwrap();
        let interval = std::time::Duration::from_millis(10);
        let views = builder(db).interval(interval).build().unwrap();
        views.add(1, 5).unwrap();
        let reported = std::sync::Mutex::new(Vec::new());
        let report = |flushed: Flushed, error: Option<&mongo_patterns::Error>| {
            let id = error.and_then(|error| error.document_id().cloned());
            reported.lock().unwrap().push((flushed.documents, flushed.refused, id));
        };
        let is_counted = async || {
            views.add(2, 1).unwrap();
            reported.lock().unwrap().iter().filter(|one| one.0 == 1).count() >= 3
        };
        let (end, ends) = tokio::sync::oneshot::channel::<()>();
        let run = views.run().on_flush(report).until(async move { ends.await.unwrap() });
        let (ran, ()) = futures::join!(run.into_future(), async {
            until("three flushes of the other one", is_counted).await;
            end.send(()).unwrap();
        });
        let error = ran.unwrap_err();
        assert_eq!(error.document_id(), Some(&1.into()));
        for (_, refused, id) in reported.lock().unwrap().iter() {
            assert_eq!((*refused, id.as_ref()), (1, Some(&1.into())));
        }
        articles(db)
            .update_one(doc! { "_id": 1 }, doc! { "$set": { "views": 1 } })
            .await
            .unwrap();
        views.run().until(std::future::ready(())).await.unwrap();
        assert_eq!(count(db, 1).await, 6);
    })
    .await;
}

#[tokio::test]
async fn numbers_of_old_batches_are_removed() {
    testkit::run(async |db| {
        let entry = |minutes: i64| {
            let at = DateTime::from_millis(DateTime::now().timestamp_millis() - minutes * 60_000);
            doc! { "w": ObjectId::new(), "n": 7_i64, "at": at }
        };
        let (old, recent) = (entry(61), entry(55));
        let article = doc! { "_id": 1, "views": 1_i64, "views_batches": [old, recent.clone()] };
        articles(db).insert_one(article).await.unwrap();
        let views = views(db);
        for _ in 0..3 {
            views.add(1, 1).unwrap();
            views.flush().await.unwrap();
        }
        let article = stored(db, 1).await.unwrap();
        let batches = article.get_array("views_batches").unwrap();
        assert_eq!(batches.len(), 2);
        assert_eq!(batches[0], recent.into());
        let own = batches[1].as_document().unwrap();
        assert_eq!(own.get_i64("n").unwrap(), 3);
        assert_eq!(count(db, 1).await, 4);
    })
    .await;
}

#[tokio::test]
async fn wrong_settings_are_refused() {
    testkit::run(async |db| {
        let unconfirmed = WriteConcern::builder().w(Acknowledgment::Nodes(0)).build();
        let unconfirmed = CollectionOptions::builder().write_concern(unconfirmed).build();
        let database = db.database();
        let unconfirmed = database.collection_with_options::<Document>("articles", unconfirmed);
        for builder in [
            Counters::builder(db.collection::<Document>("articles")),
            builder(db).field("_id"),
            builder(db).field("a.b"),
            builder(db).field("$a"),
            builder(db).interval(std::time::Duration::ZERO),
            Counters::builder(unconfirmed).field("views"),
        ] {
            assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::Configuration);
        }
        assert!(!format!("{:?}", views(db)).contains("views"));
    })
    .await;
}
