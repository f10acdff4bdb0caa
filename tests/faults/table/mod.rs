//! Every public operation, each of its commands, each fault.
//!
//! The table is generated. An undisturbed run tells an operation's commands, what it returns, and what is stored
//! before and after it. Then it is run again for each of the commands, with each fault at that command and no other, and
//! what the documentation promises is checked: see [`case`]. What a pattern's operations are stands in the pattern's
//! file; that none is missing, in [`complete`].
//!
//! `cargo test` runs one case of each operation. `cargo xtask ci` runs a few faults at each command, which rotate over the
//! table, and `cargo xtask long faults` and `drops` run all.

mod bucket;
mod bucket_moves;
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
mod subset_moves;
mod workers;

use workers::{Extent, Table, Work};

#[test]
fn every_operation_and_one_fault() {
    table().run(Work::Faults, Extent::Sample);
}

#[test]
#[ignore = "long: cargo xtask ci"]
fn every_command_and_every_fault() {
    table().run(Work::Faults, Extent::Commands);
}

fn table() -> Table {
    let mut table = Table::default();
    table.add::<bucket::Histories>();
    table.add::<bucket_moves::Moves>();
    table.add::<bucket_moves::Sizes>();
    table.add::<subset::Shop>();
    table.add::<subset_moves::Shop>();
    table.add::<embedded::Library>();
    table.add::<embedded::Moves>();
    table.add::<outlier::Shop>();
    table
}

#[test]
fn every_operation_and_the_caller_drops_it_once() {
    table().run(Work::Drops, Extent::Sample);
}

#[test]
#[ignore = "long: cargo xtask ci"]
fn every_command_and_the_caller_drops_it() {
    table().run(Work::Drops, Extent::Commands);
}
