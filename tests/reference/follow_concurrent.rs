//! Followers beside repositories and other programs that write customers, orders and invoices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::reference::{Followed, OnReferences};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database};
use tokio::sync::watch;

use support::common::pause;
use support::reference::follow::*;
use support::reference::*;
use support::subset::Random;

const SOURCES: i32 = 4;
const DOCUMENTS: u64 = 20;

/// Writes at random without the repository.
struct Program {
    random: Random,
    customers: Collection<Document>,
    documents: [Collection<Document>; 2],
    writes: u32,
}

impl Program {
    fn new(db: &TestDatabase, number: u64) -> Self {
        Self {
            random: Random(20_261_124 + number),
            customers: customers(db),
            documents: [stored(db), db.plain_collection("invoices")],
            writes: 0,
        }
    }

    async fn write(&mut self) {
        self.writes += 1;
        let source = self.random.below(SOURCES as u64) as i32 + 1;
        let name = format!("{}-{}", self.writes, self.random.below(1000));
        if self.random.below(2) == 0 {
            return self.write_source(source, &name).await;
        }
        let id = self.random.below(DOCUMENTS) as i32;
        let copy = match self.random.below(4) {
            0 => doc! { "_id": source },
            1 => doc! { "_id": source, "name": &name, "v": self.random.below(9) as i32 },
            2 => doc! { "_id": source, "v": 7.5 },
            _ => doc! { "_id": source, "name": &name, "contact": [5], "deleted": true },
        };
        let product = doc! { "_id": self.random.below(SOURCES as u64) as i32 + 1, "name": &name };
        let update = match self.random.below(6) {
            0 => doc! { "$set": { "customer": copy.clone(), "products": [product] } },
            1 => doc! { "$set": { "customer": copy.clone() } },
            2 => doc! { "$unset": { "customer": "", "products": "" } },
            3 => doc! { "$set": { "customer": 5 } },
            4 => doc! { "$set": { "products": [product] } },
            _ => doc! { "$set": { "total": self.writes } },
        };
        let documents = &self.documents[self.random.below(2) as usize];
        match self.random.below(8) {
            0 => drop(documents.delete_one(doc! { "_id": id }).await.unwrap()),
            1 => {
                let whole = doc! { "customer": copy, "total": self.writes };
                documents
                    .replace_one(doc! { "_id": id }, whole)
                    .upsert(true)
                    .await
                    .unwrap();
            }
            _ => drop(documents.update_one(doc! { "_id": id }, update).await.unwrap()),
        }
    }

    async fn write_source(&mut self, source: i32, name: &str) {
        let by_id = doc! { "_id": source };
        let update = match self.random.below(9) {
            0 => {
                let whole = customer(source, name);
                let replace = self.customers.replace_one(by_id, whole).upsert(true);
                replace.await.unwrap();
                return;
            }
            1 => {
                self.customers.delete_one(by_id).await.unwrap();
                return;
            }
            2 => doc! { "$unset": { "name": "", "v": "" } },
            3 => doc! { "$set": { "name": name }, "$inc": { "v": 1 } },
            4 => doc! { "$set": { "address": { "city": name } } },
            5 => doc! { "$set": { "mail": name } },
            6 => doc! { "$inc": { "visits": 1 } },
            _ => doc! { "$set": { "name": name } },
        };
        self.customers.update_one(by_id, update).await.unwrap();
    }
}

/// Writes at random by the repository. Writes of sources and documents that do not exist are refused.
async fn write(orders: &Orders, writer: u64, writes: i32) {
    let mut random = Random(writer);
    for n in 0..writes {
        let source = random.below(SOURCES as u64) as i32 + 1;
        let id = random.below(DOCUMENTS) as i32;
        let done = match random.below(6) {
            0 => orders.insert(&order(id, source)).await.map(drop),
            1 => orders.set_reference(id, source).await.map(drop),
            2 => orders.add_reference_to(id, source).field("products").await.map(drop),
            3 if n % 5 == 0 => orders
                .delete_source(source)
                .on_references(OnReferences::KeepCopy)
                .await
                .map(drop),
            _ => orders
                .update_source(source, rename(&format!("r{writer}-{n}")))
                .await
                .map(drop),
        };
        if let Err(error) = done {
            let expected = [ErrorKind::NotFound, ErrorKind::AlreadyExists, ErrorKind::Corrupt];
            assert!(expected.contains(&error.kind()), "{error:?}");
        }
    }
}

