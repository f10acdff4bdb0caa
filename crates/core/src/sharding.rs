//! Shard keys: those that suit a pattern, the set-up on a sharded cluster, and the check of an existing one.
//!
//! `shard_keys()` of a repository returns a [`ShardKeyChoice`] for each of its collections. `ensure_sharded()` shards them
//! on a sharded cluster, and does what `ensure_indexes()` does. `verify_shard_keys()` names collections that are sharded by
//! another key. The [catalog](crate::catalog) is not sharded.
//!
//! # Design
//!
//! ## Why is the set-up a call of its own?
//!
//! `shardCollection` takes a partial index on the shard key for one that supports it, and then fails with code 72. The
//! unique index of the bucket pattern is such an index. So the supporting index comes first, then `shardCollection`, then
//! the indexes of the pattern.
//!
//! ## Which index supports a shard key?
//!
//! An index with all documents, the simple collation and no arrays in its fields. For `_id` it is the `_id` index. For
//! overflow documents and children it is a unique index of the pattern, which starts with the parent. For buckets it is `{
//! key: 1, _id: 1 }`, which also sorts the buckets of a key.
//!
//! ## What if several instances of a service start at once?
//!
//! All of them send the same commands. The router refuses a command while another client shards the collection, or after
//! another client has sharded it by another key of the list. So `ensure_sharded()` reads the shard keys again, takes the one
//! that it finds, and otherwise repeats the command after a pause. So does `createIndexes`.
//!
//! ## Why is a shard key outside of the list refused?
//!
//! Most other keys fail at once, because the unique indexes of the pattern exclude them. A few seem to work. But documents
//! that are sharded by a field other than `_id` can have equal ids on two shards, and each write by `_id` is sent to all
//! shards.

mod cluster;
mod commands;
mod ensure;
mod verify;

pub use crate::shard_key::{ShardKeyChoice, UnsuitableShardKey};
pub use ensure::{EnsureSharded, EnsuredSharding, ShardedCollection};
pub use verify::VerifyShardKeys;
