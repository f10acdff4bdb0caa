//! Gets a server as tests and examples do, reports it in one line, and keeps it until its standard input ends. With the
//! argument `cluster`, starts a sharded cluster.

use std::fmt::Display;
use std::io::Read;

use anyhow::Result;
use mongo_patterns_testkit::{self as testkit, ShardedCluster};

use super::arguments::argument;

#[tokio::main(flavor = "current_thread")]
pub(super) async fn main() -> Result<()> {
    if argument().is_ok_and(|what| what == "cluster") {
        let cluster = ShardedCluster::start(2).await.unwrap_or_else(|error| fail(&error));
        println!("{}", cluster.uri());
        let _ = std::io::stdin().read(&mut [0]);
        return Ok(());
    }
    let server = testkit::server().await.unwrap_or_else(|error| fail(&error));
    match server.process() {
        Some(mongod) => match (mongod.pid(), mongod.folder()) {
            (Some(pid), Some(folder)) => println!("process {pid} {}", folder.display()),
            _ => println!("container {}", mongod.container().unwrap_or_default()),
        },
        None => println!("not started by this process: {}", server.version()),
    }
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

fn fail(error: &dyn Display) -> ! {
    eprintln!("{error}");
    std::process::exit(1)
}
