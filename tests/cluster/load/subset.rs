//! Tasks that write reviews, by repositories of several processes, and without a repository but with a follower.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use mongo_patterns::subset::{Finding, Followed};
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_core::Error;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc, serialize_to_document};
use mongodb::options::{ReadConcern, TransactionOptions};
use tokio::sync::watch;

use super::calls::{Load, Outcome, lock};
use support::subset::{Products, Review, builder, review_of, truth, wrong};

/// The number of products, which all writers write.
pub const PRODUCTS: i32 = 4;
const NAME: &str = "reviews";

/// All reviews, and their expected authors at the end.
#[derive(Debug)]
pub struct Reviews {
    load: Arc<Load>,
    next: AtomicI64,
    /// The stored reviews, with their authors.
    expected: Mutex<BTreeMap<i32, String>>,
}

impl Reviews {
    pub fn new(load: &Arc<Load>) -> Arc<Self> {
        Arc::new(Self {
            load: Arc::clone(load),
            next: AtomicI64::new(0),
            expected: Mutex::default(),
        })
    }

    /// Inserts, updates and deletes until the load stops. Each call is retried until it is known to have succeeded.
    pub async fn write(self: Arc<Self>, products: Products) {
        let [insert, update, delete] = ["subset insert", "subset update", "subset delete"];
        while self.load.continues().await {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let id = i32::try_from(n).unwrap();
            let product = id % PRODUCTS;
            // Newer and older reviews in turn, so that some do not belong to the subset.
            let review: Review = review_of(product, id, n - n % 5 * 4);
            let is_dropped = self.load.store(insert, n, || products.insert(&review)).await;
            lock(&self.expected).insert(id, review.review_author);
            if n % 3 == 0 {
                let author = format!("Pablo {n}");
                let set = || doc! { "$set": { "review_author": author.as_str() } };
                self.until_done(update, n, || products.update(product, id, set())).await;
                lock(&self.expected).insert(id, author.clone());
            }
            // A dropped insert can be executed after everything else.
            if n % 4 == 0 && !is_dropped {
                self.until_done(delete, n, || products.delete(product, id)).await;
                lock(&self.expected).remove(&id);
            }
        }
    }

