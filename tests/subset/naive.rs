//! The races of three implementations by hand, with 64 writers, compared with the repository.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::subset::Consistency;
use mongo_patterns_testkit::{self as testkit, FailPoint, FailPointGuard, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::subset::support::*;

const PARENTS: i32 = 4;
const SIZE: u32 = 5;

#[derive(Clone, Copy, Debug)]
enum Form {
    /// A `$pull`, and a `$push` of the review that enters the subset.
    PullAndPush,
    /// A read of the first reviews, and a `$set`.
    ReadAndSet,
    /// An aggregation with `$merge`, without a version.
    Merge,
}

#[derive(Clone)]
struct Naive {
    products: Collection<Document>,
    reviews: Collection<Document>,
    form: Form,
}

impl Naive {
    async fn first(&self, parent: i32) -> Vec<Bson> {
        let find = self.reviews.find(doc! { "product_id": parent });
        let find = find
            .sort(doc! { "published_date": -1, "review_id": -1 })
            .limit(SIZE.into());
        let find = find.projection(doc! { "_id": 0, "product_id": 0 });
        let found: Vec<Document> = futures::TryStreamExt::try_collect(find.await.unwrap()).await.unwrap();
        found.into_iter().map(Bson::Document).collect()
    }

    async fn push(&self, parent: i32, reviews: Vec<Bson>) {
        let sort = doc! { "published_date": -1, "review_id": -1 };
        let push = doc! { "$push": { "reviews": { "$each": reviews, "$sort": sort, "$slice": SIZE } } };
        self.products.update_one(doc! { "_id": parent }, push).await.unwrap();
    }

    async fn refresh(&self, parent: i32, deleted: Option<i32>) {
        match self.form {
            Form::PullAndPush => {
                if let Some(id) = deleted {
                    let pull = doc! { "$pull": { "reviews": { "review_id": id } } };
                    self.products.update_one(doc! { "_id": parent }, pull).await.unwrap();
                }
                let first = self.first(parent).await;
                if let Some(last) = first.last() {
                    let id = last.as_document().unwrap().get_i32("review_id").unwrap();
                    let shown = doc! { "_id": parent, "reviews.review_id": id };
                    if self.products.find_one(shown).await.unwrap().is_none() {
                        self.push(parent, vec![last.clone()]).await;
                    }
                }
            }
            Form::ReadAndSet => {
                let set = doc! { "$set": { "reviews": self.first(parent).await } };
                self.products.update_one(doc! { "_id": parent }, set).await.unwrap();
            }
            Form::Merge => {
                let stages = [
                    doc! { "$match": { "product_id": parent } },
                    doc! { "$sort": { "published_date": -1, "review_id": -1 } },
                    doc! { "$limit": SIZE },
                    doc! { "$project": { "_id": 0, "product_id": 0 } },
                    doc! { "$group": { "_id": parent, "reviews": { "$push": "$$ROOT" } } },
                    doc! { "$merge": { "into": "product" } },
                ];
                self.reviews.aggregate(stages).await.unwrap();
            }
        }
    }

    async fn insert(&self, review: &Review) {
        let stored = mongodb::bson::serialize_to_document(review).unwrap();
        self.reviews.insert_one(stored.clone()).await.unwrap();
        let mut embedded = stored;
        embedded.remove("product_id");
        match self.form {
            Form::ReadAndSet => self.refresh(review.product_id, None).await,
            Form::PullAndPush | Form::Merge => self.push(review.product_id, vec![embedded.into()]).await,
        }
    }

    async fn delete(&self, parent: i32, id: i32) {
        let child = doc! { "product_id": parent, "review_id": id };
        self.reviews.delete_one(child).await.unwrap();
        self.refresh(parent, Some(id)).await;
    }
}

async fn prepare(db: &TestDatabase) -> Products {
    let repository = builder(db.database())
        .subset_size(SIZE)
        .consistency(Consistency::Eventual);
    let ours = ready(db, repository).await;
    product(db).delete_many(doc! {}).await.unwrap();
    let parents = (0..PARENTS).map(|id| doc! { "_id": id, "name": "Super Widget", "reviews": [] });
    product(db).insert_many(parents).await.unwrap();
    ours
}

/// Makes one write of a product as slow as many others.
async fn one_slow_update(db: &TestDatabase) -> FailPointGuard {
    let slow = FailPoint::on(&["update"]).times(1).block(Duration::from_millis(400));
    slow.enable(db).await
}

/// Inserts and deletes embedded reviews, by 64 writers.
async fn by_64_writers(naive: Option<Naive>, ours: Products) {
    let writers = (0..64).map(|writer| {
        let (naive, ours) = (naive.clone(), ours.clone());
        tokio::spawn(async move {
            let mut random = Random(writer as u64);
            for n in 0..2 {
                let parent = random.below(PARENTS as u64) as i32;
                let new = review_of(parent, writer * 1000 + n, random.below(60) as i64);
                let is_insert = random.below(2) == 0;
                let shown = match is_insert {
                    true => Vec::new(),
                    false => ours.get(parent).await.unwrap().unwrap().reviews,
                };
                let shown = shown.first().map(|review| review.review_id);
                match (&naive, shown) {
                    (Some(naive), Some(id)) => naive.delete(parent, id).await,
                    (None, Some(id)) => drop(ours.delete(parent, id).await.unwrap()),
                    (Some(naive), None) => naive.insert(&new).await,
                    (None, None) => drop(ours.insert(&new).await.unwrap()),
                }
            }
        })
    });
    for written in join_all(writers).await {
        written.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn implementations_by_hand_leave_stale_subsets() {
    testkit::run(async |db| {
        // A race is random, and only the last writes to a product show it. So there are several rounds, each with one
        // slow write.
        const ROUNDS: usize = 60;
        for form in [Form::PullAndPush, Form::ReadAndSet, Form::Merge] {
            let mut is_wrong = false;
            for _ in 0..ROUNDS {
                let ours = prepare(db).await;
                let naive = Naive {
                    products: db.collection("product"),
                    reviews: db.collection("review"),
                    form,
                };
                let slow = one_slow_update(db).await;
                by_64_writers(Some(naive), ours).await;
                slow.disable().await;
                is_wrong = !wrong(&product(db), &reviews(db), SIZE as usize).await.is_empty();
                if is_wrong {
                    break;
                }
            }
            assert!(is_wrong, "{form:?} is correct");
        }
        for _ in 0..10 {
            let ours = prepare(db).await;
            let slow = one_slow_update(db).await;
            by_64_writers(None, ours).await;
            slow.disable().await;
            assert_eq!(wrong(&product(db), &reviews(db), SIZE as usize).await, []);
        }
    })
    .await;
}
