//! Every public operation, each of its commands, each fault.
//!
//! The table is generated. A run without a fault records an operation's commands, its value, and the documents before
//! and after it. Then the operation runs again with each fault at each of the commands, and [`case`] checks what the
//! documentation promises. A pattern's operations are in the pattern's file, and [`complete`] checks that none is
//! missing.
//!
//! Here each command meets a few of the faults, which rotate over the table. All of them, some minutes, and the table:
//!
//! ```text
//! MONGO_PATTERNS_LONG=1 MONGO_PATTERNS_TABLE=/tmp/faults.md cargo test -p integration-tests -- faults::table
//! ```
//!
//! `MONGO_PATTERNS_SEED` rotates the short form to other faults, and `MONGO_PATTERNS_ONLY` takes operations by a part of
//! their name.

mod bucket;
mod bucket_migrations;
mod case;
mod complete;
pub(crate) mod dropped;
mod embedded;
mod fault;
mod operation;
mod outlier;
mod report;
mod sessions;
mod subset;
mod subset_migrations;
mod workers;

use workers::{Table, Work};

#[test]
fn every_command_and_every_fault() {
    table().run(Work::Faults);
}

fn table() -> Table {
    let mut table = Table::default();
    table.add::<bucket::Histories>();
    table.add::<bucket_migrations::Migrations>();
    table.add::<bucket_migrations::Sizes>();
    table.add::<subset::Shop>();
    table.add::<subset_migrations::Shop>();
    table.add::<embedded::Library>();
    table.add::<embedded::Migrations>();
    table.add::<outlier::Shop>();
    table
}

#[test]
fn every_command_and_the_caller_drops_it() {
    table().run(Work::Drops);
}
