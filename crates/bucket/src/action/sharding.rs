use mongo_patterns_core::sharding::{EnsureSharded, ShardKeyChoice, Sharding, Target, VerifyShardKeys};

use crate::action::prelude::*;

impl Shared {
    /// Returns what shards the collections.
    fn sharding(&self) -> Sharding<'_> {
        let (collection, settings) = self.parts();
        let key = settings.key.as_str();
        let reason =
            "every command for a key has the key field, so it reaches one shard, and every unique index starts with it";
        let choice = ShardKeyChoice::new(collection, key, reason)
            .limit("The buckets of a key are in one chunk, which cannot be split: a key with more data than the chunk size is a jumbo chunk, which the balancer does not move.")
            .limit("Keys of several types whose text is equal, such as 1 and \"1\", can be on two shards, where no unique index refuses the second one: a collection has keys of one type.")
            .limit("Pages by number, their count, lists of keys, and repairs are sent to all shards.");
        Sharding {
            ensure: self.ensure(),
            targets: vec![Target {
                collection,
                choice,
                supported_by: None,
            }],
        }
    }
}

impl<K: Key, T> BucketRepository<K, T> {
    /// Returns the shard keys under which the pattern works, for each collection. Sends nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # fn f(trades: BucketRepository<u32, i32>) {
    /// for choice in trades.shard_keys() {
    ///     println!("{}: {}", choice.namespace, choice.recommended);
    /// }
    /// # }
    /// ```
    pub fn shard_keys(&self) -> Vec<ShardKeyChoice> {
        let targets = self.shared().sharding().targets.into_iter();
        targets.map(|target| target.choice).collect()
    }

    /// Shards the collection on a sharded cluster, by the recommended [shard key](Self::shard_keys), creates the
    /// [indexes](Self::indexes), and stores the settings in the [catalog](mongo_patterns_core::catalog), which is not
    /// sharded. Idempotent: what exists stays, and a second call writes nothing. Concurrent calls are safe.
    ///
    /// Call it instead of [`ensure_indexes`](Self::ensure_indexes): the order of the steps matters, because the server
    /// does not shard a collection with the unique index of the pattern until another index supports the shard key.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = trades.ensure_sharded().await?;
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
    /// [`ensure_indexes`](Self::ensure_indexes). At most seven more when the collection is sharded now. For an index,
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
    /// [`UnsuitableShardKey`] when it is sharded by another key, or a unique index that is not the pattern's does not
    /// start with the shard key, [`Unauthorized`] when the user may not read `config.collections`, and those of
    /// [`ensure_indexes`](Self::ensure_indexes). After the collection was sharded: [`Corrupt`] when a key has several
    /// open buckets, and [`Unauthorized`] when the user lacks the privilege of a later step. [`Contention`] when
    /// another client shards a collection, or builds an index of it, for longer than half a minute.
    pub fn ensure_sharded(&self) -> EnsureSharded<'_> {
        EnsureSharded::new(self.shared().sharding())
    }

    /// Returns the collections that are sharded by a key under which the pattern does not work. On a replica set or a
    /// standalone, and for collections that are not sharded, nothing.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// for unsuitable in trades.verify_shard_keys().await? {
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
