//! Tests of the program `mongo-patterns` against a real MongoDB: its files, output and exit codes.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod analyze;
mod bucket;
mod errors;
mod load;
mod others;
mod read_only;
mod stopped;
mod support;
