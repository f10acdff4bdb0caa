//! The problems of the collections of a pattern as a whole.

use std::io;

use mongo_patterns_core::{ErrorKind, MigrationRecord, Repository, migrations};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::migrations::resume;
use crate::output::{Output, Record, counted};
use crate::words::of_error;

/// Prints missing indexes, and returns their number.
pub(super) async fn find_missing_indexes(output: Output, repository: &dyn Repository) -> Result<u64, Failure> {
    let (mut found, pattern) = (0, repository.pattern());
    for plan in repository.indexes() {
        let (name, problem) = (plan.namespace().coll, "IndexMissing");
        match plan.missing().await {
            Ok(missing) => {
                found += missing.len() as u64;
                for index in missing {
                    let text = format!(
                        "the index `{}` is missing: run `{pattern} indexes --create`",
                        index.name
                    );
                    print(output, &name, text, json!({ "problem": problem, "index": index.name }))?;
                }
            }
            Err(error) if error.kind() == ErrorKind::IndexMismatch => {
                found += 1;
                let text = of_error(&error);
                print(output, &name, text, json!({ "problem": "IndexMismatch" }))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Prints the migrations into the collections that have not finished, and returns their number. Migrations come first:
/// a finding can be a document that is not migrated yet.
pub(super) async fn find_unfinished(context: &Context, repository: &dyn Repository) -> Result<u64, Failure> {
    let (output, database) = (context.output, context.database.name());
    let records = match migrations(&context.database).await {
        Err(error) if error.kind() == ErrorKind::Unauthorized => {
            output.notice(
                "unfinished migrations are not checked, because the user may not read the catalog: grant `find` on it",
            );
            return Ok(0);
        }
        records => records?,
    };
    let namespaces = repository.namespaces();
    let is_own = |record: &&MigrationRecord| {
        let mut own = namespaces.iter().filter(|namespace| namespace.db == database);
        own.any(|namespace| namespace.coll == record.collection)
    };
    let mut found = 0;
    for record in records.iter().filter(|record| record.finished.is_none()).filter(is_own) {
        found += 1;
        let source = record.settings.get_str("source").unwrap_or("?");
        let migrated = counted(record.migrated, "item");
        let (state, remedy) = match (record.is_running, resume::command(record)) {
            (true, _) => ("running", "verify again when it has finished".to_owned()),
            (false, Some((command, further))) => (
                "unfinished",
                format!("resume it before a repair, run `{command}` again{further}"),
            ),
            (false, None) => ("unfinished", "run it again".to_owned()),
        };
        let text = format!("the migration from {source} is {state}, after {migrated}: {remedy}");
        let fields = json!({
            "problem": "MigrationUnfinished",
            "source": source,
            "migrated": record.migrated,
            "running": record.is_running,
        });
        print(output, &record.collection, text, fields)?;
    }
    Ok(found)
}

fn print(output: Output, collection: &str, text: String, fields: Value) -> io::Result<()> {
    output.record(Record {
        kind: "finding",
        collection,
        id: None,
        text,
        fields,
    })
}
