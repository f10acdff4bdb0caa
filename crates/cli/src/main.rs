//! `mongo-patterns`: what an operator does with collections of the patterns, from a terminal or a script.
//!
//! Standard output has what was asked for, standard error the progress and what went wrong. The exit code is 0 when all
//! is well, 1 when something was found in the data, 2 when the command cannot be, 3 when the server cannot do it, and 130
//! when it was stopped by Ctrl-C.

mod analyze;
mod args;
mod bucket;
mod connection;
mod embedded;
mod extras;
mod failure;
mod indexes;
mod init;
mod load;
mod outlier;
mod output;
mod plan;
mod profile;
mod progress;
mod settings;
mod shell;
mod subset;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mongodb::bson::doc;
use mongodb::{Client, Database};

use crate::args::{Args, Command};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::profile::Profile;

/// How long a stopped command may take to end its transactions and cursors at the server.
const GOOD_BYE: Duration = Duration::from_secs(5);

/// What a command works with.
pub(crate) struct Context {
    pub(crate) database: Database,
    pub(crate) output: Output,
    pub(crate) profile: Profile,
}

impl Context {
    /// Refuses a collection that is not there: in an empty one all would seem well, and a name is easily mistyped.
    pub(crate) async fn must_exist(&self, collection: &str) -> Result<(), Failure> {
        if !self.exists(collection).await? {
            let database = self.database.name();
            return Err(Failure::usage(format!(
                "there is no collection {database}.{collection}: check --db, and the names in the options and the profile"
            )));
        }
        Ok(())
    }

    pub(crate) async fn exists(&self, collection: &str) -> Result<bool, Failure> {
        let named = self
            .database
            .list_collection_names()
            .filter(doc! { "name": collection });
        let named = named.await.map_err(Failure::on(self.database.name()))?;
        Ok(!named.is_empty())
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let output = Output::new(args.json, args.quiet);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Failure::from).and_then(|runtime| {
        let outcome = runtime.block_on(run(args, output));
        // A thread that reads a file or standard input is not waited for.
        runtime.shutdown_background();
        outcome
    });
    let exit = outcome.unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit
    });
    ExitCode::from(exit.code())
}

async fn run(args: Args, output: Output) -> Outcome {
    match &args.command {
        Command::Completions { shell } => return extras::completions(*shell),
        Command::Man { directory } => return extras::man(directory.as_deref()),
        _ => {}
    }
    let profile = Profile::read(args.profile.as_deref())?;
    let client = args.connection.connect().await?;
    let database = connection::database(&client, args.db.as_deref(), &profile)?;
    let context = Context {
        database,
        output,
        profile,
    };
    let advice = args.command.advice();
    let outcome = tokio::select! {
        outcome = execute(&context, &args.command) => outcome,
        () = stop() => Err(Failure::new(Exit::Stopped, format!("stopped; {advice}"))),
    };
    drop(context);
    good_bye(client).await;
    outcome
}

async fn execute(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::Bucket(pattern) => bucket::run(context, pattern).await,
        Command::Outlier(pattern) => outlier::run(context, pattern).await,
        Command::Subset(pattern) => subset::run(context, pattern).await,
        Command::Embedded(pattern) => embedded::run(context, pattern).await,
        Command::Init(options) => init::run(context, options).await,
        Command::Completions { .. } | Command::Man { .. } => Ok(Exit::Well),
    }
}

/// Ctrl-C. Where there is no such signal, it never comes.
async fn stop() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Lets the driver abort transactions and close cursors that a stopped command left, unless Ctrl-C comes once more.
async fn good_bye(client: Client) {
    tokio::select! {
        _ = tokio::time::timeout(GOOD_BYE, client.shutdown()) => {}
        () = stop() => {}
    }
}
