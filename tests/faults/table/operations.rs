//! All operations of the models whose calls in a transaction, and about shard keys, are beside those of other patterns.

use super::operation::{Call, Operations};
use super::{bucket, embedded, history, outlier, reference, sessions, shard_keys, subset, subset_kinds};

macro_rules! operations {
    ($($model:ty: $($list:path),+;)+) => {
        $(
            impl Operations for $model {
                fn operations() -> Vec<Call<Self>> {
                    [$($list()),+].into_iter().flatten().collect()
                }
            }
        )+
    };
}

operations! {
    bucket::Histories: bucket::operations, sessions::of_buckets, shard_keys::of_buckets;
    outlier::Shop: outlier::operations, sessions::of_outliers, shard_keys::of_outliers;
    subset::Shop: subset::operations, subset_kinds::operations, sessions::of_subsets, shard_keys::of_subsets;
    embedded::Library: embedded::operations, sessions::of_parents, shard_keys::of_parents;
    history::Office: history::operations, sessions::of_policies, shard_keys::of_policies;
    reference::Sales: reference::operations, sessions::of_orders, shard_keys::of_orders;
}
