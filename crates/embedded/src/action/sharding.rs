use mongo_patterns_core::sharding::{EnsureSharded, ShardKeyChoice, Sharding, Target, VerifyShardKeys};

use super::prelude::*;

impl Shared {
    /// Returns what shards the collections.
    fn sharding(&self) -> Sharding<'_> {
        Sharding {
            ensure: self.ensure(),
            targets: vec![Target::by_id(&self.collection)],
        }
    }
}

impl<P, C> EmbeddedRepository<P, C> {
    /// Returns the shard keys under which the pattern works, for each collection. Sends nothing.
    ///
    /// ```no_run
    /// # fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) {
    /// for choice in patrons.shard_keys() {
    ///     println!("{}: {}", choice.namespace, choice.recommended);
    /// }
    /// # }
    /// ```
    pub fn shard_keys(&self) -> Vec<ShardKeyChoice> {
        let targets = self.shared().sharding().targets.into_iter();
        targets.map(|target| target.choice).collect()
    }

    /// Shards the collection on a sharded cluster, by the recommended [shard key](Self::shard_keys), and stores the
    /// settings in the [catalog](mongo_patterns_core::catalog), which is not sharded. Idempotent: what exists stays,
    /// and a second call writes nothing. Concurrent calls are safe.
    ///
    /// Call it instead of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// ```no_run
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// let ensured = patrons.ensure_sharded().hashed().await?;
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
    /// Five round trips when everything exists: the topology, the existing shard key, and those of
    /// [`ensure_indexes`](Self::ensure_indexes). At most five more when the collection is sharded now.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may complete the last one. Call it again: each step is idempotent.
    ///
    /// # Errors
    /// With nothing written: [`Unsupported`] when the server is not the router of a sharded cluster,
    /// [`UnsuitableShardKey`] when it is sharded by another key, or a unique index that is not the pattern's does not
    /// start with the shard key, [`Unauthorized`] when the user may not read `config.collections`, and those of
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
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// for unsuitable in patrons.verify_shard_keys().await? {
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
