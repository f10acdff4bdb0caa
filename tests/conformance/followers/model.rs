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
pub(super) struct Follows {
    pub(super) name: &'static str,
    /// A process of the tests that follows until it is killed.
    pub(super) program: &'static str,
    /// The collections that it watches.
    pub(super) watched: &'static [&'static str],
    /// Creates the indexes, and stores the first documents.
    pub(super) fill: for<'a> fn(&'a TestDatabase) -> LocalBoxFuture<'a, ()>,
    /// Returns a repository.
    pub(super) repository: fn(&Database) -> Box<dyn Repository>,
    /// Writes of every kind by a program without the repository. Each round is another one.
    pub(super) write_plainly: for<'a> fn(&'a TestDatabase, u32) -> LocalBoxFuture<'a, ()>,
    /// A write by a repository. Each `n` is another one.
    pub(super) write: for<'a> fn(&'a Database, u32) -> LocalBoxFuture<'a, ()>,
    /// Follows, by a repository of a process of its own.
    pub(super) follow: for<'a> fn(&'a Database, How) -> LocalBoxFuture<'a, Result<Followed>>,
    /// Checks that all changes have been followed, and none twice.
    pub(super) check: for<'a> fn(&'a TestDatabase, &'a str) -> LocalBoxFuture<'a, ()>,
    /// Whether it needs pre-images of the first collection that it watches.
    pub(super) needs_pre_images: bool,
}

/// Describes a follower. The asynchronous functions are boxed.
macro_rules! follower {
    (name: $name:expr, program: $program:expr, watched: $watched:expr, fill: |$fill_db:ident| $fill:expr,
        repository: $repository:expr, write_plainly: |$db:ident, $round:ident| $write_plainly:expr,
        write: |$database:ident, $n:ident| $write:expr, follow: |$followed:ident, $how:ident| $follow:expr,
        check: |$check_db:ident, $context:ident| $check:expr, needs_pre_images: $needs_pre_images:expr $(,)?) => {
        Follows {
            name: $name,
            program: $program,
            watched: $watched,
            fill: |$fill_db| Box::pin(async move { $fill }),
            repository: $repository,
            write_plainly: |$db, $round| Box::pin(async move { $write_plainly }),
            write: |$database, $n| Box::pin(async move { $write }),
            follow: |$followed, $how| Box::pin(async move { $follow }),
            check: |$check_db, $context| Box::pin(async move { $check }),
            needs_pre_images: $needs_pre_images,
        }
    };
}

pub(super) use follower;

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
    pub(super) follower: &'a Follows,
}

impl Case<'_> {
    /// Stores the first documents in place of all others, and follows them.
    pub(super) async fn begin(&self) {
        drop_all(self.db).await;
        (self.follower.fill)(self.db).await;
        self.until_current().await;
        self.db.recorder().clear();
    }

    /// Returns the database by the client that is not recorded.
    pub(super) fn plain(&self) -> Database {
        self.db.plain_client().database(self.db.database().name())
    }

    pub(super) async fn follow(&self, how: How) -> Result<Followed> {
        (self.follower.follow)(self.db.database(), how).await
    }

    /// Follows until it is current.
    pub(super) async fn until_current(&self) -> Followed {
        let followed = self.follow(How::default()).await;
        followed.unwrap_or_else(|error| panic!("{}: {error:?}", self.follower.name))
    }

    /// Returns the positions of the followers.
    pub(super) async fn records(&self) -> Vec<Document> {
        let mut records = all(&self.db.plain_collection::<Document>("mongo_patterns")).await;
        records.retain(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "follower");
        records
    }
}
