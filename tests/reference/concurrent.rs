//! Concurrent renames, inserts, changes of references and deletions: no stale copy and no dangling reference when all calls
//! have returned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::OnReferences;
use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;

use support::common::{pause, quiet};
use support::pace::Pace;
use support::random::random;
use support::reference::*;

const CUSTOMERS: i32 = 4;
const COPIES: i32 = 40_000;

/// Each of 64 writers renames customers, inserts orders, and changes those of all writers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn sixty_four_writers_leave_no_stale_copy() {
    testkit::run(async |db| {
        let processes = processes(db, 4).await;
        add_customers(db, 1..=CUSTOMERS).await;
        let writers = (0..64).map(|writer: usize| {
            let orders = processes[writer % 4].clone();
            tokio::spawn(async move {
                let (mut inserted, mut random) = (0, random(writer));
                for n in 0..12 {
                    let customer = random.i32(1..=CUSTOMERS);
                    let other = format!("{}-{}", random.usize(0..=writer), random.usize(0..=n));
                    match random.u32(0..10) {
                        0..5 => {
                            let name = format!("{writer}-{n}");
                            orders.update_source(customer, rename(&name)).await.unwrap();
                        }
                        9 => match orders.set_reference(other, customer).await {
                            Ok(_) => {}
                            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
                        },
                        _ => {
                            orders.insert(&order(format!("{writer}-{n}"), customer)).await.unwrap();
                            inserted += 1;
                        }
                    }
                }
                inserted
            })
        });
        let inserted: usize = join_all(writers).await.into_iter().map(Result::unwrap).sum();
        assert!(inserted > 100, "{inserted}");
        assert_eq!(assert_current(db, &processes[0]).await, inserted);
    })
    .await;
}

/// Deletions by each rule, among inserts that refer to the same customers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn deletions_leave_no_dangling_reference() {
    testkit::run(async |db| {
        for rule in [OnReferences::Restrict, OnReferences::KeepCopy, OnReferences::Clear] {
            let processes = processes(db, 2).await;
            let last = 20;
            add_customers(db, 1..=last).await;
            let writers = (0..16).map(|writer: usize| {
                let orders = processes[writer % 2].clone();
                tokio::spawn(async move {
                    let (mut inserted, mut deleted, mut refused) = (0, 0, 0);
                    for customer in 1..=last {
                        let id = format!("{writer}-{customer}");
                        match writer % 4 {
                            // An unreferenced customer is deleted, or gets an order.
                            0 => match orders.delete_source(customer).on_references(rule).await {
                                Ok(done) => deleted += usize::from(done.found),
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::Referenced, "{error:?}");
                                    refused += 1;
                                }
                            },
                            1 => match orders.update_source(customer, rename(&id)).await {
                                Ok(_) => {}
                                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
                            },
                            _ => match orders.insert(&order(id, customer)).await {
                                Ok(_) => inserted += 1,
                                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
                            },
                        }
                    }
                    [inserted, deleted, refused]
                })
            });
            let mut sums = [0; 3];
            for writer in join_all(writers).await {
                let counts = writer.unwrap();
                (0..3).for_each(|n| sums[n] += counts[n]);
            }
            let [inserted, deleted, refused] = sums;
            assert_eq!(findings(&processes[0]).await, [], "{rule:?}");
            let stored = stored(db).count_documents(doc! {}).await.unwrap() as usize;
            assert_eq!(stored, inserted, "{rule:?}: an insert is stored if it has returned Ok");
            let left = customers(db).count_documents(doc! {}).await.unwrap() as usize;
            assert_eq!(left + deleted, last as usize, "{rule:?}");
            let judged = judge(db).await;
            assert_eq!(judged.stale, 0, "{rule:?}");
            match rule {
                OnReferences::KeepCopy => assert_eq!(refused, 0),
                _ => assert_eq!(judged.dangling, 0, "{rule:?}"),
            }
        }
    })
    .await;
}

