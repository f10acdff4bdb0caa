//! Tests of what all patterns promise, of faults, and of other deployments, against a real MongoDB: the server at
//! `MONGODB_URI`, or one that is started for this process.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod cluster;
mod conformance;
mod faults;
mod lanes;
mod pages;
mod service;
mod testkit;
mod together;
