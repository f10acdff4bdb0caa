//! One follower, and how it is called.

use std::time::Duration;

use futures::future::LocalBoxFuture;
use mongo_patterns::{Repository, Result};
use mongo_patterns_core::follow::Followed;
use mongo_patterns_testkit::TestDatabase;
use mongodb::Database;
use mongodb::bson::Document;

use support::common::{all, drop_all};

/// The name of each follower.
pub(super) const NAME: &str = "conformance";

/// The follower of a pattern.
pub(super) trait Follows: Sync {
    fn name(&self) -> &'static str;

    /// A program of the tests that follows until it is killed.
    fn program(&self) -> &'static str;

    /// The collections that it watches.
    fn watched(&self) -> &'static [&'static str];

    /// Creates the indexes, and stores the first documents.
    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()>;

    /// Returns a repository.
    fn repository(&self, database: &Database) -> Box<dyn Repository>;

    /// Writes of every kind by a program without the repository. Each round is another one.
    fn write_plainly<'a>(&'a self, db: &'a TestDatabase, round: u32) -> LocalBoxFuture<'a, ()>;

    /// A write by a repository. Each `n` is another one.
    fn write<'a>(&'a self, database: &'a Database, n: u32) -> LocalBoxFuture<'a, ()>;

    /// Follows, by a repository of a process of its own.
    fn follow<'a>(&'a self, database: &'a Database, how: How) -> LocalBoxFuture<'a, Result<Followed>>;

    /// Checks that all changes have been followed, and none twice.
    fn check<'a>(&'a self, db: &'a TestDatabase, context: &'a str) -> LocalBoxFuture<'a, ()>;

    /// Whether it needs pre-images of the first collection that it watches.
    fn needs_pre_images(&self) -> bool {
        true
    }
}

/// The options of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    pub(super) is_endless: bool,
    pub(super) is_without_repair: bool,
    pub(super) leaves_pre_images: bool,
    pub(super) max_retry_time: Option<Duration>,
}

/// Sets the options of a call, and awaits it.
macro_rules! follow {
    ($follow:expr, $how:expr) => {{
        let (mut follow, how) = ($follow, $how);
        if !how.is_endless {
            follow = follow.run_until_current();
        }
        if how.is_without_repair {
            follow = follow.disable_repair();
        }
        if let Some(time) = how.max_retry_time {
            follow = follow.max_retry_time(time);
        }
        follow.await
    }};
}

pub(super) use follow;

/// A follower in a test.
pub(super) struct Case<'a> {
    pub(super) db: &'a TestDatabase,
    pub(super) follower: &'a dyn Follows,
}

impl Case<'_> {
    /// Stores the first documents in place of all others, and follows them.
    pub(super) async fn begin(&self) {
        drop_all(self.db).await;
        self.follower.fill(self.db).await;
        self.until_current().await;
        self.db.recorder().clear();
    }

    /// Returns the database by the client that is not recorded.
    pub(super) fn plain(&self) -> Database {
        self.db.plain_client().database(self.db.database().name())
    }

    pub(super) async fn follow(&self, how: How) -> Result<Followed> {
        self.follower.follow(self.db.database(), how).await
    }

    /// Follows until it is current.
    pub(super) async fn until_current(&self) -> Followed {
        let followed = self.follow(How::default()).await;
        followed.unwrap_or_else(|error| panic!("{}: {error:?}", self.follower.name()))
    }

    /// Returns the positions of the followers.
    pub(super) async fn records(&self) -> Vec<Document> {
        let mut records = all(&self.db.plain_collection::<Document>("mongo_patterns")).await;
        records.retain(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "follower");
        records
    }
}