/// While others rename, a copy only gets newer, and never is what no version of the customer was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn readers_see_no_copy_go_back() {
    testkit::run(async |db| {
        let processes = processes(db, 4).await;
        add_customers(db, 1..=1).await;
        for id in 0..8 {
            processes[0].insert(&order(id, 1)).await.unwrap();
        }
        let pace = Pace::of(0);
        let writers = processes.iter().enumerate().map(|(writer, orders)| {
            let (orders, pace) = (orders.clone(), pace.clone());
            tokio::spawn(async move {
                let (mut versions, mut n) = (BTreeMap::new(), 0);
                while pace.next().await {
                    n += 1;
                    let name = format!("{writer}-{n}");
                    let updated = orders.update_source(1, rename(&name)).await.unwrap();
                    versions.insert(updated.version, name);
                }
                versions
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut seen = Vec::new();
        let mut last = [0; 8];
        for round in 0..80 {
            pace.keep(4).await;
            let id = round % 8;
            let read = processes[1].get(id).await.unwrap().unwrap();
            let copy = read.get_document("customer").unwrap();
            let version = number(copy, "v");
            let last = &mut last[usize::try_from(id).unwrap()];
            assert!(version >= *last, "{version} after {last}");
            *last = version;
            seen.push((version as u64, copy.get_str("name").unwrap().to_owned()));
            // A read that asks for the newest version sees at least what was acknowledged before.
            let fresh = processes[2].get(id).max_staleness(0).await.unwrap().unwrap();
            assert!(number(fresh.get_document("customer").unwrap(), "v") >= version);
        }
        pace.end();
        let mut versions = BTreeMap::from([(0, "Ann".to_owned())]);
        for writer in writers {
            versions.extend(writer.await.unwrap());
        }
        assert!(versions.len() > 10, "{}", versions.len());
        for (version, name) in seen {
            assert_eq!(versions.get(&version), Some(&name));
        }
        assert_eq!(assert_current(db, &processes[0]).await, 8);
    })
    .await;
}

/// `verify` reports nothing while others write, and a repair does not disturb them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn repairs_beside_writers_change_nothing_back() {
    testkit::run(async |db| {
        let processes = processes(db, 2).await;
        add_customers(db, 1..=CUSTOMERS).await;
        let stop = Arc::new(AtomicBool::new(false));
        let repairer = {
            let (orders, stop) = (processes[1].clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    repaired(&orders).await;
                }
            })
        };
        let writers = (0..4).map(|writer| {
            let orders = processes[0].clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    let customer = 1 + n % CUSTOMERS;
                    let id = format!("{writer}-{n}");
                    orders.insert(&order(id.as_str(), customer)).await.unwrap();
                    orders.update_source(customer, rename(&id)).await.unwrap();
                }
            })
        });
        for writer in join_all(writers).await {
            writer.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        repairer.await.unwrap();
        assert_eq!(assert_current(db, &processes[0]).await, 80);
    })
    .await;
}

/// Another writer of the copies waits for one document, and not for the sweep: many of its updates end while the sweep
/// runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn a_sweep_of_40_000_copies_does_not_block_another_writer() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        for first in (0..COPIES).step_by(10_000) {
            let many = (first..first + 10_000).map(|id| {
                let copy = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64 };
                doc! { "_id": id, "customer": copy, "total": 0 }
            });
            stored(db).insert_many(many).await.unwrap();
        }
        let sweep = {
            let orders = orders.clone();
            tokio::spawn(async move { orders.update_source(1, rename("Bea")).await.unwrap() })
        };
        // The sweep has begun.
        let changed = doc! { "customer._id": 1, "customer.v": 1_i64 };
        while stored(db).find_one(changed.clone()).await.unwrap().is_none() {
            pause().await;
        }
        let mut during = 0;
        for n in 0.. {
            let id = (n * 7919) % COPIES;
            let one = doc! { "$inc": { "total": 1 } };
            stored(db).update_one(doc! { "_id": id }, one).await.unwrap();
            // An order of the same customer, by the repository.
            orders.insert(&order(COPIES + n, 1)).await.unwrap();
            // Bounded: a sweep that another writer could hold up for ever would find ever more.
            if sweep.is_finished() || n == 2000 {
                break;
            }
            during += 1;
        }
        assert!(during >= 3, "{during} writes ended while the sweep ran");
        let updated = sweep.await.unwrap();
        assert_eq!(updated.version, 1);
        assert!(updated.copies <= COPIES as u64, "{updated:?}");
        quiet(db).await;
        let stale = doc! { "customer._id": 1, "$or": [
            { "customer.v": { "$ne": 1_i64 } }, { "customer.name": { "$ne": "Bea" } },
        ] };
        assert_eq!(stored(db).count_documents(stale).await.unwrap(), 0);
        let written = doc! { "_id": { "$lt": COPIES }, "total": { "$gt": 0 } };
        assert_eq!(stored(db).count_documents(written).await.unwrap(), during + 1);
    })
    .await;
}
