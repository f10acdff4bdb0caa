//! Tests of the program `mongo-patterns` with a real MongoDB: its files, output and exit codes.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod analyze;
mod analyze_lists;
mod archive;
mod bucket;
mod catalog;
mod duplicates;
mod errors;
mod history;
mod import;
mod inherit;
mod init;
mod killed;
mod lost;
mod migrate_options;
mod migrations;
mod others;
mod plans;
mod read_only;
mod reference;
mod reference_migrations;
mod reference_settings;
mod remedies;
mod router;
mod schema;
mod secure;
mod shard;
mod status;
mod stopped;
mod subset;
mod subset_settings;
mod support;
mod trash;
