//! Compare-and-set, interrupted between its commands: the next writer, a reader of the history and `repair` complete the
//! change, and no revision is stored ahead of its document.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::history::{Problem, WriteForm};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

use crate::common::support::{all, dropped_commands, quiet};
use crate::history::support::*;

/// The name of the field that marks a document whose copy may be missing.
const MARK: &str = "mongo_patterns_unrecorded";

/// Drops a call when it has sent its first write: the process dies between the change and its copy.
async fn died<T>(db: &TestDatabase, command: usize, call: impl IntoFuture<Output = T>) {
    db.recorder().clear();
    let blocked = FailPoint::on(&[])
        .times(1)
        .block(std::time::Duration::from_millis(1))
        .plan(db, command);
    tokio::select! {
        biased;
        () = db.recorder().sent(command + 1) => {}
        _ = call.into_future() => panic!("the call ended before it was dropped"),
    }
    blocked.met(db, std::time::Duration::from_secs(2)).await;
    blocked.end();
    dropped_commands(db).await;
    quiet(db).await;
}

/// Returns policy 1 at revision 2, whose copy is missing, in a process of its own.
async fn died_in_update(db: &TestDatabase) -> Policies {
    let policies = policies(db, WriteForm::CompareAndSet).await;
    policies.insert(&policy(1)).await.unwrap();
    died(db, 0, policies.update(1, push("watch"))).await;
    assert_eq!(numbers(db, 1).await, [1]);
    let now = all(&current(db)).await;
    assert!(now[0].contains_key(MARK) && number(&now[0], "revision") == 2, "{now:?}");
    // The other process has locks of its own.
    builder(db.database())
        .write_form(WriteForm::CompareAndSet)
        .build()
        .unwrap()
}

async fn is_complete(db: &TestDatabase, policies: &Policies, revisions: std::ops::RangeInclusive<i64>) {
    let now = all(&current(db)).await;
    assert!(now.iter().all(|now| !now.contains_key(MARK)), "{now:?}");
    assert_eq!(numbers(db, 1).await, revisions.collect::<Vec<_>>());
    assert!(copies(db, 1).await.iter().all(|copy| !copy.contains_key(MARK)));
    assert_eq!(findings(policies).await, []);
}

