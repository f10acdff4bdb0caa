//! What one process does: the order, the record, the commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mongo_patterns::schema::Migrations;
use mongo_patterns::schema::migrations::Applied;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::{DatabaseOptions, ReadPreference, SelectionCriteria, WriteConcern};

use support::common::until_seen;
use support::schema::steps::*;

#[tokio::test]
async fn a_start_with_nothing_to_do_is_one_round_trip() {
    testkit::run(async |db| {
        let of = || in_transaction(list(db.database(), &["a"]), "b");
        db.recorder().clear();
        of().run().await.unwrap();
        let expected = [
            "find hello findAndModify findAndModify", // read, check, acquire, claim
            "insert update",                          // a
            "insert update commitTransaction",        // b
            "update",                                 // release
        ];
        assert_eq!(db.recorder().names().join(" "), expected.join(" "));

        db.recorder().clear();
        assert_eq!(of().run().await.unwrap(), Applied::default());
        assert_eq!(db.recorder().names(), ["find"]);

        db.recorder().clear();
        of().status().await.unwrap();
        assert_eq!(db.recorder().names(), ["find"]);
    })
    .await;
}

#[tokio::test]
async fn the_stored_form() {
    testkit::run(async |db| {
        // The step of the documentation.
        let migrations = Migrations::new(db.database()).step("2026-11-25 email index", async |database| {
            let index = IndexModel::builder().keys(doc! { "email": 1 }).build();
            database.collection::<Document>("users").create_index(index).await?;
            Ok(())
        });
        migrations.list("billing").run().await.unwrap();
        let users = db.plain_collection::<Document>("users");
        assert_eq!(users.list_index_names().await.unwrap(), ["_id_", "email_1"]);
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let find = async |kind: &str, name: &str| {
            let id = doc! { "kind": kind, "name": name };
            catalog.find_one(doc! { "_id": id }).await.unwrap().unwrap()
        };
        let record = find("steps", "billing").await;
        assert_eq!(record.keys().collect::<Vec<_>>(), ["_id", "fence", "steps"]);
        let step = record.get_array("steps").unwrap()[0].as_document().unwrap();
        assert_eq!(step.keys().collect::<Vec<_>>(), ["name", "applied"]);
        assert_eq!(step.get_str("name").unwrap(), "2026-11-25 email index");
        assert!(step.get_datetime("applied").is_ok());
        let lease = find("lease", "steps/billing").await;
        assert_eq!(lease.keys().collect::<Vec<_>>(), ["_id", "fence", "until"]);
        assert_eq!(lease.get_i64("fence").unwrap(), record.get_i64("fence").unwrap());
    })
    .await;
}

#[tokio::test]
async fn the_status_names_applied_pending_and_unknown_steps() {
    testkit::run(async |db| {
        list(db.database(), &["a", "b", "c"]).run().await.unwrap();
        let status = list(db.database(), &["c", "d"]).status().await.unwrap();
        let applied: Vec<&str> = status.applied.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(applied, ["a", "b", "c"]);
        assert!(status.applied.is_sorted_by_key(|step| step.applied));
        assert_eq!([status.pending.join(" "), status.unknown.join(" ")], ["d", "a b"]);
        assert_eq!(status.running_since, None);

        let seen = Arc::new(AtomicU32::new(0));
        let in_step = seen.clone();
        let migrations = Migrations::new(db.database()).step("c", async |_| Ok(()));
        let migrations = migrations.step("d", async move |database| {
            let status = Migrations::new(&database).status().await?;
            in_step.store(u32::from(status.running_since.is_some()), Ordering::Relaxed);
            Ok(())
        });
        migrations.run().await.unwrap();
        assert_eq!(seen.load(Ordering::Relaxed), 1);
    })
    .await;
}

