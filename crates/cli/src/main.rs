//! `mongo-patterns`: analyzes, migrates, verifies and repairs collections of the patterns, from a terminal or a script.
//!
//! Standard output contains the results, standard error the progress and the errors. The exit code is 0 for success, 1
//! for findings in the data, 2 for an invalid command, 3 for a server that is unreachable or refuses, 130 for Ctrl-C,
//! and 143 for SIGTERM.

mod analyze;
mod archive;
mod args;
mod bucket;
mod catalog;
mod command;
mod confirm;
mod connection;
mod context;
mod document_settings;
mod embedded;
mod extended_json;
mod failure;
mod findings;
mod generate;
mod history;
mod indexes;
mod init;
mod migrate;
mod migrations;
mod outlier;
mod output;
mod plan;
mod profile;
mod progress;
mod reference;
mod reference_fields;
mod schema;
mod selection;
mod settings;
mod shard;
mod shell;
mod status;
mod stop;
mod subset;
mod trash;
mod words;

use std::process::ExitCode;
use std::sync::OnceLock;

use clap::Parser;
use mongo_patterns_core::Error;

use crate::args::{Args, Command};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::profile::Profile;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    let output = Output::new(args.json, args.quiet);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Failure::from).and_then(|runtime| {
        let outcome = runtime.block_on(run(args, output));
        // The runtime does not wait for a thread that reads standard input.
        runtime.shutdown_background();
        outcome
    });
    let exit = outcome.unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit
    });
    ExitCode::from(exit.code())
}

/// Prints help, or an invalid command, which is an object on standard output with `--json`.
fn usage(error: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && is_json {
        let text = error.to_string();
        let text = text.trim_start_matches("error: ").trim();
        Output::new(true, false).failure(&Failure::usage(text));
        return ExitCode::from(Exit::Usage.code());
    }
    error.exit()
}

async fn run(args: Args, output: Output) -> Outcome {
    match &args.command {
        Command::Completions { shell } => return generate::completions(*shell),
        Command::Man { directory } => return generate::man(directory.as_deref()),
        _ => {}
    }
    let profile = Profile::read(args.profile.as_deref())?;
    let (client, id) = args.connection.connect().await?;
    let database = connection::database(&client, args.db.as_deref(), &profile)?;
    if let Some(name) = args.db.as_deref().or(profile.database.as_deref()) {
        command::name_database(name);
    }
    let context = Context {
        database,
        output,
        profile,
        known: OnceLock::new(),
    };
    let advice = "completed work is kept: run the command again";
    let outcome = tokio::select! {
        outcome = execute(&context, &args.command) => outcome,
        exit = stop::signalled() => {
            output.notice("stopping: the server ends the operation");
            Err(Failure::new(exit, format!("stopped; {advice}")))
        }
    };
    drop(context);
    let ended = stop::shut_down(client, &id).await;
    outcome.map_err(|failure| match (failure.exit, ended.advice(&id)) {
        (Exit::Stopped | Exit::Terminated, Some(to_end)) => failure.advise(&to_end),
        _ if failure.error.as_ref().is_some_and(Error::is_outcome_unknown) => failure.advise(advice),
        _ => failure,
    })
}

async fn execute(context: &Context, command: &Command) -> Outcome {
    let outcome = match command {
        Command::Bucket(pattern) => bucket::run(context, pattern).await,
        Command::Outlier(pattern) => outlier::run(context, pattern).await,
        Command::Subset(pattern) => subset::run(context, pattern).await,
        Command::Embedded(pattern) => embedded::run(context, pattern).await,
        Command::History(pattern) => history::run(context, pattern).await,
        Command::Reference(pattern) => reference::run(context, pattern).await,
        Command::Archive(pattern) => archive::run(context, pattern).await,
        Command::Trash(pattern) => trash::run(context, pattern).await,
        Command::Init(options) => init::run(context, options).await,
        Command::Status(options) => status::run(context, options).await,
        Command::Migrations { verb } => migrations::run(context, verb).await,
        Command::Schema { verb } => schema::run(context, verb).await,
        Command::Completions { .. } | Command::Man { .. } => Ok(Exit::Success),
    };
    outcome.map_err(|failure| match context.known.get() {
        Some((_, known)) if failure.is_missing => Failure {
            text: format!("{known}; {}", failure.text),
            ..failure
        },
        _ => failure,
    })
}
