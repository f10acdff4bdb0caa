//! The call that shards the collections of a repository.

use std::marker::PhantomData;

use mongodb::Namespace;
use mongodb::bson::{Bson, Document};

use super::choice::{Sharding, Target};
use super::cluster::{self, Existing};
use super::commands::{self, explained};
use super::presplit;
use super::verify::read_collections;
use crate::action::ActionFuture;
use crate::error::{Error, ErrorKind, Result, code};
use crate::index::{EnsuredIndexes, IndexPlan, State};
use crate::migration::{PlannedCommand, Steps};
use crate::topology::Topology;

/// The database allows sharded collections already, or the collection is sharded.
const ALREADY_INITIALIZED: i32 = 23;

crate::action! {
    /// Shards the collections of a repository, and creates its indexes; returned by its `ensure_sharded()`.
    ///
    /// `P` is the type of its split points: [`Keys`](super::Keys) of buckets, or [`Ids`](super::Ids) of documents.
    pub struct EnsureSharded<'a, P> {
        shared: Sharding<'a>,
        hashed: bool,
        points: Result<Vec<Bson>>,
        types: PhantomData<fn() -> P>,
    }
    "ensure_sharded" => EnsuredSharding where P: 'a
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
    /// How many chunks were split.
    pub splits: u64,
}

/// What a call does with a collection.
struct Work<'t, 'a> {
    target: &'t Target<'a>,
    existing: Option<Existing>,
    key: Document,
    /// The index that supports the key, if it is missing.
    support: Option<IndexPlan>,
    present: Vec<Document>,
    splits: u64,
}

impl<'a, P> EnsureSharded<'a, P> {
    /// Creates the action.
    #[doc(hidden)]
    pub fn new(shared: Sharding<'a>) -> Self {
        Self::create(shared, false, Ok(Vec::new()), PhantomData)
    }

    crate::setters! {
        /// Uses the hashed form of the shard keys, which distributes ascending keys or ids over all shards. A collection that
        /// is sharded by another suitable key keeps it.
        hashed() => hashed = true;
    }

    pub(super) fn points(mut self, points: Result<Vec<Bson>>) -> Self {
        self.points = points;
        self
    }

    /// Returns the commands that the call would send, in order, and writes nothing.
    ///
    /// On a server that is not the router of a sharded cluster, it assumes a cluster on which nothing is sharded. The move of
    /// a chunk to the shard on which it is already is listed, but not sent.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the call, but no [`Unsupported`](ErrorKind::Unsupported).
    pub fn plan(self) -> ActionFuture<'a, Vec<PlannedCommand>>
    where
        P: 'a,
    {
        let call = self.shared.operation("ensure_sharded");
        crate::action::run(call, move |_| async move {
            let mut steps = Steps::plan();
            self.run(&mut steps).await?;
            Ok(steps.into_commands())
        })
    }

    async fn execute(self) -> Result<EnsuredSharding> {
        self.run(&mut Steps::run()).await
    }

    async fn run(self, steps: &mut Steps<'_, '_>) -> Result<EnsuredSharding> {
        let points = self.points?;
        if self.hashed && !points.is_empty() {
            return Err(cluster::hashed_points("the call uses hashed keys"));
        }
        self.shared.run(self.hashed, &points, steps).await
    }
}

