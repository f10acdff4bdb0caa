//! What contributors and CI run beside `cargo test`. `cargo xtask --help` lists the commands.

mod book;
mod calls;
mod ci;
mod cluster;
mod deny;
mod docker;
mod examples;
mod ignored;
mod links;
mod llvm;
mod long;
mod modules;
mod msrv;
mod package;
mod process;
mod promises;
mod sentences;
mod size;
mod soak;
mod timed;
mod tutorial;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Runs the checks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs every check that a change must pass, or some of them.
    Ci(ci::Options),
    /// Repeats the integration tests on a busy machine.
    Soak(soak::Options),
    /// Runs one test program for Cargo, with the times of its tests.
    #[command(hide = true)]
    RunTest(timed::Program),
    /// Runs one of the long proofs. docs/tests.md lists their last results.
    #[command(subcommand)]
    Long(long::Proof),
    /// Runs the tests on a sharded cluster of two shards, which needs a mongos: `MONGOS`, one on the `PATH`, or Docker.
    Cluster(cluster::Options),
    /// Runs the tests with servers in Docker containers, as the testkit starts them where it has no program.
    Docker(docker::Options),
    /// Checks licences, duplicate and forbidden crates, sources and security advisories with cargo-deny.
    Deny(deny::Options),
    /// Checks the workspace with the oldest Rust that it supports, which rustup must have installed.
    Msrv,
    /// Checks the book, and writes its HTML to target/book.
    Book(book::Options),
    /// Runs the commands of the tutorial in the book.
    Tutorial,
    /// Checks that no modules form a cycle, that no pattern calls the driver, that nothing is imported by a glob, and that no
    /// file is too long.
    Modules,
    /// Prints the size of each crate, and compares its copy in ARCHITECTURE.md.
    Size(size::Options),
    /// Checks how much code the compiler generates for each crate of the library.
    Llvm,
    /// Prints the promises of the documentation with the tests that prove them, and fails on one without.
    Promises,
    /// Checks that prose uses the words of MongoDB's manual and the driver.
    Words,
    /// Counts long sentences and pronouns without a noun, or prints the worst ones of a file.
    Sentences(sentences::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ran = match arguments.command {
        // Where Cargo starts a test program, which is the folder of its package.
        Command::RunTest(program) => timed::run_program(&program),
        command => run(command).map(|()| ExitCode::SUCCESS),
    };
    match ran {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    process::enter_workspace()?;
    match command {
        Command::Ci(options) => ci::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::RunTest(_) => Ok(()),
        Command::Long(proof) => long::run(&proof),
        Command::Cluster(options) => cluster::run(&options),
        Command::Docker(options) => docker::run(&options),
        Command::Deny(options) => deny::run(&options),
        Command::Msrv => msrv::check_with_oldest(),
        Command::Book(options) => book::check(&options).and_then(|()| book::build()),
        Command::Tutorial => tutorial::run(),
        Command::Modules => modules::check(),
        Command::Size(options) => size::run(&options),
        Command::Llvm => llvm::check(),
        Command::Promises => promises::check(),
        Command::Words => words::check(),
        Command::Sentences(options) => sentences::run(&options),
    }
}
