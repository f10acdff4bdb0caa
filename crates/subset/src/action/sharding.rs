use mongo_patterns_core::sharding::{EnsureSharded, ShardKeyChoice, Sharding, Target, VerifyShardKeys};

use super::prelude::*;

impl Shared {
    /// Returns what shards the collections.
    fn sharding(&self) -> Sharding<'_> {
        let (parents, children, settings) = (&self.parents, &self.children, &self.settings);
        let (parent, child_id) = (settings.parent.as_str(), settings.child_id.as_str());
        let reason = "every command for the children of a parent has the parent, so it reaches one shard, and every unique index starts with it";
        let choice = ShardKeyChoice::new(children, parent, reason)
            .or(doc! { parent: 1, child_id: 1 })
            .limit("With the parent alone, the children of a parent are in one chunk, which cannot be split: children with more data than the chunk size are a jumbo chunk, which the balancer does not move.")
            .limit("With the child id in the key, the children of a parent can be on several shards: their reads are sent to all of them, and are not of one moment outside a transaction.")
            .limit("A child id that is the `_id` of the child is unique among the children of its parent, and not in the collection.");
        let ensure = self.ensure();
        let mut planned = ensure.plan.indexes().iter();
        let supported_by = planned.find(|index| index.name == settings.child_index).cloned();
        let children = Target {
            collection: children,
            choice,
            supported_by,
        };
        Sharding {
            ensure,
            targets: vec![Target::by_id(parents), children],
        }
    }
}

impl<P, C> SubsetRepository<P, C> {
    /// Returns the shard keys under which the pattern works, for each collection. Sends nothing.
    ///
    /// ```no_run
    /// # fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) {
    /// for choice in products.shard_keys() {
    ///     println!("{}: {}", choice.namespace, choice.recommended);
    /// }
    /// # }
    /// ```
    pub fn shard_keys(&self) -> Vec<ShardKeyChoice> {
        let targets = self.shared().sharding().targets.into_iter();
        targets.map(|target| target.choice).collect()
    }

    /// Shards both collections on a sharded cluster, by the recommended [shard keys](Self::shard_keys), creates the
    /// [indexes](Self::indexes), and stores the settings in the [catalog](mongo_patterns_core::catalog), which is not
    /// sharded. Idempotent: what exists stays, and a second call writes nothing. Concurrent calls are safe.
    ///
    /// Call it instead of [`ensure_indexes`](Self::ensure_indexes): the order of the steps matters, because the
    /// children need an index that supports the shard key, before they are sharded.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = products.ensure_sharded().await?;
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
    /// Five round trips when everything exists: the topology, the existing shard keys, and those of
    /// [`ensure_indexes`](Self::ensure_indexes). At most ten more when both collections are sharded now. For an index,
    /// the server reads the collection.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// It stops between two steps, and the server may complete the last one. Call it again: each step is idempotent.
    ///
    /// # Errors
    /// With nothing written: [`Unsupported`] when the server is not the router of a sharded cluster,
    /// [`UnsuitableShardKey`] when a collection is sharded by another key, or a unique index that is not the pattern's
    /// does not start with the shard key, [`Unauthorized`] when the user may not read `config.collections`, and those
    /// of [`ensure_indexes`](Self::ensure_indexes). [`Unauthorized`] also when the user lacks the privilege of a later
    /// step. [`Contention`] when another client shards a collection, or builds an index of it, for longer than half a
    /// minute.
    pub fn ensure_sharded(&self) -> EnsureSharded<'_> {
        EnsureSharded::new(self.shared().sharding())
    }

    /// Returns the collections that are sharded by a key under which the pattern does not work. On a replica set or a
    /// standalone, and for collections that are not sharded, nothing.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// for unsuitable in products.verify_shard_keys().await? {
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
