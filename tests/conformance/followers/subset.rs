//! Subsets: reviews that other programs write.

use futures::future::LocalBoxFuture;
use mongo_patterns::{Repository, Result};
use mongo_patterns_core::follow::Followed;
use mongo_patterns_testkit::TestDatabase;
use mongodb::Database;

use super::model::{Follows, How, NAME, follow};
use support::subset::follower::{assert_right, followed, write_plainly};
use support::subset::{Products, builder, review_of, reviews};

const PARENTS: i32 = 3;

pub(super) struct Reviews;

fn products(database: &Database) -> Products {
    builder(database).build().unwrap()
}

impl Follows for Reviews {
    fn name(&self) -> &'static str {
        "subset"
    }

    fn program(&self) -> &'static str {
        env!("CARGO_BIN_EXE_follow-reviews")
    }

    fn watched(&self) -> &'static [&'static str] {
        &["review"]
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(followed(db, PARENTS).await) })
    }

    fn repository(&self, database: &Database) -> Box<dyn Repository> {
        Box::new(products(database))
    }

    fn write_plainly<'a>(&'a self, db: &'a TestDatabase, round: u32) -> LocalBoxFuture<'a, ()> {
        let round = round.try_into().unwrap();
        Box::pin(async move { write_plainly(&reviews(db), PARENTS, round, 12).await })
    }

    fn write<'a>(&'a self, database: &'a Database, n: u32) -> LocalBoxFuture<'a, ()> {
        let n = i32::try_from(n).unwrap();
        let review = review_of(1 + n % PARENTS, 2_000_000_000 + n, n.into());
        Box::pin(async move {
            products(database).insert(&review).await.unwrap();
        })
    }

    fn follow<'a>(&'a self, database: &'a Database, how: How) -> LocalBoxFuture<'a, Result<Followed>> {
        Box::pin(async move {
            let products = products(database);
            let mut following = products.follow(NAME);
            if !how.leaves_pre_images {
                following = following.enable_pre_images();
            }
            follow!(following, how)
        })
    }

    fn check<'a>(&'a self, db: &'a TestDatabase, context: &'a str) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { assert_right(db, &products(db.database()), context).await })
    }
}
