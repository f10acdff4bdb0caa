//! Histories: policies that other programs write.

use futures::future::LocalBoxFuture;
use mongo_patterns::{Repository, Result};
use mongo_patterns_core::follow::Followed;
use mongo_patterns_testkit::TestDatabase;
use mongodb::Database;
use mongodb::bson::doc;

use super::model::{Follows, How, NAME, follow};
use support::history;
use support::history::follow::{assert_recorded, push_plainly};
use support::history::{builder, copies, current, items, policies, policy, push};

pub(super) struct Policies;

fn repository(database: &Database) -> history::Policies {
    builder(database).build().unwrap()
}

impl Follows for Policies {
    fn name(&self) -> &'static str {
        "history"
    }

    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_follow-policies")
    }

    fn watched(&self) -> &'static [&'static str] {
        &["currentPolicies"]
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let policies = policies(db).await;
            for id in 1..=3 {
                policies.insert(&policy(id)).await.unwrap();
            }
        })
    }

    fn repository(&self, database: &Database) -> Box<dyn Repository> {
        Box::new(repository(database))
    }

    /// Policy 1 gets two updates, policy 2 is deleted and inserted again, and policy 3 is replaced.
    fn write_plainly<'a>(&'a self, db: &'a TestDatabase, round: u32) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            for n in 0..2 {
                push_plainly(db, 1, &format!("{round}-{n}")).await;
            }
            let current = current(db);
            current.delete_one(doc! { "policyId": 2 }).await.unwrap();
            let of = |id: i32| {
                let mut policy = policy(id);
                policy.insert("round", round);
                policy
            };
            current.insert_one(of(2)).await.unwrap();
            current.replace_one(doc! { "policyId": 3 }, of(3)).await.unwrap();
        })
    }

    fn write<'a>(&'a self, database: &'a Database, n: u32) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let pushed = push(&format!("own {n}"));
            repository(database).update(1, pushed).await.unwrap();
        })
    }

    fn follow<'a>(&'a self, database: &'a Database, how: How) -> LocalBoxFuture<'a, Result<Followed>> {
        Box::pin(async move {
            let policies = repository(database);
            let mut following = policies.follow(NAME);
            if !how.leaves_pre_images {
                following = following.enable_pre_images();
            }
            follow!(following, how)
        })
    }

    fn check<'a>(&'a self, db: &'a TestDatabase, context: &'a str) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            assert_recorded(db, &repository(db.database()), context).await;
            let copies = copies(db, 1).await;
            let stored = copies.iter().filter(|copy| !copy.contains_key("deleted"));
            let lengths: Vec<usize> = stored.map(|copy| items(copy).len()).collect();
            let grows = lengths.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(grows, "{context}: a state is stored twice: {lengths:?}");
        })
    }
}
