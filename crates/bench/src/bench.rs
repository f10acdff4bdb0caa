//! What the sections of all patterns share.

use anyhow::Result;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::Document;
use mongodb::{Client, Collection, Database};

/// The environment of all sections.
pub(crate) struct Bench<'a> {
    pub(crate) db: &'a TestDatabase,
    /// A client with a connection for each of many tasks. The driver has ten by default.
    pub(crate) wide: Database,
    pub(crate) quick: bool,
    /// The number of rounds, after one warm-up round.
    pub(crate) rounds: usize,
}

impl Bench<'_> {
    /// Returns the size for a full run, or the one for a quick run.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Returns a collection by a client without a recorder, for measurements of time.
    pub(crate) fn collection(&self, name: &str) -> Collection<Document> {
        self.db.plain_collection(name)
    }

    /// Returns a collection by a client with a connection for each task.
    pub(crate) fn wide(&self, name: &str) -> Collection<Document> {
        self.wide.collection(name)
    }

    /// Returns a collection by a client whose commands are recorded, for counts.
    pub(crate) fn recorded(&self, name: &str) -> Collection<Document> {
        self.db.collection(name)
    }
}

/// Returns the database of the run by a client with this number of connections at most.
pub(crate) async fn client(db: &TestDatabase, connections: u32) -> Result<Database> {
    let mut options = db.server().client_options().await?;
    options.max_pool_size = Some(connections);
    Ok(Client::with_options(options)?.database(db.database().name()))
}
