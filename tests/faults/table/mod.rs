//! Every public operation, each of its commands, each fault.
//!
//! The table is generated. A run without a fault records an operation's commands, its value, and the documents before
//! and after it. Then the operation runs again with each fault at each of the commands, and [`case`] checks what the
//! documentation promises. A pattern's operations are in the pattern's file, and [`complete`] checks that none is
//! missing.
//!
//! `cargo test` runs one case of each operation. `cargo xtask ci --full` runs a few faults at each command, which rotate
//! over the table, and `cargo xtask long faults` and `drops` run all.

mod archive;
mod archive_books;
mod bucket;
mod bucket_figures;
mod bucket_migrations;
mod bucket_windows;
mod case;
mod complete;
mod counters;
mod documented_keys;
pub(crate) mod dropped;
mod embedded;
mod fault;
mod file_archive;
mod held;
mod history;
mod history_follow;
mod history_migrations;
mod hostile;
mod intervals;
mod operation;
mod operations;
mod outlier;
mod read_only;
mod reference;
mod reference_follow;
mod reference_key;
mod reference_migrations;
mod report;
mod routing;
mod routing_rules;
mod schema;
mod schema_contacts;
mod sessions;
mod shard_keys;
mod subset;
mod subset_kinds;
mod subset_migrations;
mod subset_several;
mod through;
mod traces;
mod trash;
mod trash_books;
mod workers;

use workers::{Extent, Table, Work};

#[test]
#[ignore = "slow: cargo xtask ci"]
fn every_operation_with_a_fault_and_a_drop() {
    table().run(Work::Both, Extent::Sample);
}

#[test]
#[ignore = "long: cargo xtask ci --full"]
fn every_command_and_every_fault() {
    table().run(Work::Faults, Extent::Commands);
}

#[test]
#[ignore = "slow: cargo xtask ci"]
fn every_operation_by_a_user_with_the_role_read() {
    table().run_read_only();
}

#[test]
#[ignore = "slow: cargo xtask ci"]
fn some_operations_on_documents_of_other_programs() {
    table().run_hostile(Extent::Sample);
}

#[test]
#[ignore = "long: cargo xtask ci --full"]
fn every_operation_on_documents_of_other_programs_many_times() {
    table().run_hostile(Extent::Commands);
}

fn table() -> Table {
    let mut table = Table::default();
    table.add::<bucket::Histories>();
    table.add::<bucket_figures::Figured>();
    table.add::<bucket_windows::Windowed>();
    table.add::<bucket_migrations::Migrations>();
    table.add::<bucket_migrations::Sizes>();
    table.add::<subset::Shop>();
    table.add::<subset_migrations::Shop>();
    table.add::<embedded::Library>();
    table.add::<embedded::Migrations>();
    table.add::<outlier::Shop>();
    table.add::<history::Office>();
    table.add::<history::Office<true>>();
    table.add::<history_follow::Followed>();
    table.add::<history_migrations::Migrations>();
    table.add::<intervals::Shop>();
    table.add::<intervals::Migrations>();
    table.add::<reference::Sales>();
    table.add::<reference_follow::Followed>();
    table.add::<reference_key::Posts>();
    table.add::<reference_migrations::Migrations>();
    table.add::<schema::Instance>();
    table.add::<schema_contacts::Contacts>();
    table.add::<archive::Sales>();
    table.add::<archive_books::Books>();
    table.add::<trash_books::Books>();
    table.add::<file_archive::Sales>();
    table.add::<trash::Users>();
    table.add::<through::Customers>();
    table.add::<through::All>();
    table.add::<through::Parents>();
    table.add::<through::Lists>();
    table.add::<through::Recorded>();
    table.add::<counters::Articles>();
    table
}

#[test]
#[ignore = "long: cargo xtask ci --full"]
fn every_command_and_the_caller_drops_it() {
    table().run(Work::Drops, Extent::Commands);
}