    async fn until_done<T, A>(&self, kind: &'static str, n: i64, call: impl Fn() -> A + Send)
    where
        A: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
    {
        let mut attempt = n;
        loop {
            match self.load.call(kind, attempt, call()).await {
                Outcome::Done(_) => return,
                Outcome::Refused(ErrorKind::ChildNotFound) => panic!("{kind}: review {n} is lost"),
                _ => attempt += 1,
            }
            self.load.continues().await;
        }
    }

    /// Compares the stored reviews with the outcomes of the writers. Returns the number of reviews.
    pub async fn judge(&self, database: &Database) -> usize {
        let (_, children) = collections(database);
        let stored: Vec<Document> = children.find(doc! {}).await.unwrap().try_collect().await.unwrap();
        let mut authors = BTreeMap::new();
        for review in &stored {
            let author = review.get_str("review_author").unwrap().to_owned();
            let doubled = authors.insert(review.get_i32("review_id").unwrap(), author);
            assert_eq!(doubled, None);
        }
        let expected = lock(&self.expected).clone();
        let differ = |id: &&i32| authors.get(*id) != expected.get(*id);
        let differ: Vec<&i32> = expected.keys().chain(authors.keys()).filter(differ).collect();
        assert_eq!(differ, Vec::<&i32>::new(), "acknowledged reviews differ");

        assert_correct(database).await;
        stored.len()
    }
}

pub fn repository(database: &Database) -> Products {
    builder(database).build().unwrap()
}

fn collections(database: &Database) -> (mongodb::Collection<Document>, mongodb::Collection<Document>) {
    (database.collection("product"), database.collection("review"))
}

/// Inserts the products of all writers.
pub async fn prepare(database: &Database) {
    repository(database).ensure_indexes().await.unwrap();
    let products = (0..PRODUCTS).map(|id| doc! { "_id": id, "name": "Super Widget" });
    collections(database).0.insert_many(products).await.unwrap();
}

async fn findings(products: &Products) -> Vec<Finding> {
    products.verify().stream().try_collect().await.unwrap()
}

/// Checks all subsets, by the test's own computation and by verify.
pub async fn assert_correct(database: &Database) {
    let (parents, children) = collections(database);
    assert_eq!(wrong(&parents, &children, 10).await, [] as [Bson; 0]);
    assert_eq!(findings(&repository(database)).await, []);
}

/// Reads products and their reviews in one snapshot, until the load stops: the subsets are correct in each.
pub async fn read_snapshots(load: Arc<Load>, database: Database) {
    let (parents, children) = collections(&database);
    while load.continues().await {
        let snapshot_read = async {
            let mut session = database.client().start_session().await?;
            let snapshot = TransactionOptions::builder().read_concern(ReadConcern::snapshot());
            session.start_transaction().with_options(snapshot.build()).await?;
            for id in 0..PRODUCTS {
                let product = parents.find_one(doc! { "_id": id }).session(&mut session).await?;
                let first = children.find(doc! { "product_id": id });
                let first = first.sort(doc! { "published_date": -1, "review_id": -1 }).limit(10);
                let mut first = first.session(&mut session).await?;
                let first: Vec<Document> = first.stream(&mut session).try_collect().await?;
                let shown = product.unwrap().get_array("reviews").cloned().unwrap_or_default();
                assert_eq!(shown, truth(&id.into(), &first, 10));
            }
            Ok(session.commit_transaction().await?)
        };
        load.read("subset snapshot read", snapshot_read).await;
    }
}

/// Writes reviews without a repository, until the load stops.
pub async fn write_without_repository(load: Arc<Load>, database: Database) {
    let children = collections(&database).1;
    for id in 0.. {
        if !load.continues().await {
            return;
        }
        let product = id % PRODUCTS;
        let review = serialize_to_document(&review_of(product, id, (id - id % 5 * 4).into())).unwrap();
        let insert = || async {
            match children.insert_one(&review).await {
                Err(error) if mongo_patterns_core::error::duplicate_key(&error).is_some() => Ok(()),
                inserted => inserted.map(drop).map_err(Error::from),
            }
        };
        until_done(&load, "plain insert", insert).await;
        let one = doc! { "product_id": product, "review_id": id };
        if id % 3 == 0 {
            let changed = (product + 1) % PRODUCTS;
            let set = doc! { "$set": { "product_id": changed } };
            let update = || async {
                let updated = children.update_one(one.clone(), set.clone()).await;
                updated.map(drop).map_err(Error::from)
            };
            until_done(&load, "plain update", update).await;
        }
        if id % 4 == 0 {
            let delete = || async {
                let deleted = children.delete_many(doc! { "review_id": id }).await;
                deleted.map(drop).map_err(Error::from)
            };
            until_done(&load, "plain delete", delete).await;
        }
    }
}

async fn until_done<F>(load: &Load, kind: &'static str, call: impl Fn() -> F)
where
    F: Future<Output = Result<(), Error>> + Send,
{
    let mut attempt = 1;
    while !load.call(kind, attempt, Box::pin(call())).await.is_done() {
        attempt += 1;
        load.continues().await;
    }
}

/// Runs a follower until it is stopped, and reports its progress. It must not end by itself, whatever happens to the
/// servers.
pub async fn follow(
    database: Database,
    at: watch::Sender<Followed>,
    mut stop: watch::Receiver<bool>,
) -> Result<Followed, Error> {
    let products = repository(&database);
    let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
    let report = move |followed| {
        at.send_replace(followed);
    };
    let follow = products.follow(NAME).enable_pre_images().until(stopped);
    follow.on_progress(report).await
}
