//! The tests on a sharded cluster.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::ignored::with_slow_tests;
use crate::process::{INTEGRATION_TESTS, cargo, run as run_process};

/// Tests of other deployments, which do not use the server at `MONGODB_URI`, and so prove nothing here.
const OTHERS: [&str; 3] = ["cluster::three_nodes", "cluster::secured", "service::"];

/// Which tests are run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs only the tests whose names contain this text, such as `cluster::sharded`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Starts a cluster of two shards, and runs the functional tests through its mongos, and the tests of clusters.
///
/// It fails when there is no mongos.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut cluster = start()?;
    let uri = uri(&mut cluster)?;
    let arguments = [
        "test",
        "--locked",
        "--package",
        "integration-tests",
        "--features",
        "cluster",
    ];
    let mut test = cargo(arguments);
    test.args(INTEGRATION_TESTS).env("MONGODB_URI", uri).arg("--");
    test.args(with_slow_tests()?).args(&options.only);
    for other in OTHERS {
        test.args(["--skip", other]);
    }
    let tested = run_process(&mut test);
    // The program ends the cluster when its standard input closes.
    drop(cluster.stdin.take());
    cluster.wait().context("waiting for the end of the cluster")?;
    tested
}

fn start() -> Result<Child> {
    let program = [
        "run",
        "--quiet",
        "--locked",
        "--package",
        "integration-tests",
        "--bin",
        "process",
        "--",
        "hold-server",
        "cluster",
    ];
    let mut start = cargo(program);
    start
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    start.spawn().context("starting the program that holds a cluster")
}

/// Reads the connection string that the program prints when the cluster is ready.
fn uri(cluster: &mut Child) -> Result<String> {
    let mut line = String::new();
    if let Some(stdout) = cluster.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut line)
            .context("reading the connection string")?;
    }
    if line.is_empty() {
        let mut reason = String::new();
        if let Some(mut stderr) = cluster.stderr.take() {
            stderr
                .read_to_string(&mut reason)
                .context("reading why there is no cluster")?;
        }
        bail!("no cluster was started, and nothing was tested: {}", reason.trim());
    }
    Ok(line.trim().to_owned())
}
