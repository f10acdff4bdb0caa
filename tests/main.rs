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
mod failover;
mod faults;
mod items;
mod keys;
mod large;
mod manual;
mod model;
mod naive;
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