#[tokio::test]
async fn readers_return_the_revision_without_a_copy() {
    testkit::run(async |db| {
        let policies = died_in_update(db).await;
        let now = policies.get(1).await.unwrap().unwrap();
        assert_eq!((items(&now), now.contains_key(MARK)), (vec!["watch".to_owned()], false));
        let at = policies.at(1, 2).await.unwrap().unwrap();
        assert_eq!(policies.as_of(1, DateTime::MAX).await.unwrap().as_ref(), Some(&at));
        assert!(!at.document.clone().unwrap().contains_key(MARK));
        for limit in 1..4 {
            let streamed: Vec<_> = policies.revisions(1).limit(limit).stream().try_collect().await.unwrap();
            assert_eq!(streamed.len(), 2);
            assert_eq!(streamed[1], at);
            let newest_first = policies.revisions(1).newest_first().limit(limit);
            let streamed: Vec<_> = newest_first.stream().try_collect().await.unwrap();
            assert_eq!((streamed.len(), &streamed[0]), (2, &at));
        }
        assert_eq!(policies.diff(1, 1, 2).await.unwrap().changes.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_next_writer_completes_the_change_of_a_process_that_died() {
    testkit::run(async |db| {
        for next in 0..6 {
            let compare_and_set = died_in_update(db).await;
            let with_transactions = builder(db.database()).write_form(WriteForm::Transaction);
            let policies = match next % 2 {
                0 => compare_and_set,
                _ => with_transactions.build().unwrap(),
            };
            match next / 2 {
                0 => assert_eq!(policies.update(1, push("ring")).await.unwrap().revision, 3),
                1 => assert_eq!(policies.replace(1, &policy(1)).expecting(2).await.unwrap().revision, 3),
                _ => assert_eq!(policies.delete(1).await.unwrap().revision, Some(3)),
            }
            is_complete(db, &policies, 1..=3).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_repair_completes_the_change_of_a_process_that_died() {
    testkit::run(async |db| {
        let policies = died_in_update(db).await;
        let found = findings(&policies).await;
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].document_id, &found[0].problem),
            (&1.into(), &Problem::Unrecorded { revision: 2 })
        );
        let repaired: Vec<_> = policies.repair().stream().try_collect().await.unwrap();
        assert!(repaired.len() == 1 && repaired[0].unrepaired.is_none(), "{repaired:?}");
        is_complete(db, &policies, 1..=2).await;
        assert_eq!(policies.update(1, push("ring")).await.unwrap().revision, 3);
    })
    .await;
}

/// Neither the delete nor the insert that follows it is lost or takes a number twice.
#[tokio::test]
async fn an_interrupted_delete_or_insert_is_completed_first() {
    testkit::run(async |db| {
        for by_repair in [false, true] {
            let policies = policies(db, WriteForm::CompareAndSet).await;
            policies.insert(&policy(1)).await.unwrap();
            died(db, 0, policies.delete(1)).await;
            let other = builder(db.database())
                .write_form(WriteForm::CompareAndSet)
                .build()
                .unwrap();
            assert_eq!(other.get(1).await.unwrap(), None, "a tombstone is no document");
            assert_eq!(all(&current(db)).await.len(), 1);
            if by_repair {
                let repaired: Vec<_> = other.repair().stream().try_collect().await.unwrap();
                assert!(
                    repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
                    "{repaired:?}"
                );
                assert_eq!(all(&current(db)).await, Vec::<Document>::new());
            }
            assert_eq!(other.insert(&policy(1)).await.unwrap().revision, 3);
            is_complete(db, &other, 1..=3).await;

            // `find`, then the upsert.
            died(db, 1, other.insert(&policy(2))).await;
            let third = builder(db.database())
                .write_form(WriteForm::CompareAndSet)
                .build()
                .unwrap();
            let exists = third.insert(&policy(2)).await.unwrap_err();
            assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
            assert_eq!(
                numbers(db, 2).await,
                [1],
                "the insert that was refused has completed the other one"
            );
            assert_eq!(findings(&third).await, []);
        }
    })
    .await;
}

/// An insert reads its number, and another process inserts and deletes the document before it stores it.
#[tokio::test]
async fn an_insert_whose_number_was_taken_starts_again() {
    testkit::run(async |db| {
        for form in BOTH {
            let slow = policies(db, form).await;
            slow.insert(&policy(1)).await.unwrap();
            slow.delete(1).await.unwrap();
            let other = builder(&db.plain_client().database(db.database().name())).write_form(form);
            let other = other.build().unwrap();
            db.recorder().clear();
            let read = FailPoint::on(&["findAndModify"])
                .times(1)
                .block(std::time::Duration::from_millis(500));
            let read = read.enable(db).await;
            let mut new = policy(1);
            new.insert("slow", true);
            let (inserted, ()) = futures::join!(slow.insert(&new).into_future(), async {
                db.recorder().sent(2).await;
                other.insert(&policy(1)).await.unwrap();
                other.delete(1).await.unwrap();
                other.prune(1).keep_last(1).await.unwrap();
            });
            read.disable().await;
            assert_eq!(inserted.unwrap().revision, 5, "{form:?}");
            assert_eq!(numbers(db, 1).await, [4, 5]);
            let now = slow.get(1).await.unwrap().unwrap();
            assert!(now.get_bool("slow").unwrap());
            assert_eq!(findings(&slow).await, []);
        }
    })
    .await;
}

/// The change is stored, so an error at its copy does not make it fail.
#[tokio::test]
async fn a_change_whose_copy_fails_is_reported_as_what_it_is() {
    testkit::run(async |db| {
        let policies = policies(db, WriteForm::CompareAndSet).await;
        policies.insert(&policy(1)).await.unwrap();
        for (fault, command) in [(96, "insert"), (96, "update")] {
            let before = number(&policies.get(1).await.unwrap().unwrap(), "revision");
            let refused = FailPoint::on(&[command]).times(1).error_code(fault).enable(db).await;
            let updated = policies.update(1, push("watch")).await;
            refused.disable().await;
            let after = number(&policies.get(1).await.unwrap().unwrap(), "revision");
            assert_eq!(after, before + 1, "{command}");
            match updated {
                Ok(recorded) => assert_eq!(recorded.revision as i64, after),
                Err(error) => assert!(
                    error.stored_count() == Some(1) || error.is_outcome_unknown(),
                    "{error:?}"
                ),
            }
            assert_eq!(
                policies.update(1, push("ring")).await.unwrap().revision as i64,
                after + 1
            );
            assert_eq!(numbers(db, 1).await, (1..=after + 1).collect::<Vec<_>>());
        }
        assert_eq!(findings(&policies).await, []);
    })
    .await;
}
