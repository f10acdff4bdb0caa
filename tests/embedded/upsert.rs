//! Children that are added or replaced: the manual's attribute pattern.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::{ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::assert_refused;
use support::embedded::*;
use support::explain::{documents_examined, explained, has_stage};

fn other(id: impl Into<Bson>) -> Document {
    doc! { "zip": "54321", "id": id }
}

async fn upsert(db: &TestDatabase, child: &Document) -> bool {
    let upserted = patrons(db).upsert_child("joe", child).await;
    upserted.unwrap().inserted
}

#[tokio::test]
async fn a_child_is_added_or_replaced_by_one_command() {
    testkit::run(async |db| {
        plant(db, &patron("joe", [address("a"), address("b"), address("c")])).await;
        for (child, inserted) in [
            (address("d"), true),
            (address("d"), false),
            (other("b"), false),
            (other("b"), false),
        ] {
            db.recorder().clear();
            assert_eq!(upsert(db, &child).await, inserted, "{child}");
            assert_eq!(db.recorder().names(), ["findAndModify"]);
            let command = &db.recorder().commands()[0];
            let explained = explained(db, command).await;
            assert!(!has_stage(&explained, "COLLSCAN"), "{explained}");
            assert_eq!(documents_examined(&explained), 1, "{explained}");
            let reply = command.reply.clone().unwrap();
            let before = reply.get_document("value").unwrap().get_array("addresses");
            assert!(before.is_ok_and(|before| before.len() == 1) || inserted, "{reply}");
        }
        let expected = vec![address("a"), other("b"), address("c"), address("d")];
        assert_eq!(addresses(db, "joe").await, Some(expected.into()));

        stored(db).insert_one(doc! { "_id": "bare" }).await.unwrap();
        assert!(patrons(db).upsert_child("bare", &address(1)).await.unwrap().inserted);
        assert_eq!(addresses(db, "bare").await, Some(vec![address(1)].into()));
    })
    .await;
}

#[tokio::test]
async fn a_refused_upsert_has_its_reason_and_no_effect() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", (0..5).map(address))).await;
        assert!(!upsert(db, &other(4)).await, "a full parent has its children replaced");
        let stored_before = addresses(db, "joe").await;
        db.recorder().clear();
        for (parent, kind) in [("joe", ErrorKind::LimitReached), ("jack", ErrorKind::NotFound)] {
            let error = patrons.upsert_child(parent, &address(5)).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.is_outcome_unknown() && !error.is_contention());
        }
        assert_eq!(db.recorder().names(), ["findAndModify", "find"].repeat(2));
        assert_eq!(addresses(db, "joe").await, stored_before);
    })
    .await;
}

/// As for the server: 1, 1.0 and a long 1 are one id.
#[tokio::test]
async fn numbers_of_all_types_are_one_id() {
    testkit::run(async |db| {
        plant(db, &patron("joe", [address(-0.0), address(1), address("1")])).await;
        for (child, position) in [(other(1_i64), 1), (other(1.0), 1), (other(0), 0)] {
            assert!(!upsert(db, &child).await, "{child}");
            let stored = array(db, "joe").await;
            assert_eq!((stored.len(), &stored[position]), (3, &child.into()));
        }
        assert!(upsert(db, &address(f64::NAN)).await);
        assert!(!upsert(db, &address(f64::NAN)).await);
        assert!(upsert(db, &address(1.5)).await);
    })
    .await;
}