/// Removes the values that are no references, which `verify` reports.
async fn remove_others(db: &TestDatabase) {
    for collection in ["orders", "invoices"] {
        let collection = db.plain_collection::<Document>(collection);
        let (other, unset) = (doc! { "customer": 5 }, doc! { "$unset": { "customer": "" } });
        collection.update_many(other, unset).await.unwrap();
    }
}

/// Three followers of two names, repositories, and programs that use the driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn followers_repositories_and_other_programs_run_concurrently() {
    testkit::run(async |db| {
        for round in 0..2 {
            let orders = followed(db, patient(of_all_kinds(db))).await;
            let (stop, stopped) = watch::channel(false);
            let of = |database: &Database| patient(all_kinds_in(database)).build().unwrap();
            let has_written = Arc::new(AtomicBool::new(false));
            let followers = (0..3).map(|n| {
                let (orders, mut stopped) = (of(db.database()), stopped.clone());
                let has_written = Arc::clone(&has_written);
                tokio::spawn(async move {
                    let end = async { drop(stopped.wait_for(|stopped| *stopped).await) };
                    let report = |at: Followed| _ = has_written.fetch_or(at.written > 0, Ordering::Relaxed);
                    let follow = orders.follow(if n < 2 { NAME } else { "others" }).until(end);
                    let follow = follow.on_missing(OnReferences::KeepCopy).on_progress(report);
                    follow.await.unwrap()
                })
            });
            let followers: Vec<_> = followers.collect();
            let database = db.plain_client().database(db.database().name());
            let writers = (0..3).map(|writer| {
                let orders = of(&database);
                tokio::spawn(async move { write(&orders, round * 10 + writer, 30).await })
            });
            let writers: Vec<_> = writers.collect();
            let plain = (0..2).map(|writer| async move {
                let mut program = Program::new(db, round * 10 + writer);
                for _ in 0..75 {
                    program.write().await;
                }
            });
            join_all(plain).await;
            for writer in join_all(writers).await {
                writer.unwrap();
            }
            let mut program = Program::new(db, round * 10 + 2);
            while !has_written.load(Ordering::Relaxed) {
                program.write().await;
                pause().await;
            }
            stop.send_replace(true);
            for follower in followers {
                follower.await.unwrap();
            }
            let end = orders.follow(NAME).on_missing(OnReferences::KeepCopy);
            assert_eq!(end.run_until_current().await.unwrap().repaired, 0);
            remove_others(db).await;
            assert_eq!(findings(&orders).await, [], "{round}");
            assert_eq!(records(db).await.len(), 2);
        }
    })
    .await;
}

/// A reader sees that no copy goes back while a follower and a repository update them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn a_copy_never_goes_back() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        orders.insert(&order(1, 1)).await.unwrap();
        let (stop, mut stopped) = watch::channel(false);
        let follower = tokio::spawn({
            let orders = builder(db.database()).build().unwrap();
            async move {
                let end = async { drop(stopped.wait_for(|stopped| *stopped).await) };
                orders.follow(NAME).until(end).await.unwrap()
            }
        });
        let ended = AtomicI32::new(0);
        let own = async {
            for n in 0..50 {
                orders.update_source(1, rename(&format!("r{n}"))).await.unwrap();
            }
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let plain = async {
            for n in 0..50 {
                update_plainly(db, 1, rename(&format!("p{n}"))).await;
            }
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let reader = async {
            let mut newest = 0;
            while ended.load(Ordering::Relaxed) < 2 {
                let version = number(&copy_in(db, 1).await, "v");
                assert!(version >= newest, "{version} after {newest}");
                newest = version;
            }
        };
        tokio::join!(own, plain, reader);
        stop.send_replace(true);
        follower.await.unwrap();
        corrected(db, &orders, "after it").await;
    })
    .await;
}
