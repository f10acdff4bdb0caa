//! The call that shards the collections of a repository.

use mongodb::Namespace;
use mongodb::bson::Document;

use super::cluster::{self, Existing, Refusal};
use super::commands::{self, explained};
use super::verify::read_collections;
use crate::action::ActionFuture;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::index::{Ensure, EnsuredIndexes, IndexPlan, Managed, State};
use crate::plan::PlannedCommand;
use crate::retry::busy::Busy;
use crate::topology::Topology;

crate::action! {
    /// Shards the collections of a repository, and creates its indexes; returned by
    /// [`Repository::ensure_sharded`](crate::Repository::ensure_sharded).
    pub struct EnsureSharded<'a> {
        shared: Ensure<'a>,
        hashed: bool,
    }
    "ensure_sharded" => EnsuredSharding
}

/// The result of `ensure_sharded()`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EnsuredSharding {
    /// The collections.
    pub collections: Vec<ShardedCollection>,
    /// The indexes of the repository, and among the created ones those that support a shard key.
    pub indexes: EnsuredIndexes,
}

/// A sharded collection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShardedCollection {
    /// Database and collection.
    pub namespace: Namespace,
    /// Its shard key.
    pub key: Document,
    /// Whether this call sharded it. `false` when it was sharded already.
    pub sharded: bool,
}

/// What a call does with a collection.
struct Work<'a> {
    managed: &'a Managed,
    existing: Option<Existing>,
    key: Document,
    /// The index that supports the key, if it is missing.
    support: Option<IndexPlan>,
    present: Vec<Document>,
}

impl<'a> EnsureSharded<'a> {
    /// Creates the action.
    #[doc(hidden)]
    pub fn new(shared: Ensure<'a>) -> Self {
        Self::create(shared, false)
    }

    crate::setters! {
        /// Uses the hashed form of the shard keys, which distributes ascending keys or ids over all shards. A collection
        /// with another suitable key keeps it.
        hashed() => hashed = true;
    }

    /// Returns the commands that the call would send, in order, and writes nothing.
    ///
    /// On a server that is not the router of a sharded cluster, it assumes a cluster on which nothing is sharded, and
    /// returns no [`Unsupported`](ErrorKind::Unsupported).
    pub fn plan(self) -> ActionFuture<'a, Vec<PlannedCommand>> {
        let call = self.shared.operation("ensure_sharded");
        crate::action::run(call, async move {
            let mut conn = Conn::plan();
            run(&self.shared, self.hashed, &mut conn).await?;
            Ok(conn.into_commands())
        })
    }

    async fn execute(self) -> Result<EnsuredSharding> {
        run(&self.shared, self.hashed, &mut Conn::new()).await
    }
}

async fn run(ensure: &Ensure<'_>, hashed: bool, conn: &mut Conn<'_>) -> Result<EnsuredSharding> {
    let topology = Topology::read(ensure.call.collection, conn).await?;
    let has_router = topology == Topology::Router;
    if !has_router && !conn.is_plan() {
        ensure.check_topology(topology)?;
        return Err(unsupported());
    }
    let mut work = decide(ensure, hashed, has_router, conn).await?;
    let state = ensure.check(conn).await?;
    if work.iter().any(|work| work.existing.is_none()) {
        ensure.check_collections(conn).await?;
        for work in &mut work {
            work.prepare(state, conn).await?;
        }
    }
    ensure.check_documents(state, conn).await?;
    let mut created = Vec::new();
    for work in &work {
        if let Some(support) = &work.support {
            let ensured = support.create_missing(conn, &work.present).await?;
            created.extend(ensured.created.into_iter().map(|name| (support.namespace(), name)));
        }
    }
    for work in &mut work {
        work.shard(conn).await?;
    }
    let mut indexes = ensure.write(state, &created, conn).await?;
    indexes.created.splice(0..0, created.into_iter().map(|(_, name)| name));
    let collections = work.into_iter().map(Work::result).collect();
    Ok(EnsuredSharding { collections, indexes })
}

/// Reads the existing shard keys, and checks them.
async fn decide<'a>(
    ensure: &'a Ensure<'_>,
    hashed: bool,
    has_router: bool,
    conn: &mut Conn<'_>,
) -> Result<Vec<Work<'a>>> {
    let collections = ensure.in_cluster();
    let documents = match has_router {
        true => {
            let choices = collections.iter().map(|managed| &managed.shard_key);
            read_collections(ensure.call.collection, choices, conn).await?
        }
        false => Vec::new(),
    };
    let decide = |managed: &'a Managed| {
        let choice = &managed.shard_key;
        let existing = Existing::find(&choice.namespace, &documents);
        if let Some(existing) = &existing {
            cluster::check_existing(choice, existing)?;
        }
        let key = existing.as_ref().map_or(choice.key(hashed), |existing| &existing.key);
        Ok(Work {
            managed,
            key: key.clone(),
            existing,
            support: None,
            present: Vec::new(),
        })
    };
    collections.into_iter().map(decide).collect()
}

impl Work<'_> {
    /// Checks the indexes, and finds the one that supports the shard key.
    async fn prepare(&mut self, state: State, conn: &mut Conn<'_>) -> Result<()> {
        let plan = &self.managed.plan;
        self.present = plan.list("look for the indexes", conn).await?;
        self.managed.plan_in(state, &[]).check_conflicts(&self.present)?;
        if self.existing.is_some() {
            return Ok(());
        }
        cluster::check_unique_indexes(&plan.namespace(), &self.key, &self.present)?;
        let support = cluster::missing_support(&self.key, self.managed.supported_by(), &self.present);
        self.support = support.map(|index| IndexPlan::new(&plan.collection, vec![index]));
        match &self.support {
            Some(support) => support.check_conflicts(&self.present),
            None => Ok(()),
        }
    }

    /// Shards the collection, unless it is sharded. If another client shards it concurrently, by any key, checks that one.
    async fn shard(&mut self, conn: &mut Conn<'_>) -> Result<()> {
        if self.existing.is_some() {
            return Ok(());
        }
        let (collection, choice) = (&self.managed.plan.collection, &self.managed.shard_key);
        let mut busy = Busy::start();
        loop {
            let Err(error) = conn.write(commands::shard_collection(collection, &self.key)).await else {
                return Ok(());
            };
            let refusal = Refusal::of(&error);
            if refusal == Refusal::Final {
                return Err(explained(error));
            }
            let documents = read_collections(collection, [choice], conn).await?;
            if let Some(existing) = Existing::find(&choice.namespace, &documents) {
                cluster::check_existing(choice, &existing)?;
                self.key.clone_from(&existing.key);
                self.existing = Some(existing);
                return Ok(());
            }
            if refusal == Refusal::Perhaps {
                return Err(explained(error));
            }
            busy.wait(error).await?;
        }
    }

    fn result(self) -> ShardedCollection {
        ShardedCollection {
            namespace: self.managed.shard_key.namespace.clone(),
            key: self.key,
            sharded: self.existing.is_none(),
        }
    }
}

fn unsupported() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the server is not the router of a sharded cluster, nothing was changed: connect to a mongos, or call ensure_indexes() on a replica set or a standalone",
    )
    .with_remedy(Remedy::EnsureIndexes)
}