impl<'a> Sharding<'a> {
    async fn run(&self, hashed: bool, points: &[Bson], steps: &mut Steps<'_, '_>) -> Result<EnsuredSharding> {
        let on = self.ensure.collection;
        let topology = Topology::read_in(on, steps).await?;
        let has_router = topology == Topology::Router;
        if !has_router && !steps.is_plan() {
            self.ensure.check_topology(topology)?;
            return Err(unsupported());
        }
        let mut work = self.decide(hashed, points, has_router, steps).await?;
        let state = self.ensure.check(steps).await?;
        if work.iter().any(|work| work.existing.is_none()) {
            self.prepare(&mut work, state, steps).await?;
        }
        let mut created = Vec::new();
        enable_sharding(&work, steps).await?;
        for work in &work {
            if let Some(support) = &work.support {
                let on = work.target.collection;
                created.extend(support.create_missing(steps, on, &work.present).await?.created);
            }
        }
        for work in &mut work {
            work.shard(has_router, steps).await?;
        }
        for work in work.iter_mut().filter(|_| !points.is_empty()) {
            let of_key = (&work.key, work.existing.as_ref());
            work.splits = presplit::split(work.target, of_key, points, has_router, steps).await?;
        }
        let plan = self.ensure.plan_in(state).without(&created);
        let mut indexes = self.ensure.write(state, &plan, steps).await?;
        indexes.created.splice(0..0, created);
        let collections = work.into_iter().map(Work::result).collect();
        Ok(EnsuredSharding { collections, indexes })
    }

    /// Reads the existing shard keys, and checks them.
    async fn decide<'t>(
        &'t self,
        hashed: bool,
        points: &[Bson],
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
                cluster::check_existing(choice, existing, !points.is_empty())?;
            }
            let key = existing.as_ref().map_or(choice.key(hashed), |existing| &existing.key);
            Ok(Work {
                target,
                key: key.clone(),
                existing,
                support: None,
                present: Vec::new(),
                splits: 0,
            })
        };
        self.targets.iter().map(decide).collect()
    }

    /// Checks everything that can refuse the call, and finds the indexes that support the shard keys.
    async fn prepare(&self, work: &mut [Work<'_, '_>], state: State, steps: &mut Steps<'_, '_>) -> Result<()> {
        self.ensure.check_collections(steps).await?;
        for work in work {
            let on = work.target.collection;
            work.present = steps.list_indexes("look for the indexes", on).await?;
            if on.namespace() == self.ensure.collection.namespace() {
                self.ensure.plan_in(state).check_conflicts(&work.present)?;
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
        self.ensure.check_documents(state, steps).await
    }
}

/// Allows sharded collections in the databases of those that are not sharded yet.
async fn enable_sharding(work: &[Work<'_, '_>], steps: &mut Steps<'_, '_>) -> Result<()> {
    let mut enabled: Vec<String> = Vec::new();
    for work in work.iter().filter(|work| work.existing.is_none()) {
        let on = work.target.collection;
        if enabled.contains(&on.namespace().db) {
            continue;
        }
        match steps.write(commands::enable_sharding(on)).await {
            Err(error) if code(&error) != Some(ALREADY_INITIALIZED) => return Err(explained(error)),
            _ => enabled.push(on.namespace().db),
        }
    }
    Ok(())
}

impl Work<'_, '_> {
    /// Shards the collection, unless it is sharded. If another client shards it concurrently, by another key, checks that.
    async fn shard(&mut self, has_router: bool, steps: &mut Steps<'_, '_>) -> Result<()> {
        if self.existing.is_some() {
            return Ok(());
        }
        let Target { collection, choice, .. } = self.target;
        match steps.write(commands::shard_collection(collection, &self.key)).await {
            Ok(_) => Ok(()),
            Err(error) if code(&error) == Some(ALREADY_INITIALIZED) && has_router => {
                let documents = read_collections(collection, [choice], steps).await?;
                let Some(existing) = Existing::find(&choice.namespace, &documents) else {
                    return Err(explained(error));
                };
                cluster::check_existing(choice, &existing, false)?;
                self.key.clone_from(&existing.key);
                self.existing = Some(existing);
                Ok(())
            }
            Err(error) => Err(explained(error)),
        }
    }

    fn result(self) -> ShardedCollection {
        ShardedCollection {
            namespace: self.target.choice.namespace.clone(),
            key: self.key,
            sharded: self.existing.is_none(),
            splits: self.splits,
        }
    }
}

fn unsupported() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the server is not the router of a sharded cluster, nothing was changed: connect to a mongos, or call ensure_indexes() on a replica set or a standalone",
    )
}
