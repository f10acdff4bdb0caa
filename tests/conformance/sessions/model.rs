//! The calls of a repository that take a session.

use futures::future::LocalBoxFuture;
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;

/// The calls of a repository.
pub(super) trait Calls {
    fn repository(&self) -> &dyn Repository;

    /// Makes each call once, also calls that are refused. They see the writes of those before.
    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()>;

    /// Reads a document.
    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()>;

    /// Adds a number to this document.
    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>>;

    /// Returns the numbers that the document has, without the repository.
    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>>;
}
