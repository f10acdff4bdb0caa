//! A server that is killed while documents on which several patterns depend are deleted.

use std::collections::BTreeSet;

use futures::future::join_all;
use mongo_patterns::ErrorKind::{AlreadyExists, NotFound, Referenced};
use mongo_patterns::Result;
use mongo_patterns_testkit::{Mongod, MongodOptions};
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};
use tokio::sync::watch;

use super::suppliers::{Other, Shop, order};
use support::common::{ends, pause};

const SUPPLIERS: i32 = 24;
const WRITERS: i32 = 8;

/// What the tasks observed.
#[derive(Clone, Default)]
struct Seen {
    ended: watch::Sender<u64>,
}

impl Seen {
    /// Repeats a call until its outcome is known, as a service does.
    async fn known<T>(&self, call: impl AsyncFn() -> Result<T>) -> Result<T> {
        loop {
            match call().await {
                Err(error) if error.is_transient() || error.is_outcome_unknown() => {
                    pause().await;
                }
                known => {
                    self.ended.send_modify(|ended| *ended += 1);
                    return known;
                }
            }
        }
    }
}

/// Returns whether a document is stored, by a call that stores it once.
fn is_stored(inserted: Result<()>) -> bool {
    match inserted {
        Ok(()) => true,
        Err(error) if error.kind() == AlreadyExists => true,
        Err(error) => {
            assert_eq!(error.kind(), NotFound, "{error:?}");
            false
        }
    }
}

/// Adds products, or orders of every second supplier. Returns the products that are stored.
async fn write(shop: Shop, writer: i32, seen: Seen) -> BTreeSet<(i32, i32)> {
    let mut stored = BTreeSet::new();
    for id in 0..SUPPLIERS {
        let n = 1000 * (writer + 1) + id;
        if writer % 2 == 0 {
            let product = doc! { "_id": n, "supplier": id, "at": n };
            let inserted = seen.known(async || shop.products.insert(&product).await.map(drop));
            if is_stored(inserted.await) {
                stored.insert((id, n));
            }
        } else if id % 2 == 0 {
            let order = order(n, id);
            is_stored(seen.known(async || shop.orders.insert(&order).await.map(drop)).await);
        }
    }
    stored
}

/// Deletes suppliers with all that depends on them, but those to which orders refer.
async fn delete(shop: Shop, seen: Seen) {
    for id in (0..SUPPLIERS).rev() {
        let deleted = seen.known(async || {
            let deletion = shop.orders.delete_source(id).through(&shop.products);
            deletion.through(&shop.visits).through(&shop.trash).await
        });
        if let Err(error) = deleted.await {
            assert_eq!(error.kind(), Referenced, "{error:?}");
        }
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn deletions_of_a_server_that_is_killed_leave_nothing() {
    let mut mongod = Mongod::start(MongodOptions::new()).await.unwrap();
    let client = Client::with_uri_str(mongod.uri()).await.unwrap();
    let database = client.database("mongo_patterns_killed");
    let processes = [Shop::of(&database), Shop::of(&database)];
    for other in [Other::Trash, Other::Subset, Other::List] {
        for shop in &processes {
            shop.set_up(other).await;
        }
    }
    let suppliers = (0..SUPPLIERS).map(|id| doc! { "_id": id, "name": "Ann" });
    let collection = database.collection::<Document>("suppliers");
    collection.insert_many(suppliers).await.unwrap();
    processes[0].add_parts(Other::Subset, 0..SUPPLIERS).await;
    processes[0].add_parts(Other::List, 0..SUPPLIERS).await;

    let seen = Seen::default();
    let shop = |task: i32| processes[task as usize % 2].clone();
    let writers = join_all((0..WRITERS).map(|writer| write(shop(writer), writer, seen.clone())));
    let deletions = join_all((0..2).map(|task| delete(shop(task), seen.clone())));
    let mut ended = seen.ended.subscribe();
    let kill = async {
        ended.wait_for(|ended| *ended >= 40).await.unwrap();
        mongod.kill().await.unwrap();
        mongod.restart().await.unwrap();
        *seen.ended.borrow()
    };
    let all = futures::future::join3(writers, deletions, kill);
    let (written, _, before) = ends("all calls after the restart", all).await;
    let products = written.into_iter().flatten().collect();
    let after = *seen.ended.borrow();
    assert!(
        after >= before + 10,
        "the kill meets a call of each task: {before} of {after}"
    );
    judge(&database, &processes[0], &products).await;
}

/// Checks by the driver alone that each supplier is there with its products, or in the trash with nothing left of it.
async fn judge(database: &Database, shop: &Shop, products: &BTreeSet<(i32, i32)>) {
    let count = async |collection: &str, filter: Document| {
        let collection = database.collection::<Document>(collection);
        collection.count_documents(filter).await.unwrap()
    };
    let mut deleted = 0;
    for id in 0..SUPPLIERS {
        let is_there = count("suppliers", doc! { "_id": id }).await;
        assert_eq!(
            count("deleted_suppliers", doc! { "document._id": id }).await,
            1 - is_there
        );
        if is_there == 0 {
            deleted += 1;
            for (collection, field) in [
                ("products", "supplier"),
                ("more_visits", "supplier"),
                ("orders", "supplier._id"),
            ] {
                assert_eq!(count(collection, doc! { field: id }).await, 0, "{id} {collection}");
            }
            continue;
        }
        for (_, n) in products.iter().filter(|(supplier, _)| *supplier == id) {
            assert_eq!(count("products", doc! { "_id": n }).await, 1, "{id} {n}");
        }
    }
    assert!(deleted > 0);
    shop.assert_sound().await;
}
