//! The manual's recipe leaves stale copies, also with each call in a transaction: a rename and an insert write different
//! documents, so snapshot isolation lets both commit. The same work by the repository leaves none.

use std::sync::Arc;

use futures::future::join_all;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::{ClientSession, Collection};
use tokio::sync::Barrier;

use crate::reference::support::*;

const ROUNDS: i32 = 60;

/// The two collections, as a program without the repository uses them. A call can be one of several in a transaction.
struct Naive {
    orders: Collection<Document>,
    customers: Collection<Document>,
}

impl Naive {
    /// Stores customers with 20 orders each.
    async fn start(db: &TestDatabase) -> Self {
        orders(db).await;
        add_customers(db, 0..=ROUNDS).await;
        let database = db.plain_client().database(db.database().name());
        for customer in 0..=ROUNDS {
            let of_customer = (0..20).map(|n| new_order(format!("{customer}/{n}"), &self::customer(customer, "Ann")));
            stored(db).insert_many(of_customer).await.unwrap();
        }
        Self {
            orders: database.collection("orders"),
            customers: database.collection("customers"),
        }
    }

    async fn session(&self) -> ClientSession {
        self.orders.client().start_session().await.unwrap()
    }

    /// The first command of a rename.
    async fn rename_customer(&self, name: &str, session: &mut ClientSession) {
        let renamed = self.customers.update_one(doc! { "_id": 1 }, rename(name));
        renamed.session(session).await.unwrap();
    }

    /// The second command of a rename.
    async fn rename_copies(&self, name: &str, session: &mut ClientSession) {
        let update = doc! { "$set": { "customer.name": name } };
        let copies = self.orders.update_many(doc! { "customer._id": 1 }, update);
        assert_eq!(copies.session(session).await.unwrap().modified_count, 20);
    }

    /// The first command of an insert.
    async fn read(&self, session: &mut ClientSession) -> Document {
        let customer = self.customers.find_one(doc! { "_id": 1 });
        customer.session(session).await.unwrap().unwrap()
    }

    /// The second command of an insert.
    async fn insert(&self, customer: &Document, session: &mut ClientSession) {
        let order = self.orders.insert_one(new_order("new", customer));
        order.session(session).await.unwrap();
    }
}

/// Returns an order with a copy of a customer.
fn new_order(id: impl Into<mongodb::bson::Bson>, customer: &Document) -> Document {
    let mut copy = customer.clone();
    copy.remove("visits");
    doc! { "_id": id, "customer": copy }
}

/// Returns how many copies differ from their customer.
async fn stale(db: &TestDatabase) -> usize {
    judge(db).await.stale
}

#[tokio::test]
async fn two_renames_by_the_manuals_recipe_leave_stale_copies() {
    testkit::run(async |db| {
        let naive = Naive::start(db).await;
        let [mut a, mut b] = [naive.session().await, naive.session().await];
        naive.rename_customer("Bea", &mut a).await;
        naive.rename_customer("Cas", &mut b).await;
        naive.rename_copies("Cas", &mut b).await;
        naive.rename_copies("Bea", &mut a).await;
        assert_eq!(stale(db).await, 20);
    })
    .await;
}

#[tokio::test]
async fn an_insert_by_the_manuals_recipe_misses_a_rename() {
    testkit::run(async |db| {
        let naive = Naive::start(db).await;
        let [mut a, mut b] = [naive.session().await, naive.session().await];
        let customer = naive.read(&mut a).await;
        naive.rename_customer("Bea", &mut b).await;
        naive.rename_copies("Bea", &mut b).await;
        assert_eq!(stale(db).await, 0);
        naive.insert(&customer, &mut a).await;
        assert_eq!(stale(db).await, 1);
    })
    .await;
}

/// Both commit: they wrote no document in common.
#[tokio::test]
async fn an_insert_in_a_transaction_misses_a_rename_in_another_one() {
    testkit::run(async |db| {
        assert!(
            db.server().has_transactions(),
            "this test needs transactions: run it against a replica set, such as that of docker-compose.yml"
        );
        let naive = Naive::start(db).await;
        let [mut a, mut b] = [naive.session().await, naive.session().await];
        a.start_transaction().await.unwrap();
        b.start_transaction().await.unwrap();
        let customer = naive.read(&mut a).await;
        naive.rename_customer("Bea", &mut b).await;
        naive.rename_copies("Bea", &mut b).await;
        b.commit_transaction().await.unwrap();
        assert_eq!(stale(db).await, 0);
        naive.insert(&customer, &mut a).await;
        a.commit_transaction().await.unwrap();
        assert_eq!(stale(db).await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repository_leaves_none_where_the_recipes_do() {
    testkit::run(async |db| {
        for (renames, inserts) in [(1, 3), (2, 0), (2, 2)] {
            Naive::start(db).await;
            let orders = patient(builder(db.database())).build().unwrap();
            let barrier = Arc::new(Barrier::new(renames + inserts));
            let writers = (0..renames + inserts).map(|writer| {
                let (barrier, orders) = (Arc::clone(&barrier), orders.clone());
                tokio::spawn(async move {
                    for customer in 0..ROUNDS {
                        let name = format!("{writer}-{customer}");
                        barrier.wait().await;
                        if writer < renames {
                            orders.update_source(customer, rename(&name)).await.unwrap();
                        } else {
                            orders.insert(&order(name, customer)).await.unwrap();
                        }
                    }
                })
            });
            join_all(writers).await.into_iter().for_each(|written| written.unwrap());
            assert_eq!(stale(db).await, 0, "{renames} renames and {inserts} inserts");
            // The orders of the last customer have no version, as those of a program without the repository.
            orders.sweep().await.unwrap();
            assert_current(db, &orders).await;
        }
    })
    .await;
}
