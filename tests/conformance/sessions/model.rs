//! The calls of a repository that take a session.

use futures::future::LocalBoxFuture;
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;

/// The calls of a repository that has checked its indexes.
pub(super) trait Calls: Sized + 'static {
    const NAME: &'static str;

    /// Stores the first documents.
    async fn begin(db: &TestDatabase) -> Self;
    fn repository(&self) -> &dyn Repository;
    /// Makes each call once, also calls that are refused. They see the writes of those before.
    async fn all(&self, session: &mut ClientSession);
    /// Reads a document.
    async fn read(&self, session: &mut ClientSession);
    /// Adds a number to this document.
    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()>;
    /// Returns the numbers that the document has, in any order, without the repository.
    async fn added(&self, db: &TestDatabase) -> Vec<i64>;
}

/// [`Calls`] without the type: the tests are compiled once, and not for each pattern.
pub(super) trait AnyCalls {
    fn repository(&self) -> &dyn Repository;
    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()>;
    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()>;
    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>>;
    /// Sorted.
    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>>;
}

pub(super) struct Of<C>(pub(super) C);

impl<C: Calls> AnyCalls for Of<C> {
    fn repository(&self) -> &dyn Repository {
        self.0.repository()
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(self.0.all(session))
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(self.0.read(session))
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(self.0.add(session, n))
    }

    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let mut numbers = self.0.added(db).await;
            numbers.sort_unstable();
            numbers
        })
    }
}
