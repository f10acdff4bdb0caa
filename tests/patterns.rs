//! Tests of what is special to a pattern, against a real MongoDB: the server at `MONGODB_URI`, or one that is started for
//! this process.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod archive;
mod archive_files;
mod bucket;
mod counters;
mod embedded;
mod history;
mod intervals;
mod outlier;
mod reference;
mod schema;
mod subset;
