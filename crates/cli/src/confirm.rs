//! The confirmation of a command that cannot be undone.

use std::io::{IsTerminal, stdin};

use tokio::task::spawn_blocking;

use crate::failure::Failure;
use crate::output::{Output, counted};

/// The confirmation of what cannot be undone.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Confirmation {
    /// Confirms it. Without this option the program asks, on a terminal.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Describes the deletion of what is older than some days.
pub(crate) fn deletion(of: &str, days: u32) -> String {
    let days = counted(days.into(), "day");
    format!("the {of} older than {days}, which `--dry-run` counts, are deleted for good")
}

/// Asks on a terminal whether to do what has a consequence, unless it is confirmed. A signal ends the wait for the answer.
///
/// # Errors
/// When the answer is not `yes`, or when there is no terminal.
pub(crate) async fn confirmed(
    output: Output,
    Confirmation { yes }: Confirmation,
    consequence: &str,
) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        let text = format!("{consequence}, nothing was changed: pass --yes to do it");
        return Err(Failure::usage(text));
    }
    output.notice(&format!("{consequence}: continue? Type `yes`:"));
    let answer = spawn_blocking(|| {
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.map_err(std::io::Error::other)??;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::usage("nothing was changed")),
    }
}
