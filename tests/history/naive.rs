//! The recipes of MongoDB's manual and of its agent skills lose updates and revisions, and store revisions twice. The same
//! work by the repository does not.

use futures::future::join_all;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, doc};

use crate::history::support::*;

const WRITERS: usize = 8;
const CHANGES: usize = 40;

/// The two collections, as a program without the repository uses them.
#[derive(Clone)]
struct Naive {
    current: Collection<Document>,
    revisions: Collection<Document>,
}

impl Naive {
    /// Stores one policy with its first revision, without any index.
    async fn start(db: &TestDatabase) -> Self {
        let naive = Self {
            current: current(db),
            revisions: revisions(db),
        };
        naive.current.drop().await.unwrap();
        naive.revisions.drop().await.unwrap();
        let mut first = policy(1);
        first.extend(doc! { "revision": 1, "dateSet": DateTime::now() });
        naive.current.insert_one(&first).await.unwrap();
        naive.revisions.insert_one(first).await.unwrap();
        naive
    }

    /// The manual's first command.
    async fn update(&self, item: &str) {
        let update = doc! {
            "$push": { "itemsInsured": item }, "$inc": { "revision": 1 }, "$currentDate": { "dateSet": true },
        };
        self.current.update_one(doc! { "policyId": 1 }, update).await.unwrap();
    }

    /// The manual's second command.
    async fn copy(&self) {
        let into = doc! { "db": self.revisions.namespace().db, "coll": self.revisions.name() };
        let stages = [
            doc! { "$match": { "policyId": 1 } },
            doc! { "$set": { "_id": ObjectId::new() } },
            doc! { "$merge": { "into": into, "on": "_id", "whenNotMatched": "insert" } },
        ];
        self.current.aggregate(stages).await.unwrap();
    }

    /// The recipe of the agent skills: find, insert a copy, update.
    async fn find_copy_update(&self, item: &str) {
        let found = self.current.find_one(doc! { "policyId": 1 }).await.unwrap().unwrap();
        let mut copy = found.clone();
        copy.remove("_id");
        self.revisions.insert_one(copy).await.unwrap();
        let mut items = found.get_array("itemsInsured").unwrap().clone();
        items.push(item.into());
        let set = doc! { "itemsInsured": items, "revision": found.get_i32("revision").unwrap() + 1 };
        let update = self.current.update_one(doc! { "policyId": 1 }, doc! { "$set": set });
        update.await.unwrap();
    }
}

/// Runs eight writers of forty changes each, each with an item of its own.
async fn by_8_writers<F: Future<Output = ()> + Send + 'static>(change: impl Fn(String) -> F + Clone + Send + 'static) {
    let writers = (0..WRITERS).map(|writer| {
        let change = change.clone();
        tokio::spawn(async move {
            for n in 0..CHANGES {
                change(format!("{writer}-{n}")).await;
            }
        })
    });
    join_all(writers).await.into_iter().for_each(|written| written.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manuals_two_commands_leave_gaps_and_store_revisions_twice() {
    testkit::run(async |db| {
        let naive = Naive::start(db).await;
        by_8_writers(move |item| {
            let naive = naive.clone();
            async move {
                naive.update(&item).await;
                naive.copy().await;
            }
        })
        .await;
        let wrong = judge(db, 1).await;
        assert_eq!(wrong.items, WRITERS * CHANGES, "its update is atomic");
        assert!(wrong.missing > 0 && wrong.doubled > 0, "{wrong:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_copy_update_loses_acknowledged_updates_and_stores_revisions_twice() {
    testkit::run(async |db| {
        let naive = Naive::start(db).await;
        by_8_writers(move |item| {
            let naive = naive.clone();
            async move { naive.find_copy_update(&item).await }
        })
        .await;
        let wrong = judge(db, 1).await;
        assert!(wrong.items < WRITERS * CHANGES && wrong.doubled > 0, "{wrong:?}");
    })
    .await;
}

/// A process that dies between the two commands leaves a gap that no later write fills.
#[tokio::test]
async fn the_manuals_form_killed_between_its_commands_leaves_a_gap() {
    testkit::run(async |db| {
        let naive = Naive::start(db).await;
        for n in 0..6 {
            naive.update(&n.to_string()).await;
            if n != 3 {
                naive.copy().await;
            }
        }
        let wrong = judge(db, 1).await;
        assert_eq!((wrong.missing, wrong.doubled, wrong.items), (1, 0, 6));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repository_loses_nothing_where_the_recipes_do() {
    testkit::run(async |db| {
        for form in BOTH {
            let policies = policies(db, form).await;
            policies.insert(&policy(1)).await.unwrap();
            by_8_writers(move |item| {
                let policies = policies.clone();
                async move {
                    policies.update(1, push(&item)).await.unwrap();
                }
            })
            .await;
            let expected = Judged {
                items: WRITERS * CHANGES,
                revision: (WRITERS * CHANGES + 1) as i64,
                ..Judged::default()
            };
            assert_eq!(judge(db, 1).await, expected, "{form:?}");
        }
    })
    .await;
}
