//! Concurrent writers, deletions and readers of the same documents.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::history::Recorded;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::doc;
use tokio::sync::Barrier;

use support::common::patient;
use support::history::*;
use support::pace::Pace;
use support::random::random;

/// Returns repositories that each have their own lanes, as processes have. They retry for as long as it takes.
async fn processes(db: &TestDatabase, number: usize) -> Vec<Policies> {
    let mut processes = Vec::new();
    for _ in 0..number {
        processes.push(ready(db, builder(db.database()).retry(patient())).await);
    }
    processes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn sixty_four_writers_of_one_document_lose_nothing() {
    testkit::run(async |db| {
        for of in [1, 4] {
            let processes = processes(db, of).await;
            processes[0].insert(&policy(1)).await.unwrap();
            let writers = (0..64).map(|writer: usize| {
                let policies = processes[writer % processes.len()].clone();
                tokio::spawn(async move {
                    let mut revisions = Vec::new();
                    for n in 0..2 {
                        let recorded = policies.update(1, push(&format!("{writer}-{n}"))).await.unwrap();
                        revisions.push((recorded.revision, format!("{writer}-{n}")));
                    }
                    revisions
                })
            });
            let mut acknowledged = Vec::new();
            for writer in join_all(writers).await {
                acknowledged.extend(writer.unwrap());
            }
            let expected = Judged {
                items: 128,
                revision: 129,
                ..Judged::default()
            };
            assert_eq!(judge(db, 1).await, expected, "{of} processes");
            // Each call returned the number of the revision that has its item first.
            let copies = copies(db, 1).await;
            let distinct: BTreeSet<u64> = acknowledged.iter().map(|(revision, _)| *revision).collect();
            assert_eq!(distinct.len(), 128);
            for (revision, item) in acknowledged {
                let stored = items(&copies[usize::try_from(revision).unwrap() - 1]);
                assert_eq!(stored.last(), Some(&item));
            }
            assert_eq!(findings(&processes[0]).await, []);
        }
    })
    .await;
}

/// Optimistic locking: each writer reads a number, adds to it, and writes it if no other writer has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn read_change_replace_with_an_expected_revision_loses_nothing() {
    const WRITERS: usize = 8;
    testkit::run(async |db| {
        for of in [1, 4] {
            let processes = processes(db, of).await;
            let mut first = policy(1);
            first.insert("visits", 0);
            processes[0].insert(&first).await.unwrap();
            let all_have_read = Arc::new(Barrier::new(WRITERS));
            let writers = (0..WRITERS).map(|writer| {
                let policies = processes[writer % processes.len()].clone();
                let all_have_read = Arc::clone(&all_have_read);
                tokio::spawn(async move {
                    let (mut done, mut refused) = (0, 0);
                    while done < 5 {
                        let now = policies.get(1).await.unwrap().unwrap().document;
                        if done + refused == 0 {
                            all_have_read.wait().await;
                        }
                        let mut next = policy(1);
                        next.insert("visits", now.get_i32("visits").unwrap() + 1);
                        let expected = u64::try_from(number(&now, "revision")).unwrap();
                        match policies.replace(1, &next).expecting(expected).await {
                            Ok(recorded) => {
                                assert_eq!(recorded.revision, expected + 1);
                                done += 1;
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::RevisionMismatch, "{error}");
                                refused += 1;
                            }
                        }
                    }
                    refused
                })
            });
            let refused: usize = join_all(writers).await.into_iter().map(Result::unwrap).sum();
            assert!(
                refused >= WRITERS - 1,
                "of those that have read the first number, one writes"
            );
            let now = processes[0].get(1).await.unwrap().unwrap().document;
            assert_eq!(now.get_i32("visits").unwrap(), 40);
            assert_eq!(judge(db, 1).await.revision, 41);
            assert_eq!(findings(&processes[0]).await, []);
        }
    })
    .await;
}

