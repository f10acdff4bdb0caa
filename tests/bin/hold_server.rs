//! Gets a server as tests and examples do, reports it in one line, and keeps it until its standard input ends. With the
//! argument `cluster`, starts a sharded cluster.

use std::io::Read;
use std::process::ExitCode;

use mongo_patterns_testkit::{self as testkit, ShardedCluster};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("cluster") {
        return hold_cluster().await;
    }
    let server = match testkit::server().await {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match server.process() {
        Some(mongod) => match (mongod.pid(), mongod.folder()) {
            (Some(pid), Some(folder)) => println!("process {pid} {}", folder.display()),
            _ => println!("container {}", mongod.container().unwrap_or_default()),
        },
        None => println!("not started by this process: {}", server.version()),
    }
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

async fn hold_cluster() -> ExitCode {
    let cluster = match ShardedCluster::start(2).await {
        Ok(cluster) => cluster,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", cluster.uri());
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}
