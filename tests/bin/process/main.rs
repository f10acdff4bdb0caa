//! The processes that tests start, kill and stop. One program, because each one takes seconds to link. Its first argument is
//! the name of a process, and the others are those of the process.

mod archive_in_files;
mod arguments;
mod drop_calls;
mod follow;
mod hold_server;
mod move_in_chunks;
mod run_migrations;
mod write_contacts;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    match arguments::argument()?.as_str() {
        "archive-in-files" => archive_in_files::main(),
        "drop-calls" => drop_calls::main(),
        "follow-orders" => follow::orders(),
        "follow-policies" => follow::policies(),
        "follow-reviews" => follow::reviews(),
        "hold-server" => hold_server::main(),
        "move-in-chunks" => move_in_chunks::main(),
        "run-migrations" => run_migrations::main(),
        "run-service" => run_service(),
        "write-contacts" => write_contacts::main(),
        other => bail!("there is no process {other}"),
    }
}

/// The example `service`.
#[tokio::main]
async fn run_service() -> Result<()> {
    service::run().await
}