/// Inserts, updates, deletes and restores of a few documents. Every revision that is left is what its call has
/// returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn all_calls_together_leave_no_gap_and_no_double() {
    testkit::run(async |db| {
        for of in [1, 4] {
            let processes = processes(db, of).await;
            let writers = (0..16).map(|writer: usize| {
                let policies = processes[writer % processes.len()].clone();
                tokio::spawn(async move {
                    let (mut revisions, mut n, mut random) = (Vec::new(), 0, random(writer));
                    while revisions.len() < 10 {
                        n += 1;
                        let id = random.i32(0..3);
                        let item = format!("{writer}-{n}");
                        let mut new = policy(id);
                        new.insert("itemsInsured", vec![item.as_str()]);
                        let number = |recorded: Recorded| Some(recorded.revision);
                        let written = match random.u32(0..10) {
                            0 | 1 => policies.insert(&new).await.map(number),
                            2 => policies.delete(id).await.map(|deleted| deleted.revision),
                            3 => policies.restore(id, 1).await.map(number),
                            4 => policies.replace(id, &new).await.map(number),
                            5 => policies.keep_last(id, 5).await.map(|_| None),
                            _ => policies.update(id, push(&item)).await.map(number),
                        };
                        match written {
                            Ok(revision) => revisions.extend(revision.map(|revision| (id, revision))),
                            Err(error) => assert!(
                                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists),
                                "{error:?}"
                            ),
                        }
                    }
                    revisions
                })
            });
            let (mut acknowledged, mut distinct) = (0, BTreeSet::new());
            for writer in join_all(writers).await {
                let revisions = writer.unwrap();
                acknowledged += revisions.len();
                distinct.extend(revisions);
            }
            assert_eq!(
                distinct.len(),
                acknowledged,
                "{of} processes: a number was returned twice"
            );
            assert_eq!(findings(&processes[0]).await, [], "{of} processes");
            for id in 0..3 {
                let stored = numbers(db, id).await;
                // The set is in the order of the ids and the numbers.
                let highest = distinct.range((id, 0)..=(id, u64::MAX)).next_back();
                assert_eq!(
                    stored.last().map(|last| (id, u64::try_from(*last).unwrap())),
                    highest.copied()
                );
                assert!(
                    stored.windows(2).all(|two| two[1] == two[0] + 1),
                    "{of} processes: {stored:?}"
                );
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_concurrent_inserts_of_one_id_one_succeeds() {
    testkit::run(async |db| {
        for of in [1, 4] {
            let processes = processes(db, of).await;
            for id in 0..2 {
                let inserts = (0..16).map(|writer: usize| {
                    let policies = processes[writer % processes.len()].clone();
                    async move { policies.insert(&policy(id)).await }
                });
                let all = join_all(inserts).await;
                assert_eq!(all.iter().filter(|inserted| inserted.is_ok()).count(), 1);
                for error in all.into_iter().filter_map(Result::err) {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error:?}");
                }
                assert_eq!(numbers(db, id).await, [1]);
            }
            assert_eq!(findings(&processes[0]).await, []);
        }
    })
    .await;
}

/// While others write, a reader of all revisions sees each number once, up to at least what was acknowledged before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_no_gap_while_others_write() {
    testkit::run(async |db| {
        let processes = processes(db, 2).await;
        processes[0].insert(&policy(1)).await.unwrap();
        let pace = Pace::of(0);
        let writers = processes.iter().map(|policies| {
            let (policies, pace) = (policies.clone(), pace.clone());
            tokio::spawn(async move {
                let mut written = 0;
                while pace.next().await {
                    policies.update(1, push("watch")).await.unwrap();
                    written += 1;
                }
                written
            })
        });
        let writers: Vec<_> = writers.collect();
        let reader = &processes[0];
        for round in 0..14_u32 {
            pace.keep(10).await;
            let known = reader.get(1).await.unwrap().unwrap().revision;
            let newest_first = round % 2 == 0;
            let call = reader.revisions(1).limit(1 + round % 7);
            let call = if newest_first { call.newest_first() } else { call };
            let found: Vec<_> = call.stream().try_collect().await.unwrap();
            let mut numbers: Vec<u64> = found.iter().map(|revision| revision.revision).collect();
            if newest_first {
                numbers.reverse();
            }
            let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
            assert_eq!(numbers, expected);
            assert!(numbers.len() as u64 >= known);
            for revision in &found {
                let document = revision.document.as_ref().unwrap();
                assert_eq!(items(document).len() as u64, revision.revision - 1);
            }
            let at = reader.at(1, known).await.unwrap().unwrap();
            assert_eq!(
                at.document.as_ref().map(|document| items(document).len() as u64),
                Some(known - 1)
            );
            assert_eq!(reader.as_of(1, at.time).await.unwrap().unwrap().revision, known);
        }
        pace.end();
        let mut written = 0;
        for writer in writers {
            written += writer.await.unwrap();
        }
        assert!(written > 0);
        assert_eq!(judge(db, 1).await.revision, written + 1);
        assert_eq!(findings(reader).await, []);
    })
    .await;
}

/// A program without the repository reads consistent documents too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_programs_read_the_current_document_at_any_time() {
    testkit::run(async |db| {
        let processes = processes(db, 4).await;
        processes[0].insert(&policy(1)).await.unwrap();
        let writers = processes.iter().map(|policies| async move {
            for _ in 0..10 {
                policies.update(1, push("watch")).await.unwrap();
            }
        });
        let reads = async {
            for _ in 0..50 {
                let now = current(db).find_one(doc! { "policyId": 1 }).await.unwrap().unwrap();
                assert_eq!(items(&now).len() as i64, number(&now, "revision") - 1);
            }
        };
        futures::future::join(join_all(writers), reads).await;
        assert_eq!(judge(db, 1).await.revision, 41);
    })
    .await;
}

