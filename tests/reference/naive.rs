//! The manual's recipe leaves stale copies, also with each call in a transaction: a rename and an insert write different
//! documents, so snapshot isolation lets both commit. The same work by the repository leaves none.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::error::{Error as DriverError, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::UpdateModifications;
use mongodb::{ClientSession, Collection, Database};
use tokio::sync::Barrier;

use crate::reference::support::*;

const ROUNDS: i32 = 60;

/// The two collections, as a program without the repository uses them.
#[derive(Clone)]
struct Naive {
    orders: Collection<Document>,
    customers: Collection<Document>,
    in_transactions: bool,
}

/// What a program changes.
#[derive(Clone)]
enum Change {
    Rename(i32, String),
    Insert(i32, String),
}

impl Naive {
    async fn start(db: &TestDatabase, in_transactions: bool) -> Self {
        orders(db).await;
        add_customers(db, 0..=ROUNDS).await;
        let database: Database = db.plain_client().database(db.database().name());
        for customer in 0..=ROUNDS {
            let copy = doc! { "_id": customer, "name": "Ann", "address": { "city": "Dublin" } };
            let of_customer = (0..20).map(|n| doc! { "_id": format!("{customer}/{n}"), "customer": copy.clone() });
            stored(db).insert_many(of_customer).await.unwrap();
        }
        Self {
            orders: database.collection("orders"),
            customers: database.collection("customers"),
            in_transactions,
        }
    }

    async fn change(&self, change: Change) {
        let mut session = self.orders.client().start_session().await.unwrap();
        if !self.in_transactions {
            self.run(&change, &mut session).await.unwrap();
            return;
        }
        loop {
            session.start_transaction().await.unwrap();
            let result = match self.run(&change, &mut session).await {
                Ok(()) => session.commit_transaction().await,
                Err(error) => {
                    let _ = session.abort_transaction().await;
                    Err(error)
                }
            };
            match result {
                Ok(()) => return,
                Err(error) => assert!(
                    error.contains_label(TRANSIENT_TRANSACTION_ERROR)
                        || error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT),
                    "{error}"
                ),
            }
        }
    }

    async fn run(&self, change: &Change, session: &mut ClientSession) -> Result<(), DriverError> {
        match change {
            Change::Rename(id, name) => {
                let of = |field: &str| -> UpdateModifications { doc! { "$set": { field: name } }.into() };
                let customer = self.customers.update_one(doc! { "_id": id }, of("name"));
                customer.session(&mut *session).await?;
                let copies = self
                    .orders
                    .update_many(doc! { "customer._id": id }, of("customer.name"));
                copies.session(session).await.map(drop)
            }
            Change::Insert(id, order) => {
                let found = self
                    .customers
                    .find_one(doc! { "_id": id })
                    .session(&mut *session)
                    .await?;
                let mut copy = found.unwrap();
                copy.remove("visits");
                let order = doc! { "_id": order, "customer": copy };
                self.orders.insert_one(order).session(session).await.map(drop)
            }
        }
    }
}

/// Runs rounds in which these changes of one customer begin at one moment.
async fn rounds<F: Future<Output = ()> + Send + 'static>(
    renames: usize,
    inserts: usize,
    change: impl Fn(Change) -> F + Clone + Send + Sync + 'static,
) {
    let barrier = Arc::new(Barrier::new(renames + inserts));
    let writers = (0..renames + inserts).map(|writer| {
        let (barrier, change) = (Arc::clone(&barrier), change.clone());
        tokio::spawn(async move {
            for customer in 0..ROUNDS {
                barrier.wait().await;
                if writer < renames {
                    change(Change::Rename(customer, format!("{writer}-{customer}"))).await;
                } else {
                    // Inserts at different moments of a rename.
                    tokio::time::sleep(Duration::from_micros(fastrand::u64(0..2000))).await;
                    change(Change::Insert(customer, format!("{writer}-{customer}"))).await;
                }
            }
        })
    });
    join_all(writers).await.into_iter().for_each(|written| written.unwrap());
}

/// Returns how many copies differ from their customer.
async fn stale(db: &TestDatabase) -> usize {
    judge(db).await.stale
}

/// Repeats the rounds until a copy is stale: how often that happens depends on the machine.
async fn until_stale(db: &TestDatabase, in_transactions: bool, renames: usize, inserts: usize) {
    for _ in 0..10 {
        let naive = Naive::start(db, in_transactions).await;
        rounds(renames, inserts, move |change| {
            let naive = naive.clone();
            async move { naive.change(change).await }
        })
        .await;
        if stale(db).await > 0 {
            return;
        }
    }
    panic!("{renames} renames and {inserts} inserts left no stale copy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_renames_by_the_manuals_recipe_leave_stale_copies() {
    testkit::run(async |db| until_stale(db, false, 2, 0).await).await;
}

/// The order of commands that leaves a stale copy, one by one.
#[tokio::test]
async fn an_insert_by_the_manuals_recipe_misses_a_rename() {
    testkit::run(async |db| {
        let naive = Naive::start(db, false).await;
        let read = naive.customers.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
        naive.change(Change::Rename(1, "Bea".to_owned())).await;
        assert_eq!(stale(db).await, 0);
        let copy = doc! { "_id": 1, "name": read.get_str("name").unwrap(), "address": { "city": "Dublin" } };
        let order = doc! { "_id": "new", "customer": copy };
        naive.orders.insert_one(order).await.unwrap();
        assert_eq!(stale(db).await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manuals_recipe_in_transactions_leaves_stale_copies() {
    testkit::run(async |db| {
        assert!(
            db.server().has_transactions(),
            "this test needs transactions: run it against a replica set, such as that of docker-compose.yml"
        );
        until_stale(db, true, 1, 3).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repository_leaves_none_where_the_recipes_do() {
    testkit::run(async |db| {
        for (renames, inserts) in [(1, 3), (2, 0), (2, 2)] {
            Naive::start(db, false).await;
            let orders = patient(builder(db.database())).build().unwrap();
            let calls = orders.clone();
            rounds(renames, inserts, move |change| {
                let orders = calls.clone();
                async move {
                    match change {
                        Change::Rename(id, name) => drop(orders.update_source(id, rename(&name)).await.unwrap()),
                        Change::Insert(id, new) => drop(orders.insert(&order(new, id)).await.unwrap()),
                    }
                }
            })
            .await;
            assert_eq!(stale(db).await, 0, "{renames} renames and {inserts} inserts");
            // The orders of the last customer have no version, as those of a program without the repository.
            orders.sweep().await.unwrap();
            assert_current(db, &orders).await;
        }
    })
    .await;
}
