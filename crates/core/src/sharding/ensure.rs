//! The call that shards the collections of a repository.

use mongodb::Namespace;
use mongodb::bson::Document;

use super::choice::{Sharding, Target};
use super::cluster::{self, Existing, Refusal};
use super::commands::{self, explained};
use super::verify::read_collections;
use crate::action::ActionFuture;
use crate::busy::Busy;
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::index::{EnsuredIndexes, IndexPlan, State};
use crate::migration::{PlannedCommand, Steps};
use crate::topology::Topology;

crate::action! {
    /// Shards the collections of a repository, and creates its indexes; returned by its `ensure_sharded()`.
    pub struct EnsureSharded<'a> {
        shared: Sharding<'a>,
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
struct Work<'t, 'a> {
    target: &'t Target<'a>,
    existing: Option<Existing>,
    key: Document,
    /// The index that supports the key, if it is missing.
    support: Option<IndexPlan>,
    present: Vec<Document>,
}

impl<'a> EnsureSharded<'a> {
    /// Creates the action.
    #[doc(hidden)]
    pub fn new(shared: Sharding<'a>) -> Self {
        Self::create(shared, false)
    }

    crate::setters! {
        /// Uses the hashed form of the shard keys, which distributes ascending keys or ids over all shards. A collection that
        /// is sharded by another suitable key keeps it.
        hashed() => hashed = true;
    }

    /// Returns the commands that the call would send, in order, and writes nothing.
    ///
    /// On a server that is not the router of a sharded cluster, it assumes a cluster on which nothing is sharded.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the call, but no [`Unsupported`](ErrorKind::Unsupported).
    pub fn plan(self) -> ActionFuture<'a, Vec<PlannedCommand>> {
        let call = self.shared.operation("ensure_sharded");
        crate::action::run(call, move |_| async move {
            let mut steps = Steps::plan();
            self.shared.run(self.hashed, &mut steps).await?;
            Ok(steps.into_commands())
        })
    }

    async fn execute(self) -> Result<EnsuredSharding> {
        self.shared.run(self.hashed, &mut Steps::run()).await
    }
}

impl<'a> Sharding<'a> {
    async fn run(&self, hashed: bool, steps: &mut Steps<'_, '_>) -> Result<EnsuredSharding> {
        let on = self.ensure.collection;
        let topology = Topology::read_in(on, steps).await?;
        let has_router = topology == Topology::Router;
        if !has_router && !steps.is_plan() {
            self.ensure.check_topology(topology)?;
            return Err(unsupported());
        }
        let mut work = self.decide(hashed, has_router, steps).await?;
        let state = self.ensure.check(steps).await?;
        if work.iter().any(|work| work.existing.is_none()) {
            self.prepare(&mut work, state, steps).await?;
        }
        self.ensure.check_documents(state, steps).await?;
        let mut created = Vec::new();
        for work in &work {
            if let Some(support) = &work.support {
                let on = work.target.collection;
                let ensured = support.create_missing(steps, on, &work.present).await?;
                created.extend(ensured.created.into_iter().map(|name| (on.namespace(), name)));
            }
        }
        for work in &mut work {
            work.shard(steps).await?;
        }
        let mut indexes = self.ensure.write(state, &created, steps).await?;
        indexes.created.splice(0..0, created.into_iter().map(|(_, name)| name));
        let collections = work.into_iter().map(Work::result).collect();
        Ok(EnsuredSharding { collections, indexes })
    }

    /// Reads the existing shard keys, and checks them.
    async fn decide<'t>(
        &'t self,
        hashed: bool,
        has_router: bool,
        steps: &mut Steps<'_, '_>,
    ) -> Result<Vec<Work<'t, 'a>>> {
        let documents = match has_router {
            true => {
                let choices = self.targets.iter().map(|target| &target.choice);
                read_collections(self.ensure.collection, choices, steps).await?
            }
            false => Vec::new(),
        };
        let decide = |target: &'t Target<'a>| {
            let choice = &target.choice;
            let existing = Existing::find(&choice.namespace, &documents);
            if let Some(existing) = &existing {
                cluster::check_existing(choice, existing)?;
            }
            let key = existing.as_ref().map_or(choice.key(hashed), |existing| &existing.key);
            Ok(Work {
                target,
                key: key.clone(),
                existing,
                support: None,
                present: Vec::new(),
            })
        };
        self.targets.iter().map(decide).collect()
    }

    /// Checks the collections and their indexes, and finds the indexes that support the shard keys.
    async fn prepare(&self, work: &mut [Work<'_, '_>], state: State, steps: &mut Steps<'_, '_>) -> Result<()> {
        self.ensure.check_collections(steps).await?;
        let plans = self.ensure.plans(state);
        for work in work {
            let on = work.target.collection;
            work.present = steps.list_indexes("look for the indexes", on).await?;
            for (_, plan) in plans.iter().filter(|(other, _)| other.namespace() == on.namespace()) {
                plan.check_conflicts(&work.present)?;
            }
            if work.existing.is_some() {
                continue;
            }
            cluster::check_unique_indexes(&on.namespace(), &work.key, &work.present)?;
            let own = work.target.supported_by.as_ref();
            let support = cluster::missing_support(&work.key, own, &work.present);
            work.support = support.map(|index| IndexPlan::new(on.name(), vec![index]));
            if let Some(support) = &work.support {
                support.check_conflicts(&work.present)?;
            }
        }
        Ok(())
    }
}

impl Work<'_, '_> {
    /// Shards the collection, unless it is sharded. If another client shards it concurrently, by any key, checks that one.
    async fn shard(&mut self, steps: &mut Steps<'_, '_>) -> Result<()> {
        if self.existing.is_some() {
            return Ok(());
        }
        let Target { collection, choice, .. } = self.target;
        let mut busy = Busy::start();
        loop {
            let Err(error) = steps.write(commands::shard_collection(collection, &self.key)).await else {
                return Ok(());
            };
            let refusal = Refusal::of(&error);
            if refusal == Refusal::Final {
                return Err(explained(error));
            }
            let documents = read_collections(collection, [choice], steps).await?;
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
            namespace: self.target.choice.namespace.clone(),
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
