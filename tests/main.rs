//! Tests against a real MongoDB: the server at `MONGODB_URI`, or one that is started for this process.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod append;
mod append_many;
mod append_stream;
mod combine;
mod concurrency;
mod counts;
mod damage;
mod errors;
mod exactly_once;
mod failover;
mod faults;
mod items;
mod items_by_page;
mod items_range;
mod keys;
mod keys_on_server;
mod large;
mod manual;
mod mixed;
mod model;
mod moving;
mod moving_again;
mod moving_killed;
mod moving_refused;
mod naive;
mod one_item;
mod outlier_adopt;
mod outlier_damage;
mod outlier_killed;
mod outlier_push;
mod outlier_rebalance;
mod outlier_repair;
mod outlier_support;
mod outlier_verify;
mod page_size;
mod pages;
mod repair;
mod repair_live;
mod setup;
mod support;
mod testkit;
mod tracing_spans;
mod transactions;
mod verify;