#[tokio::test]
async fn a_failed_step_is_named_and_runs_again_and_earlier_steps_stay() {
    testkit::run(async |db| {
        let of = |fails: bool| {
            let list = list(db.database(), &["a"]).step("b", async move |database| {
                trace(&database, "b").await?;
                let error = Error::new(ErrorKind::NotFound, "the file of exchange rates does not exist");
                if fails { Err(error) } else { Ok(()) }
            });
            plain(list, "c")
        };
        let error = of(true).run().await.unwrap_err();
        assert_error(&error, ErrorKind::NotFound, Some("b"));
        let text = error.to_string();
        assert!(text.contains("exchange rates does not exist (step `b`)"), "{text}");
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(json["code"], "not-found");
        assert_eq!(json["step"], "b");
        assert_eq!(recorded(db).await, ["a"]);
        // The lease is released: nothing waits for its end.
        let applied = of(false).max_wait(std::time::Duration::ZERO).run().await.unwrap();
        assert_eq!(applied.steps, ["b", "c"]);
        assert_eq!(traces(db).await, ["a", "b", "b", "c"]);
    })
    .await;
}

#[tokio::test]
async fn a_failed_step_in_a_transaction_has_no_effect() {
    testkit::run(async |db| {
        until_seen(db, &["trace"]).await;
        let migrations = Migrations::new(db.database()).step_in_transaction("a", async |database, session| {
            trace_in(&database, session, "a").await?;
            let trace = database.collection::<Document>("trace");
            trace.insert_one(doc! { "_id": 1 }).session(&mut *session).await?;
            trace.insert_one(doc! { "_id": 1 }).session(session).await?;
            Ok(())
        });
        let error = migrations.run().await.unwrap_err();
        assert_error(&error, ErrorKind::DuplicateKey, Some("a"));
        assert!(error.as_driver_error().is_some());
        assert_eq!((traces(db).await, recorded(db).await), (vec![], vec![]));
        // It must not end its transaction.
        let migrations = Migrations::new(db.database()).step_in_transaction("a", async |database, session| {
            trace_in(&database, session, "a").await?;
            session.commit_transaction().await?;
            Ok(())
        });
        let error = migrations.run().await.unwrap_err();
        assert_error(&error, ErrorKind::InvalidArgument, Some("a"));
        let text = error.to_string();
        assert!(text.contains("the transaction of the session was ended"), "{text}");
        assert_eq!(recorded(db).await, [""; 0]);
    })
    .await;
}

/// The server has aborted the transaction after the error, whatever the step returns.
#[tokio::test]
async fn a_step_that_hides_an_error_of_the_server_ends_at_once() {
    testkit::run(async |db| {
        until_seen(db, &["trace"]).await;
        let attempts = Arc::new(AtomicU32::new(0));
        let counted = attempts.clone();
        let migrations = Migrations::new(db.database()).step_in_transaction("a", async move |database, session| {
            counted.fetch_add(1, Ordering::Relaxed);
            let trace = database.collection::<Document>("trace");
            for _ in 0..2 {
                drop(trace.insert_one(doc! { "_id": 1 }).session(&mut *session).await);
            }
            Ok(())
        });
        let error = migrations.run().await.unwrap_err();
        assert_error(&error, ErrorKind::InvalidArgument, Some("a"));
        assert!(error.to_string().contains("aborted the transaction"), "{error}");
        assert_eq!(attempts.load(Ordering::Relaxed), 2);
        assert_eq!((traces(db).await, recorded(db).await), (vec![], vec![]));
        // One that the first attempt alone hides is repeated.
        let first = Arc::new(AtomicU32::new(0));
        let migrations = Migrations::new(db.database()).step_in_transaction("a", async move |database, session| {
            if first.fetch_add(1, Ordering::Relaxed) == 0 {
                let trace = database.collection::<Document>("trace");
                for _ in 0..2 {
                    drop(trace.insert_one(doc! { "_id": 1 }).session(&mut *session).await);
                }
            }
            trace_in(&database, session, "a").await
        });
        migrations.run().await.unwrap();
        assert_eq!([traces(db).await, recorded(db).await], [["a"], ["a"]]);
    })
    .await;
}

