//! The calls about shard keys. On a server that is not the router of a sharded cluster, `ensure_sharded` sends one command
//! and refuses, so the table has its plan.

use super::operation::Promise::Reads;
use super::operation::{Call, calls};
use super::{bucket, embedded, history, outlier, reference, subset};
use mongo_patterns::Repository;

macro_rules! shard_keys {
    ($name:ident, $model:ty, $repository:literal, $field:ident) => {
        pub(super) fn $name() -> Vec<Call<$model>> {
            calls! { $model;
                Reads, concat!($repository, "::ensure_sharded"), "plan", |m|
                    m.$field.ensure_sharded().plan().await.map(|plan| plan.len());
                Reads, concat!($repository, "::verify_shard_keys"), "", |m| m.$field.verify_shard_keys().await;
            }
        }
    };
}

shard_keys!(of_buckets, bucket::Histories, "BucketRepository", with_ids);
shard_keys!(of_outliers, outlier::Shop, "OutlierRepository", books);
shard_keys!(of_subsets, subset::Shop, "SubsetRepository", newest);
shard_keys!(of_parents, embedded::Library, "EmbeddedRepository", patrons);
shard_keys!(of_policies, history::Office, "HistoryRepository", policies);
shard_keys!(of_orders, reference::Sales, "ReferenceRepository", orders);