/// An insert reads its number, and another process inserts and deletes the document before it stores it.
#[tokio::test]
async fn an_insert_whose_number_was_taken_starts_again() {
    testkit::run(async |db| {
        let slow = policies(db).await;
        slow.insert(&policy(1)).await.unwrap();
        slow.delete(1).await.unwrap();
        let other = builder(&db.plain_client().database(db.database().name()));
        let other = other.build().unwrap();
        db.recorder().clear();
        let read = FailPoint::on(&["findAndModify"])
            .times(1)
            .block(std::time::Duration::from_secs(2));
        let read = read.enable(db).await;
        let mut new = policy(1);
        new.insert("slow", true);
        let (inserted, ()) = futures::join!(slow.insert(&new).into_future(), async {
            db.recorder().sent(2).await;
            other.insert(&policy(1)).await.unwrap();
            other.delete(1).await.unwrap();
            other.keep_last(1, 1).await.unwrap();
        });
        read.disable().await;
        assert_eq!(inserted.unwrap().revision, 5);
        assert_eq!(numbers(db, 1).await, [4, 5]);
        let now = slow.get(1).await.unwrap().unwrap().document;
        assert!(now.get_bool("slow").unwrap());
        assert_eq!(findings(&slow).await, []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_upserts_of_a_new_document_are_its_first_revisions() {
    testkit::run(async |db| {
        let processes = [policies(db).await, policies(db).await];
        let writers = (0..16).map(|writer: usize| {
            let policies = processes[writer % 2].clone();
            tokio::spawn(async move {
                let name = writer.to_string();
                let mut new = policy(1);
                new.insert("itemsInsured", vec![name.as_str()]);
                let upserted = policies.upsert(&new).await.unwrap();
                if writer.is_multiple_of(4) {
                    policies.delete(1).await.unwrap();
                }
                (upserted.revision, name)
            })
        });
        let written: Vec<(u64, String)> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
        let distinct: BTreeSet<u64> = written.iter().map(|(revision, _)| *revision).collect();
        assert_eq!(distinct.len(), 16);
        let copies = copies(db, 1).await;
        for (revision, name) in written {
            let stored = &copies[usize::try_from(revision).unwrap() - 1];
            assert_eq!(items(stored), [name]);
        }
        assert_eq!(findings(&processes[0]).await, []);
    })
    .await;
}
