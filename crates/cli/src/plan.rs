//! Prints the commands that a call would send.

use mongo_patterns_core::PlannedCommand;
use mongodb::Database;
use mongodb::bson::Bson;
use serde_json::json;

use crate::failure::{Exit, Outcome};
use crate::output::{Output, to_json};
use crate::shell;

pub(crate) fn print(output: Output, database: &Database, commands: &[PlannedCommand]) -> Outcome {
    print_database(output, database)?;
    for planned in commands {
        print_one(output, planned)?;
    }
    Ok(Exit::Success)
}

pub(crate) fn print_database(output: Output, database: &Database) -> std::io::Result<()> {
    output.text("// To read, not to run: `migrate` checks, retries and resumes these commands, in this order.")?;
    output.text(&format!("use {}", shell::name(database.name())))
}

pub(crate) fn print_one(output: Output, planned: &PlannedCommand) -> std::io::Result<()> {
    let writes = if planned.writes { "writes: " } else { "" };
    let admin = if planned.on_admin {
        ".getSiblingDB(\"admin\")"
    } else {
        ""
    };
    let command = Bson::Document(planned.command.clone());
    output.text(&format!(
        "\n// {writes}{}\ndb{admin}.runCommand({})",
        planned.purpose,
        shell::pretty(&command)
    ))?;
    output.object(&json!({
        "type": "command",
        "purpose": planned.purpose,
        "writes": planned.writes,
        "on_admin": planned.on_admin,
        "command": to_json(&command),
    }))
}
