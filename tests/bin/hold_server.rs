//! Gets a server as tests and examples do, reports it in one line, and keeps it until its standard input ends.

use std::io::Read;
use std::process::ExitCode;

use mongo_patterns_testkit as testkit;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let server = match testkit::server().await {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match server.process() {
        Some(mongod) => println!("{} {} {}", mongod.pid(), mongod.folder().display(), mongod.uri()),
        None => println!("not started by this process: {}", server.version()),
    }
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}
