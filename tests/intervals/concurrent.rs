//! Concurrent writers and readers of the same ids.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::{FutureExt, join_all};
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{DateTime, doc};
use tokio::sync::Barrier;

use support::common::{dropped_commands, patient};
use support::intervals::*;
use support::pace::Pace;
use support::random::random;

/// Returns repositories that each have their own lanes, as processes have. They retry for as long as it takes.
async fn processes(db: &TestDatabase, number: usize) -> Vec<Prices> {
    stored(db).delete_many(doc! {}).await.unwrap();
    drop(prices(db).await);
    let one = || builder(db.database()).retry(patient()).build().unwrap();
    (0..number).map(|_| one()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn sixty_four_writers_of_one_id_lose_nothing() {
    testkit::run(async |db| {
        for of in [1, 8] {
            let processes = processes(db, of).await;
            processes[0].insert(&price("pants", 0)).await.unwrap();
            let writers = (0..64_usize).map(|writer| {
                let prices = processes[writer % processes.len()].clone();
                tokio::spawn(async move {
                    let mut begun = Vec::new();
                    for n in 0..2 {
                        let price = i32::try_from(1 + writer * 2 + n).unwrap();
                        begun.push((prices.update("pants", to(price)).await.unwrap().valid_from, price));
                    }
                    begun
                })
            });
            let mut acknowledged = BTreeMap::new();
            for writer in join_all(writers).await {
                acknowledged.extend(writer.unwrap());
            }
            let found = judge(db, "pants").await;
            assert_eq!(found.len(), 129, "{of} processes");
            // Each call returned the start of its own price.
            let all = intervals(&of_item(db, "pants").await);
            let starts: BTreeMap<DateTime, i32> = all[1..].iter().map(|one| (one.1, one.0)).collect();
            assert_eq!(starts, acknowledged, "{of} processes");
            assert_eq!(findings(&processes[0]).await, []);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn read_change_replace_with_an_expected_start_loses_nothing() {
    const WRITERS: usize = 8;
    testkit::run(async |db| {
        for of in [1, 4] {
            let processes = processes(db, of).await;
            processes[0].insert(&price("pants", 0)).await.unwrap();
            let all_have_read = Arc::new(Barrier::new(WRITERS));
            let writers = (0..WRITERS).map(|writer| {
                let prices = processes[writer % processes.len()].clone();
                let all_have_read = Arc::clone(&all_have_read);
                tokio::spawn(async move {
                    let (mut done, mut refused) = (0, 0);
                    while done < 5 {
                        let now = prices.get("pants").await.unwrap().unwrap();
                        if done + refused == 0 {
                            all_have_read.wait().await;
                        }
                        let next = price("pants", now.document.get_i32("price").unwrap() + 1);
                        match prices.replace("pants", &next).expecting(now.valid_from).await {
                            Ok(_) => done += 1,
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
                "of those that have read the first start, one writes"
            );
            assert_eq!(judge(db, "pants").await, (0..=40).collect::<Vec<i32>>());
        }
    })
    .await;
}

/// Inserts, changes and ends of a few ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn all_calls_together_leave_no_overlap() {
    testkit::run(async |db| {
        for of in [1, 4] {
            let processes = processes(db, of).await;
            let writers = (0..16_usize).map(|writer| {
                let prices = processes[writer % processes.len()].clone();
                tokio::spawn(async move {
                    let (mut begun, mut random) = (Vec::new(), random(writer));
                    while begun.len() < 10 {
                        let item = ["pants", "shirt", "hat"][random.usize(0..3)];
                        let new = price(item, random.i32(..));
                        let written = match random.u32(0..8) {
                            0 | 1 => prices.insert(&new).await.map(Some),
                            2 => prices.end(item).await.map(|_| None),
                            3 => prices.replace(item, &new).await.map(Some),
                            _ => prices.update(item, to(1)).await.map(Some),
                        };
                        match written {
                            Ok(written) => begun.extend(written.map(|written| (item, written.valid_from))),
                            Err(error) => assert!(
                                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists),
                                "{error:?}"
                            ),
                        }
                    }
                    begun
                })
            });
            let mut acknowledged: Vec<(&str, DateTime)> = Vec::new();
            for writer in join_all(writers).await {
                acknowledged.extend(writer.unwrap());
            }
            assert_eq!(findings(&processes[0]).await, [], "{of} processes");
            let mut stored = Vec::new();
            for item in ["pants", "shirt", "hat"] {
                let all = intervals(&of_item(db, item).await);
                assert!(all.windows(2).all(|two| two[0].2 <= two[1].1), "{item}: {all:?}");
                stored.extend(all.iter().map(|one| (item, one.1)));
            }
            acknowledged.sort_unstable();
            stored.sort_unstable();
            assert_eq!(stored, acknowledged, "{of} processes");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_concurrent_inserts_of_one_id_one_succeeds() {
    testkit::run(async |db| {
        let processes = processes(db, 4).await;
        for item in ["pants", "shirt", "hat"] {
            let inserts = (0..16_i32).map(|writer| {
                let prices = processes[writer as usize % processes.len()].clone();
                async move { prices.insert(&price(item, writer)).await }
            });
            let all = join_all(inserts).await;
            assert_eq!(all.iter().filter(|inserted| inserted.is_ok()).count(), 1);
            for error in all.into_iter().filter_map(Result::err) {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error:?}");
            }
            assert_eq!(judge(db, item).await.len(), 1);
        }
    })
    .await;
}

/// An insert reads that there is no interval, and another process inserts one by a clock that is ahead, and ends it.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_insert_after_an_end_that_it_has_not_read_starts_again() {
    testkit::run(async |db| {
        for is_first in [true, false] {
            let slow = processes(db, 1).await.remove(0);
            if !is_first {
                slow.insert(&price("pants", 0)).await.unwrap();
                slow.end("pants").await.unwrap();
            }
            // The first write checks the indexes.
            slow.end("pants").await.unwrap();
            let other = builder(&db.plain_client().database(db.database().name()));
            let other = other.build().unwrap();
            let ahead = at(DateTime::now().timestamp_millis() + 30_000);
            db.recorder().clear();
            let blocked = FailPoint::on(&["findAndModify", "update"])
                .times(1)
                .block(Duration::from_secs(2))
                .enable(db)
                .await;
            let (inserted, ()) = futures::join!(slow.insert(&price("pants", 2)).into_future(), async {
                db.recorder().sent(2).await;
                other.insert(&price("pants", 1)).await.unwrap();
                begin_at(db, doc! { "item": "pants", "isValid": true }, ahead).await;
                other.end("pants").await.unwrap();
            });
            blocked.disable().await;
            assert_eq!(inserted.unwrap().valid_from, at(ahead.timestamp_millis() + 1));
            assert_eq!(findings(&slow).await, []);
        }
    })
    .await;
}

/// While others write, a read at any time since the insert finds one price.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn readers_see_no_gap_while_others_write() {
    testkit::run(async |db| {
        let processes = processes(db, 2).await;
        let first = processes[0].insert(&price("pants", 0)).await.unwrap().valid_from;
        let pace = Pace::of(0);
        let writers = processes.iter().map(|prices| {
            let (prices, pace) = (prices.clone(), pace.clone());
            tokio::spawn(async move {
                while pace.next().await {
                    prices.update("pants", doc! { "$inc": { "price": 1 } }).await.unwrap();
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let reader = &processes[0];
        for _ in 0..20 {
            pace.keep(10).await;
            let now = reader.get("pants").await.unwrap().unwrap();
            for time in [first, now.valid_from] {
                let found = reader.as_of("pants", time).await.unwrap().unwrap();
                assert!(found.valid_from <= time && found.valid_to.is_none_or(|to| time < to));
            }
            let newest = reader.intervals("pants").newest_first().stream();
            let newest: Vec<_> = newest.try_collect().await.unwrap();
            let prices: Vec<i32> = newest.iter().map(price_of).collect();
            assert!(prices.windows(2).all(|two| two[0] == two[1] + 1), "{prices:?}");
            assert_eq!(findings(reader).await, []);
        }
        pace.end();
        for writer in writers {
            writer.await.unwrap();
        }
        judge(db, "pants").await;
    })
    .await;
}

/// Calls that are dropped at any time leave whole intervals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_leave_no_overlap() {
    testkit::run(async |db| {
        let processes = processes(db, 2).await;
        processes[0].insert(&price("pants", 0)).await.unwrap();
        for n in 0..40 {
            let prices = &processes[n % 2];
            let call = prices.update("pants", to(1)).into_future();
            let dropped = async {
                for _ in 0..n {
                    tokio::task::yield_now().await;
                }
            };
            futures::select_biased! {
                _ = call.fuse() => {}
                () = Box::pin(dropped).fuse() => {}
            }
        }
        dropped_commands(db).await;
        processes[0].update("pants", to(2)).await.unwrap();
        judge(db, "pants").await;
        assert_eq!(findings(&processes[0]).await, []);
    })
    .await;
}
