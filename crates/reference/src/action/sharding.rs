use mongo_patterns_core::sharding::{EnsureSharded, ShardKeyChoice, Sharding, Target, VerifyShardKeys};

use super::prelude::*;

impl Shared {
    /// Returns what shards the collections.
    fn sharding(&self) -> Sharding<'_> {
        let mut targets: Vec<Target<'_>> = self.referring.iter().map(Target::by_id).collect();
        for target in &mut targets {
            let choice = target.choice.clone();
            target.choice = choice.limit(
                "An update of the copies of a source is sent to all shards, because documents with references to one source are on any of them.",
            );
        }
        targets.push(Target::by_id(&self.sources));
        Sharding {
            ensure: self.ensure(),
            targets,
        }
    }
}

impl<D, S> ReferenceRepository<D, S> {
    /// Returns the shard keys under which the pattern works, for each collection. Sends nothing.
    ///
    /// ```no_run
    /// # fn f(orders: mongo_patterns_reference::ReferenceRepository<i32, i32>) {
    /// for choice in orders.shard_keys() {
    ///     println!("{}: {}", choice.namespace, choice.recommended);
    /// }
    /// # }
    /// ```
    pub fn shard_keys(&self) -> Vec<ShardKeyChoice> {
        let targets = self.shared().sharding().targets.into_iter();
        targets.map(|target| target.choice).collect()
    }

    /// Shards all collections on a sharded cluster, by the recommended [shard keys](Self::shard_keys), creates the
    /// [indexes](Self::indexes), and stores the settings in the [catalog](mongo_patterns_core::catalog), which is not
    /// sharded. Idempotent: what exists stays, and a second call writes nothing. Concurrent calls are safe.
    ///
    /// Call it instead of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// ```no_run
    /// # async fn f(orders: mongo_patterns_reference::ReferenceRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = orders.ensure_sharded().hashed().await?;
    /// for collection in ensured.collections {
    ///     println!("{} is sharded by {}", collection.namespace, collection.key);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`plan`](EnsureSharded::plan) returns its commands without a write. The user needs the role `clusterManager` on
    /// `admin`, and `readWrite` on the database.
    ///
    /// # Cost
    /// Up to six round trips when everything exists, and up to five more for each collection that is sharded now.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may complete the last one. Call it again: each step is idempotent.
    ///
    /// # Errors
    /// With nothing written: [`Unsupported`] when the server is not the router of a sharded cluster,
    /// [`UnsuitableShardKey`] when a collection is sharded by another key, or has a unique index that does not start
    /// with the shard key, [`Unauthorized`] when the user may not read `config.collections`, and those of
    /// [`ensure_indexes`](Self::ensure_indexes). [`Unauthorized`] also when the user lacks the privilege of a later
    /// step. [`Contention`] when another client shards a collection, or builds an index of it, for longer than half a
    /// minute.
    pub fn ensure_sharded(&self) -> EnsureSharded<'_> {
        EnsureSharded::new(self.shared().sharding())
    }

    /// Returns the collections that are sharded by a key under which the pattern does not work. On a replica set or a
    /// standalone, and for collections that are not sharded, nothing.
    ///
    /// ```no_run
    /// # async fn f(orders: mongo_patterns_reference::ReferenceRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// for unsuitable in orders.verify_shard_keys().await? {
    ///     println!("{unsuitable}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](Self::verify) checks documents, and does not include it.
    ///
    /// # Cost
    /// One round trip, and one more on a sharded cluster.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`Unauthorized`] on a sharded cluster, when the user may not read `config.collections`.
    pub fn verify_shard_keys(&self) -> VerifyShardKeys<'_> {
        VerifyShardKeys::new(self.shared().sharding())
    }
}
