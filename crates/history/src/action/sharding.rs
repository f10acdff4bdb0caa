use mongo_patterns_core::sharding::{EnsureSharded, ShardKeyChoice, Sharding, Target, VerifyShardKeys};

use super::prelude::*;

impl Shared {
    /// Returns what shards the collections.
    fn sharding(&self) -> Sharding<'_> {
        let (id, revision) = (self.settings.id.as_str(), self.settings.revision.as_str());
        let reason =
            "every command for a document has its id, so it reaches one shard, and every unique index starts with it";
        let of_revisions = ShardKeyChoice::new(&self.revisions, id, reason)
            .or(doc! { id: 1, revision: 1 })
            .limit("With the id alone, the revisions of a document are in one chunk, which cannot be split: a history with more data than the chunk size is a jumbo chunk, which the balancer does not move.")
            .limit("With the revision in the key, a read by time is sent to all shards that have revisions of the document.");
        let [of_current, of_revision] =
            [self.current_plan(), self.revisions_plan()].map(|plan| plan.indexes().first().cloned());
        let current = Target {
            collection: &self.current,
            choice: ShardKeyChoice::new(&self.current, id, reason)
                .limit("Any other unique index of the collection must start with the id."),
            supported_by: of_current,
        };
        let revisions = Target {
            collection: &self.revisions,
            choice: of_revisions,
            supported_by: of_revision,
        };
        Sharding {
            ensure: self.ensure(),
            targets: vec![current, revisions],
        }
    }
}

impl<D> HistoryRepository<D> {
    /// Returns the shard keys under which the pattern works, for each collection. Sends nothing.
    ///
    /// ```no_run
    /// # fn f(policies: mongo_patterns_history::HistoryRepository<i32>) {
    /// for choice in policies.shard_keys() {
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
    /// Call it instead of [`ensure_indexes`](Self::ensure_indexes).
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns_history::HistoryRepository<i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = policies.ensure_sharded().await?;
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
    /// Six round trips when everything exists, and at most ten more when both collections are sharded now.
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
    /// # async fn f(policies: mongo_patterns_history::HistoryRepository<i32>) -> mongo_patterns_core::Result<()> {
    /// for unsuitable in policies.verify_shard_keys().await? {
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
