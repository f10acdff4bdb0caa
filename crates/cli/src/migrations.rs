//! The records of migrations.

pub(crate) mod resume;

use mongo_patterns_core::{MigrationRecord, forget_migration, migrations};
use mongodb::bson::{Bson, DateTime};
use serde_json::{Value, json};

use crate::args::MigrationsVerb;
use crate::confirm::confirmed;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Summary, counted, printable, to_json};

/// Deletes a record.
pub(crate) async fn run(
    context: &Context,
    MigrationsVerb::Forget {
        collection,
        confirmation,
    }: &MigrationsVerb,
) -> Outcome {
    let records = migrations(&context.database).await?;
    let Some(record) = records.iter().find(|record| record.collection == *collection) else {
        return Err(Failure::usage(format!(
            "{} has no record of a migration into this collection: `status` shows all",
            context.database.name()
        )));
    };
    context
        .output
        .text(&format!("{}: {}", printable(collection), text(record)))?;
    context.output.object(&object(record))?;
    if !record.is_running {
        let consequence = match record.finished {
            Some(_) => "without its record, another run is refused because the target has documents",
            None => "without its record, it cannot resume: the target must be emptied before it begins again",
        };
        confirmed(context.output, *confirmation, consequence).await?;
    }
    let deleted = forget_migration(&context.database, collection).await?;
    let summary = Summary::new("migrations forget", context.database.name()).row("deleted", u64::from(deleted));
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

/// Returns whether a migration is finished, running or stopped.
pub(crate) fn state(record: &MigrationRecord) -> &'static str {
    match (&record.finished, record.is_running) {
        (Some(_), _) => "finished",
        (None, true) => "running",
        (None, false) => "stopped",
    }
}

/// Describes a record.
pub(crate) fn text(record: &MigrationRecord) -> String {
    let setting = |name: &str| printable(record.settings.get_str(name).unwrap_or("?"));
    let at = record.finished.as_ref().map(|at| format!(" at {}", time(at)));
    let begun = record.begun.as_ref().map(|at| format!(", last begun at {}", time(at)));
    format!(
        "{} migration from {}: {}{}, {} migrated{}",
        setting("pattern"),
        setting("source"),
        state(record),
        at.unwrap_or_default(),
        counted(record.migrated, "item"),
        begun.unwrap_or_default()
    )
}

/// Returns a record for `--json`.
pub(crate) fn object(record: &MigrationRecord) -> Value {
    json!({
        "type": "migration",
        "collection": record.collection,
        "settings": to_json(&Bson::Document(record.settings.clone())),
        "state": state(record),
        "migrated": record.migrated,
        "begun": record.begun.as_ref().map(time),
        "finished": record.finished.as_ref().map(time),
    })
}

fn time(time: &DateTime) -> String {
    time.try_to_rfc3339_string().unwrap_or_default()
}
