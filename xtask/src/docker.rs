//! The tests on a server in Docker.

use anyhow::Result;
use clap::Args;

use crate::ignored::with_slow_tests;
use crate::process::{INTEGRATION_TESTS, cargo, run as run_process};

/// Tests that need a mongod of this machine: access control is set up over its loopback interface, and TLS with files.
const OTHERS: &str = "cluster::secured";

/// Which image and which tests are run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The image, such as `mongo:7.0`. By default that of the testkit.
    #[arg(long)]
    image: Option<String>,
    /// Runs only the tests whose names contain this text, such as `testkit`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs the tests of the testkit and the functional tests with servers in Docker containers.
///
/// It fails when there is no Docker.
pub(crate) fn run(options: &Options) -> Result<()> {
    let image = options.image.as_ref().map(|image| format!("docker:{image}"));
    let mongod = image.unwrap_or_else(|| "docker".to_owned());
    let with_docker = |arguments: &[&'static str]| {
        let mut test = cargo(["test", "--locked"]);
        test.args(arguments).env("MONGOD", &mongod);
        test.env_remove("MONGODB_URI").env_remove("MONGOS");
        test
    };
    let mut test = with_docker(&["--workspace"]);
    test.args(INTEGRATION_TESTS)
        .arg("--")
        .args(with_slow_tests()?)
        .args(&options.only)
        .args(["--skip", OTHERS]);
    run_process(&mut test)?;
    match options.only {
        Some(_) => Ok(()),
        None => run_process(&mut with_docker(&["--package", "mongo-patterns-testkit"])),
    }
}
