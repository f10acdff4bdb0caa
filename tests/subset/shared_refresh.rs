//! Concurrent writers of one product in one process share the refreshes of its subset.

use futures::future::join_all;
use mongo_patterns::subset::{Consistency, Inserted};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::ClientSession;
use mongodb::bson::doc;
use tokio::task::JoinHandle;

use crate::subset::support::*;

const WRITERS: i32 = 16;

type Inserting = JoinHandle<Result<Inserted, Error>>;

/// Products, and a transaction that has locked product 1: its refresh waits on the server.
struct Blocked {
    products: Products,
    transaction: ClientSession,
}

impl Blocked {
    /// Caches the version of the product before it locks it.
    async fn of(db: &TestDatabase) -> Self {
        let products = products(db, Consistency::Eventual).await;
        for _ in 0..2 {
            products.rebuild(1).await.unwrap();
        }
        let mut transaction = db.plain_client().start_session().await.unwrap();
        transaction.start_transaction().await.unwrap();
        let touch = doc! { "$set": { "touched": true } };
        let product = product(db);
        let touched = product.update_one(doc! { "_id": 1 }, touch);
        touched.session(&mut transaction).await.unwrap();
        db.recorder().clear();
        Self { products, transaction }
    }

    /// Starts inserts of these reviews, and waits until all are stored.
    async fn insert(&self, db: &TestDatabase, ids: std::ops::Range<i32>) -> Vec<Inserting> {
        let stored = reviews(db).count_documents(doc! {}).await.unwrap();
        let expected = stored + u64::try_from(ids.len()).unwrap();
        let inserting = ids.map(|id| {
            let products = self.products.clone();
            tokio::spawn(async move { products.insert(&review(id)).await })
        });
        let inserting = inserting.collect();
        while reviews(db).count_documents(doc! {}).await.unwrap() < expected {}
        inserting
    }

    /// Starts an insert, and waits until it writes the product.
    async fn first(&self, db: &TestDatabase) -> Inserting {
        let first = self.insert(db, 0..1).await.remove(0);
        db.recorder().sent(3).await;
        assert_eq!(db.recorder().names(), ["insert", "find", "update"]);
        first
    }

    /// Waits until this number of commands have a reply. An insert then waits for its turn.
    async fn all_wait(&self, db: &TestDatabase, commands: usize) {
        let replies = || {
            db.recorder()
                .commands()
                .iter()
                .filter(|sent| sent.reply.is_some())
                .count()
        };
        while replies() < commands {
            tokio::task::yield_now().await;
        }
    }

    async fn unblock(&mut self) {
        self.transaction.abort_transaction().await.unwrap();
    }
}

async fn ended(inserting: Vec<Inserting>) -> Vec<Result<Inserted, Error>> {
    let ended = join_all(inserting).await;
    ended.into_iter().map(Result::unwrap).collect()
}

fn count(db: &TestDatabase, name: &str) -> usize {
    db.recorder().names().iter().filter(|sent| *sent == name).count()
}

async fn is_correct(db: &TestDatabase) -> bool {
    wrong(&product(db), &reviews(db), 10).await.is_empty()
}

#[tokio::test]
async fn waiting_inserts_share_one_refresh() {
    testkit::run(async |db| {
        let mut blocked = Blocked::of(db).await;
        let first = blocked.first(db).await;
        let others = blocked.insert(db, 1..WRITERS).await;
        blocked.all_wait(db, 1 + WRITERS as usize).await;
        blocked.unblock().await;
        assert!(first.await.unwrap().unwrap().wrote_parent);
        let others = ended(others).await;
        let wrote = others.iter().filter(|one| one.as_ref().unwrap().wrote_parent);
        assert_eq!(wrote.count(), 1, "{others:?}");
        for (id, one) in (1..).zip(&others) {
            assert_eq!(one.as_ref().unwrap().in_subset, id >= WRITERS - 10, "{id}");
        }
        assert_eq!(
            [count(db, "insert"), count(db, "find"), count(db, "update")],
            [16, 2, 2]
        );
        assert!(is_correct(db).await);
    })
    .await;
}

#[tokio::test]
async fn a_waiting_insert_takes_over_the_refresh_of_a_dropped_one() {
    testkit::run(async |db| {
        let mut blocked = Blocked::of(db).await;
        let first = blocked.first(db).await;
        let others = blocked.insert(db, 1..WRITERS).await;
        blocked.all_wait(db, 1 + WRITERS as usize).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        blocked.unblock().await;
        let others = ended(others).await;
        assert!(others.iter().all(Result::is_ok), "{others:?}");
        assert!(is_correct(db).await);
        assert!(count(db, "update") <= 4, "{:?}", db.recorder().names());
    })
    .await;
}

#[tokio::test]
async fn the_error_of_a_shared_refresh_reaches_every_insert() {
    testkit::run(async |db| {
        const UNAUTHORIZED: i32 = 13;
        let mut blocked = Blocked::of(db).await;
        let first = blocked.first(db).await;
        let others = blocked.insert(db, 1..WRITERS).await;
        blocked.all_wait(db, 1 + WRITERS as usize).await;
        let fault = FailPoint::on(&["find"])
            .times(1)
            .error_code(UNAUTHORIZED)
            .enable(db)
            .await;
        blocked.unblock().await;
        first.await.unwrap().unwrap();
        for error in ended(others).await {
            let error = error.unwrap_err();
            assert_eq!((error.kind(), error.stored_count()), (ErrorKind::Unauthorized, Some(1)));
            let text = error.to_string();
            assert!(text.contains("the write to the children is stored"), "{text}");
        }
        fault.disable().await;
        assert_eq!(embedded(db).await, [0]);
        blocked.products.insert(&review(WRITERS)).await.unwrap();
        assert!(is_correct(db).await);
    })
    .await;
}

/// The caller's session must see the write to the product, so it shares no refresh of another call.
#[tokio::test]
async fn an_insert_in_a_session_refreshes_itself() {
    testkit::run(async |db| {
        let mut blocked = Blocked::of(db).await;
        let first = blocked.first(db).await;
        let others = blocked.insert(db, 1..3).await;
        let products = blocked.products.clone();
        let client = db.client().clone();
        let in_session = tokio::spawn(async move {
            let mut session = client.start_session().await.unwrap();
            let child = review(50);
            products.insert(&child).session(&mut session).await
        });
        while reviews(db).count_documents(doc! {}).await.unwrap() < 4 {}
        blocked.all_wait(db, 5).await;
        blocked.unblock().await;
        first.await.unwrap().unwrap();
        assert!(ended(others).await.iter().all(Result::is_ok));
        assert!(in_session.await.unwrap().unwrap().wrote_parent);
        assert!(is_correct(db).await);
    })
    .await;
}

/// Products of one lock, and of many: a blocked one lets all others pass.
#[tokio::test]
async fn eventual_writers_of_other_products_never_wait() {
    const PRODUCTS: i32 = 200;
    testkit::run(async |db| {
        let mut blocked = Blocked::of(db).await;
        let first = blocked.first(db).await;
        for id in 2..=PRODUCTS {
            add_product(db, id).await;
            let inserted = blocked.products.insert(&review_of(id, id, 0)).await.unwrap();
            assert!(inserted.wrote_parent);
        }
        assert!(!first.is_finished());
        blocked.unblock().await;
        first.await.unwrap().unwrap();
        assert!(is_correct(db).await);
    })
    .await;
}
