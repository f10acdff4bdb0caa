//! The migration of embedded children is killed, with concurrent writers: no child is lost, duplicated or restored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use crate::subset::migration::{findings, stored};
use support::common::{pause, until};
use support::pace::Pace;
use support::subset::migration::{embedded_review, fill, unmigrated};
use support::subset::*;

const PARENTS: i32 = 30;
const EMBEDDED: i32 = 40;
const WRITERS: i32 = 16;
const SIZE: u32 = 5;

/// The children of one writer by product and id: the author, or `None` if deleted.
type Written = BTreeMap<(i32, i32), Option<String>>;
type Change = ((i32, i32), Option<String>);

/// Inserts, updates, deletes and reads until it is stopped, and then a few more times. Retries refused writes later.
async fn write(products: Products, writer: i32, pace: Pace, refused: Arc<AtomicU32>) -> Written {
    let mut written: Written = (1..=PARENTS)
        .flat_map(|parent| (0..EMBEDDED).map(move |id| (parent, id)))
        .filter(|(_, id)| id % WRITERS == writer)
        .map(|(parent, id)| ((parent, id), Some(format!("author {id}"))))
        .collect();
    let mut random = Random(writer as u64 + 1);
    let mut more = 15;
    let mut n = 0;
    while more > 0 {
        more -= u32::from(!pace.next().await);
        n += 1;
        let parent = 1 + random.below(PARENTS as u64) as i32;
        let of_parent: Vec<i32> = written.keys().filter(|key| key.0 == parent).map(|key| key.1).collect();
        let id = of_parent[random.below(of_parent.len() as u64) as usize];
        let author = format!("w{writer} {n}");
        let outcome: Result<Option<Change>, Error> = match random.below(4) {
            0 => {
                let id = 1000 + n * WRITERS + writer;
                let mut new = review_of(parent, id, random.below(60) as i64);
                new.review_author = author.clone();
                products.insert(&new).await.map(|_| Some(((parent, id), Some(author))))
            }
            1 => {
                let set = doc! { "review_author": &author, "published_date": day(random.below(60) as i64) };
                match products.update(parent, id, doc! { "$set": set }).await {
                    Err(error) if error.kind() == ErrorKind::ChildNotFound => {
                        assert_eq!(written[&(parent, id)], None, "product {parent}, review {id}");
                        Ok(None)
                    }
                    outcome => outcome.map(|_| Some(((parent, id), Some(author)))),
                }
            }
            2 => products.delete(parent, id).await.map(|deleted| {
                assert_eq!(
                    deleted.found,
                    written[&(parent, id)].is_some(),
                    "product {parent}, review {id}"
                );
                Some(((parent, id), None))
            }),
            _ => {
                let shown = products.get(parent).await.unwrap().unwrap().reviews.len();
                assert!(shown <= SIZE as usize || shown == EMBEDDED as usize, "{shown}");
                Ok(None)
            }
        };
        match outcome {
            Ok(change) => written.extend(change),
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.stored_count()),
                    (ErrorKind::NotMigrated, None),
                    "{error:?}"
                );
                refused.fetch_add(1, Ordering::Relaxed);
                pause().await;
            }
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn writers_continue_during_a_migration() {
    testkit::run(async |db| {
        let sized = |database: &mongodb::Database| builder_of(database, newest().size(SIZE));
        let mover: Products = sized(db.database()).build().unwrap();
        mover.ensure_indexes().await.unwrap();
        let parents = (1..=PARENTS).map(|id| {
            let reviews: Vec<Document> = (0..EMBEDDED)
                .map(|n| embedded_review(n, i64::from(n * 7 % 60)))
                .collect();
            doc! { "_id": id, "name": "Super Widget", "reviews": reviews }
        });
        product(db).insert_many(parents).await.unwrap();

        // Another client, with its own connections, and several processes.
        let database = db.plain_client().database(db.database().name());
        let pace = Pace::of(200);
        let refused = Arc::new(AtomicU32::new(0));
        let processes: Vec<Products> = (0..4).map(|_| sized(&database).build().unwrap()).collect();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let products = processes[writer as usize % processes.len()].clone();
                tokio::spawn(write(products, writer, pace.clone(), Arc::clone(&refused)))
            })
            .collect();
        until("the writers", async || {
            refused.load(Ordering::Relaxed) >= WRITERS as u32
        })
        .await;
        // Killed repeatedly, each time a few commands later.
        let mut calls = 0;
        for commands in 1.. {
            calls += 1;
            pace.add(100);
            db.recorder().clear();
            let sent = db.recorder().sent(8 + commands);
            let migrated = tokio::select! {
                biased;
                () = sent => None,
                migrated = mover.migrate_from_embedded().chunk(100).into_future() => Some(migrated.unwrap()),
            };
            if migrated.is_some() {
                break;
            }
        }
        pace.end();
        let mut expected = Written::new();
        for writer in writers {
            expected.extend(writer.await.unwrap());
        }
        assert!(calls > 3, "{calls}");
        expected.retain(|_, author| author.is_some());
        let found = stored(db).await;
        let documents = found.len();
        let found: Written = found
            .into_iter()
            .map(|review| {
                let key = (
                    review.get_i32("product_id").unwrap(),
                    review.get_i32("review_id").unwrap(),
                );
                (key, Some(review.get_str("review_author").unwrap().to_owned()))
            })
            .collect();
        assert_eq!(documents, found.len(), "no review is stored twice");
        assert_eq!(found, expected);
        assert_eq!(wrong(&product(db), &reviews(db), SIZE as usize).await, []);
        assert_eq!(findings(&mover).await, []);
    })
    .await;
}