#[tokio::test]
async fn a_creation_in_a_transaction_is_unsupported() {
    testkit::run(async |db| {
        until_seen(db, &["trace"]).await;
        let index = || IndexModel::builder().keys(doc! { "step": 1 }).build();
        let of = || Migrations::new(db.database());
        let refused = [
            of().step_in_transaction("a", async |database, session| {
                database.create_collection("new").session(session).await?;
                Ok(())
            }),
            of().step_in_transaction("a", async move |database, session| {
                let new = database.collection::<Document>("new");
                new.create_index(index()).session(session).await?;
                Ok(())
            }),
            of().step_in_transaction("a", async move |database, session| {
                trace_in(&database, session, "a").await?;
                let trace = database.collection::<Document>("trace");
                trace.create_index(index()).session(session).await?;
                Ok(())
            }),
        ];
        for migrations in refused {
            let error = migrations.run().await.unwrap_err();
            assert_error(&error, ErrorKind::Unsupported, Some("a"));
            assert!(error.to_string().contains("step(..)"), "{error}");
        }
        assert_eq!((traces(db).await, recorded(db).await), (vec![], vec![]));
    })
    .await;
}

/// The closure is cloned for each attempt, with what it captures.
#[tokio::test]
async fn a_step_in_a_transaction_runs_again_after_a_conflict() {
    testkit::run(async |db| {
        until_seen(db, &["trace"]).await;
        let attempts = Arc::new(AtomicU32::new(0));
        let (counted, name) = (attempts.clone(), "a".to_owned());
        let migrations = Migrations::new(db.database()).step_in_transaction("a", async move |database, session| {
            counted.fetch_add(1, Ordering::Relaxed);
            trace_in(&database, session, &name).await
        });
        let conflict = FailPoint::on(&["insert"]).times(2).error_code(112);
        let conflict = conflict.error_labels(&["TransientTransactionError"]).enable(db).await;
        migrations.run().await.unwrap();
        conflict.disable().await;
        assert_eq!(attempts.load(Ordering::Relaxed), 3);
        assert_eq!([traces(db).await, recorded(db).await], [["a"], ["a"]]);
    })
    .await;
}

/// Names are values: in filters, in the stored record, and in pipelines.
#[tokio::test]
async fn any_text_is_a_name() {
    testkit::run(async |db| {
        let long = "x".repeat(100_000);
        let mut names: Vec<&str> = "$$ROOT $set a.b . été🦀 {\"$gt\":1} `b`".split(' ').collect();
        names.extend([" ", "nul \0 byte", &long]);
        let of = || {
            names.iter().fold(Migrations::new(db.database()), |list, name| {
                list.step(*name, async |_| Ok(())).list("$$NOW.\0 {}")
            })
        };
        assert_eq!(of().run().await.unwrap().steps, names);
        assert_eq!(recorded(db).await, names);
        assert_eq!(of().run().await.unwrap(), Applied::default());
        let other = list(db.database(), &["a"]).run().await.unwrap();
        assert_eq!(
            (other.steps.join(" "), other.unknown.len()),
            ("a".into(), 0),
            "of another list"
        );
    })
    .await;
}

/// A write that is rolled back after the record of its step would be lost for ever.
#[tokio::test]
async fn a_plain_step_writes_for_a_majority() {
    testkit::run(async |db| {
        let secondary = ReadPreference::SecondaryPreferred { options: None };
        let one = DatabaseOptions::builder()
            .write_concern(WriteConcern::nodes(1))
            .selection_criteria(SelectionCriteria::ReadPreference(secondary))
            .build();
        let database = db.client().database_with_options(db.database().name(), one);
        list(&database, &["a"]).run().await.unwrap();
        let commands = db.recorder().commands();
        let insert = commands.iter().find(|sent| sent.name == "insert").unwrap();
        let written = insert.command.get_document("writeConcern").unwrap();
        assert_eq!(written, &doc! { "w": "majority" });
        let record = commands.iter().find(|sent| sent.name == "find").unwrap();
        if let Ok(preference) = record.command.get_document("$readPreference") {
            assert_eq!(preference, &doc! { "mode": "primary" });
        }
    })
    .await;
}
