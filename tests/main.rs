//! Tests against a real MongoDB: the server at `MONGODB_URI`, or one that is started for this process.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod archive;
mod bucket;
mod cluster;
mod common;
mod conformance;
mod counters;
mod embedded;
mod faults;
mod history;
mod lanes;
mod outlier;
mod pages;
mod reference;
mod schema;
mod service;
mod subset;
mod testkit;
