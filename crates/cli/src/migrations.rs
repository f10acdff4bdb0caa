//! The records of migrations.

use mongo_patterns_core::{MigrationRecord, forget_migration, migrations};
use mongodb::bson::{Bson, DateTime};
use serde_json::json;

use crate::args::MigrationsVerb;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Record, Summary, counted, to_json};

pub(crate) async fn run(context: &Context, verb: &MigrationsVerb) -> Outcome {
    match verb {
        MigrationsVerb::List => list(context).await,
        MigrationsVerb::Forget { collection, yes } => forget(context, collection, *yes).await,
    }
}

async fn list(context: &Context) -> Outcome {
    let records = migrations(&context.database).await?;
    let count = |is: fn(&MigrationRecord) -> bool| records.iter().filter(|record| is(record)).count();
    for record in &records {
        print(context.output, record)?;
    }
    let summary = Summary::new("migrations list", context.database.name())
        .row("finished", count(|record| record.finished.is_some()))
        .row("unfinished", count(|record| record.finished.is_none()))
        .row("running", count(|record| record.is_running));
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

async fn forget(context: &Context, collection: &str, yes: bool) -> Outcome {
    let records = migrations(&context.database).await?;
    let Some(record) = records.iter().find(|record| record.collection == collection) else {
        return Err(Failure::usage(format!(
            "{} has no record of a migration into this collection: `migrations list` shows all",
            context.database.name()
        )));
    };
    print(context.output, record)?;
    if !record.is_running && !yes {
        let consequence = match record.finished {
            Some(_) => "without its record, another run is refused because the target has documents",
            None => "without its record, it cannot resume: the target must be emptied before it begins again",
        };
        let reason = format!("{consequence}: pass --yes to delete the record");
        confirm(context.output, &format!("{consequence}. Delete the record?"), reason).await?;
    }
    let deleted = forget_migration(&context.database, collection).await?;
    let summary = Summary::new("migrations forget", context.database.name()).row("deleted", u64::from(deleted));
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

fn print(output: Output, record: &MigrationRecord) -> std::io::Result<()> {
    let MigrationRecord {
        collection,
        settings,
        migrated,
        begun,
        finished,
        is_running,
        ..
    } = record;
    let setting = |name: &str| settings.get_str(name).unwrap_or("?").to_owned();
    let time = |time: &DateTime| time.try_to_rfc3339_string().unwrap_or_default();
    let state = match (finished, is_running) {
        (Some(at), _) => format!("finished at {}", time(at)),
        (None, true) => "running".to_owned(),
        (None, false) => "unfinished".to_owned(),
    };
    let begun_at = begun.as_ref().map(|at| format!(", last begun at {}", time(at)));
    output.record(Record {
        kind: "migration",
        collection,
        id: None,
        text: format!(
            "{} migration from {}: {state}, {} migrated{}",
            setting("pattern"),
            setting("source"),
            counted(*migrated, "item"),
            begun_at.unwrap_or_default()
        ),
        fields: json!({
            "settings": to_json(&Bson::Document(settings.clone())),
            "migrated": migrated,
            "begun": begun.as_ref().map(time),
            "finished": finished.as_ref().map(time),
            "running": is_running,
        }),
    })
}
