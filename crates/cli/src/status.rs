//! One screen for a database: what the catalog has, and what needs attention.

mod attention;
mod command;
mod entries;
mod facts;
mod print;
mod state;
mod verify;

use crate::args::StatusOptions;
use crate::context::Context;
use crate::failure::{Exit, Outcome};
use crate::output::Summary;

/// Prints the status. Only `--verify` writes: the outcomes, to the catalog.
pub(crate) async fn run(context: &Context, options: &StatusOptions) -> Outcome {
    let mut status = state::read(context).await?;
    if let Some(most) = options.verify {
        for entry in &mut status.entries.managed {
            verify::verify(context, entry, most).await?;
        }
    }
    let needs = attention::of(&status);
    let screen = print::Screen {
        output: context.output,
        database: context.database.name(),
        status: &status,
        needs: &needs,
    };
    screen.print()?;
    let exit = Exit::of_findings(needs.len() as u64);
    let summary = Summary::new("status", context.database.name())
        .row("managed", status.entries.managed.len())
        .row("unmanaged", status.unmanaged.len())
        .row("need_attention", needs.len());
    context.output.summary(&summary, exit)?;
    Ok(exit)
}
