//! Shard keys, and the set-up of sharded collections.

mod keys;
mod moving_chunks;
mod refused;
pub(crate) mod router;