/// The server still executes the copy of a process that has died. It must end before another call lets writers delete
/// children that it would insert again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_a_copy_that_the_server_still_executes() {
    testkit::run(async |db| {
        let expected = fill(db, 12).await;
        let admin = db.plain_client().database("admin");
        let hold = async |mode: &str| {
            let namespace = format!("{}.review", db.database().name());
            let hold =
                doc! { "configureFailPoint": "hangDuringBatchInsert", "mode": mode, "data": { "nss": namespace } };
            admin.run_command(hold).await.unwrap();
        };
        let held = doc! { "currentOp": true, "active": true, "failpointMsg": "hangDuringBatchInsert" };
        let is_held = async || {
            let reply = admin.run_command(held.clone()).await.unwrap();
            !reply.get_array("inprog").unwrap().is_empty()
        };
        hold("alwaysOn").await;
        let database = db.plain_client().database(db.database().name());
        let earlier: Products = builder(&database).build().unwrap();
        let mut first = Box::pin(earlier.migrate_from_embedded().into_future());
        tokio::select! {
            biased;
            migrated = &mut first => panic!("{migrated:?}"),
            () = until("the copy", is_held) => {}
        }
        // It has found the missing children, and stops at a fail point before it writes them.
        let products = unmigrated(db);
        db.recorder().clear();
        let mut second = Box::pin(products.migrate_from_embedded().into_future());
        let reads = || {
            let commands = db.recorder().commands();
            commands
                .iter()
                .filter(|sent| sent.command.get_str("$db").is_ok_and(|name| name == "admin"))
                .count()
        };
        let until_it_waits = async {
            while reads() < 5 {
                let commands = db.recorder().commands();
                let copy = commands.iter().find(|sent| sent.command.to_string().contains("$merge"));
                assert!(copy.is_none(), "it did not wait");
                db.recorder().sent(db.recorder().round_trips() + 1).await;
            }
        };
        tokio::select! {
            biased;
            migrated = &mut second => panic!("it did not wait: {migrated:?}"),
            () = until_it_waits => {}
        }
        let written = doc! { "reviews.0": { "$exists": true }, "reviews_version": { "$type": "number" } };
        assert_eq!(product(db).find_one(written).await.unwrap(), None);
        hold("off").await;
        let (first, second) = futures::join!(first, second);
        second.unwrap();
        assert_eq!(first.unwrap_err().kind(), ErrorKind::Contention);
        assert_eq!(stored(db).await, expected);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}