/// The update finds the child where `child` and `replace_child` find it, also in parents that other programs damaged.
#[tokio::test]
async fn in_a_damaged_parent_it_replaces_the_child_that_the_other_calls_find() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        let nested: Bson = vec![address(1)].into();
        let of = |children: &[Bson]| Bson::Array(children.to_vec());
        let (one, new) = (Bson::from(address(1)), Bson::from(other(1)));
        let in_array = Bson::from(address(vec![0, 1]));
        let two = Bson::from(address(2));
        let many = |first: &Bson| [vec![first.clone()], vec![two.clone(); 8]].concat();
        for (before, after) in [
            (
                of(&[two.clone(), one.clone(), one.clone()]),
                of(&[two.clone(), new.clone(), one.clone()]),
            ),
            (of(&[in_array.clone(), two.clone()]), of(&[new.clone(), two.clone()])),
            (of(&many(&one)), of(&many(&new))),
            (of(&many(&in_array)), of(&many(&new))),
            (
                of(&[nested.clone(), 1.into(), Bson::Null, doc! {}.into()]),
                of(&[nested.clone(), 1.into(), Bson::Null, doc! {}.into(), new.clone()]),
            ),
        ] {
            stored(db).delete_many(doc! {}).await.unwrap();
            plant(db, &doc! { "_id": "joe", "addresses": &before }).await;
            let found = patrons.child("joe", 1).await.unwrap().is_some();
            assert_eq!(upsert(db, &other(1)).await, !found, "{before}");
            assert_eq!(addresses(db, "joe").await, Some(after), "{before}");
        }
        for full in [vec![nested; 5], many(&two)] {
            stored(db).delete_many(doc! {}).await.unwrap();
            plant(db, &doc! { "_id": "joe", "addresses": &full }).await;
            assert_refused(patrons.upsert_child("joe", &other(1)).await, ErrorKind::LimitReached);
            assert_eq!(addresses(db, "joe").await, Some(full.into()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_upsert_without_duplicates_within_the_bound() {
    testkit::run(async |db| {
        for parent in 0..2 {
            plant(db, &patron(parent, [address("own")])).await;
        }
        let writers = (0..64).map(|writer: i32| {
            // Clones share lanes. As in another process, this one has its own.
            let patrons = patrons(db);
            tokio::spawn(async move {
                let mut inserted = 0;
                for n in 0..4 {
                    for parent in 0..2 {
                        let child = doc! { "id": (writer + n) % 6, "by": writer };
                        match patrons.upsert_child(parent, &child).await {
                            Ok(upserted) => inserted += usize::from(upserted.inserted),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::LimitReached, "{error:?}"),
                        }
                    }
                }
                inserted
            })
        });
        let mut inserted = 0;
        for writer in join_all(writers).await {
            inserted += writer.unwrap();
        }
        assert_eq!(inserted, 2 * 4, "each added child was reported as inserted once");
        for parent in 0..2 {
            let stored = array(db, parent).await;
            assert_eq!((stored.len(), &stored[0]), (5, &address("own").into()));
            let different: BTreeSet<String> = ids(db, parent).await.iter().map(Bson::to_string).collect();
            assert_eq!(different.len(), 5);
            for child in &stored[1..] {
                let child = child.as_document().unwrap();
                assert!(child.len() == 2 && child.get_i32("by").is_ok(), "{child}");
            }
        }
    })
    .await;
}

/// Another writer removes a child between the write that is refused by the bound and the read of the reason.
#[tokio::test]
async fn a_write_retries_if_a_child_is_removed_before_it_reads_the_reason() {
    testkit::run(async |db| {
        for (command, attempts) in [("update", 2), ("update", 1), ("findAndModify", 2), ("findAndModify", 1)] {
            stored(db).delete_many(doc! {}).await.unwrap();
            let retry = RetryPolicy::default().with_max_attempts(attempts);
            let patrons = builder(db).max_children(5).retry(retry).build().unwrap();
            plant(db, &patron("joe", (0..5).map(address))).await;
            db.recorder().clear();
            let fault = FailPoint::on(&[])
                .times(1)
                .block(Duration::from_millis(300))
                .plan(db, 1);
            let child = address(7);
            let write = async {
                match command {
                    "update" => patrons.add_child("joe", &child).await.map(drop),
                    _ => patrons
                        .upsert_child("joe", &child)
                        .await
                        .map(|upserted| assert!(upserted.inserted)),
                }
            };
            let (written, ()) = futures::join!(write, async {
                db.recorder().sent(2).await;
                let pull = doc! { "$pull": { "addresses": { "id": 0 } } };
                stored(db).update_one(doc! { "_id": "joe" }, pull).await.unwrap();
            });
            fault.end();
            if attempts == 2 {
                written.unwrap();
                assert_eq!(db.recorder().names(), [command, "find", command]);
                assert_eq!(ids(db, "joe").await, [1, 2, 3, 4, 7].map(Bson::from));
            } else {
                let error = written.unwrap_err();
                assert!(error.is_contention(), "{error}");
                assert_eq!(error.attempts(), Some(1));
                assert_eq!(ids(db, "joe").await.len(), 4);
            }
        }
    })
    .await;
}

/// The reply to a command that the driver retries is the whole parent, without the projection.
#[tokio::test]
async fn a_retried_command_tells_an_insert_from_a_replacement() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [address(1), address(2)])).await;
        for (child, inserted) in [(address(3), true), (other(2), false)] {
            let fault = FailPoint::on(&["findAndModify"]).times(1);
            let fault = fault.write_concern_error(91).enable(db).await;
            let upserted = patrons.upsert_child("joe", &child).await.unwrap();
            assert_eq!(upserted.inserted, inserted);
            fault.disable().await;
        }
        let fault = FailPoint::on(&["findAndModify"])
            .write_concern_error(64)
            .enable(db)
            .await;
        let error = patrons.upsert_child("joe", &address(4)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        fault.disable().await;
        assert!(!patrons.upsert_child("joe", &address(4)).await.unwrap().inserted);
        let expected = vec![address(1), other(2), address(3), address(4)];
        assert_eq!(addresses(db, "joe").await, Some(expected.into()));
    })
    .await;
}
