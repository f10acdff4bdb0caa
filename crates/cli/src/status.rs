//! One screen for a database: what the catalog has, and what needs attention.

mod attention;
mod entries;
mod facts;
mod print;
mod state;

use crate::context::Context;
use crate::failure::{Exit, Outcome};
use crate::output::Summary;

/// Prints the status. It writes nothing.
pub(crate) async fn run(context: &Context) -> Outcome {
    let status = state::read(context).await?;
    let needs = attention::of(&status);
    print::status(context.output, context.database.name(), &status, &needs)?;
    let exit = Exit::of_findings(needs.len() as u64);
    let summary = Summary::new("status", context.database.name())
        .row("managed", status.entries.managed.len())
        .row("unmanaged", status.unmanaged.len())
        .row("need_attention", needs.len());
    context.output.summary(&summary, exit)?;
    Ok(exit)
}
