//! Prints the commands that a call would send.

use std::fmt::Display;

use mongo_patterns_core::PlannedCommand;
use mongodb::Database;
use mongodb::bson::Bson;
use serde_json::json;

use crate::failure::{Exit, Outcome};
use crate::output::{Output, to_json};
use crate::shell;

pub(crate) fn print(output: Output, database: &Database, commands: &[PlannedCommand]) -> Outcome {
    print_of(output, database, "migrate", commands)
}

/// Prints the plan of a command of this name.
pub(crate) fn print_of(output: Output, database: &Database, command: &str, commands: &[PlannedCommand]) -> Outcome {
    print_heading(output, database, command)?;
    for planned in commands {
        print_one(output, planned)?;
    }
    Ok(Exit::Success)
}

/// Prints what to know before the run.
pub(crate) fn warn(output: Output, warnings: &[impl Display]) -> std::io::Result<()> {
    for warning in warnings {
        output.text(&format!("// warning: {warning}"))?;
        output.object(&json!({ "type": "warning", "text": warning.to_string() }))?;
    }
    Ok(())
}

fn print_heading(output: Output, database: &Database, command: &str) -> std::io::Result<()> {
    output.text(&format!(
        "// To read, not to run: `{command}` checks, retries and resumes these commands, in this order."
    ))?;
    output.text(&format!("use {}", shell::name(database.name())))
}

pub(crate) fn print_one(output: Output, planned: &PlannedCommand) -> std::io::Result<()> {
    let writes = if planned.writes { "writes: " } else { "" };
    let sibling = match planned {
        _ if planned.on_admin => ".getSiblingDB(\"admin\")",
        _ if planned.on_config => ".getSiblingDB(\"config\")",
        _ => "",
    };
    let command = Bson::Document(planned.command.clone());
    output.text(&format!(
        "\n// {writes}{}\ndb{sibling}.runCommand({})",
        planned.purpose,
        shell::pretty(&command)
    ))?;
    output.object(&json!({
        "type": "command",
        "purpose": planned.purpose,
        "writes": planned.writes,
        "on_admin": planned.on_admin,
        "on_config": planned.on_config,
        "command": to_json(&command),
    }))
}
