//! The screen.

use std::io;

use mongo_patterns_core::catalog::MigrationRecord;
use mongodb::Namespace;
use mongodb::bson::DateTime;
use serde_json::json;

use super::attention::Need;
use super::entries::Entry;
use super::facts::SAMPLE;
use super::state::Status;
use crate::output::{Output, WIDTH, grouped, new_table, wrapped};

pub(super) fn status(output: Output, database: &str, status: &Status, needs: &[Need]) -> io::Result<()> {
    let (server, library) = (&status.server, env!("CARGO_PKG_VERSION"));
    output.text(&wrapped(&format!("{database}: server {server}, library {library}"), 0))?;
    collections_of(output, database, status, needs)?;
    services(output, status)?;
    if !status.unmanaged.is_empty() {
        output.text(&wrapped(&format!("not managed: {}", status.unmanaged.join(", ")), 0))?;
        for name in &status.unmanaged {
            output.object(&json!({ "type": "unmanaged", "collection": name }))?;
        }
    }
    if !needs.is_empty() {
        output.heading("what needs attention")?;
    }
    for Need {
        collection,
        text,
        remedy,
    } in needs
    {
        output.text(&wrapped(&format!("{collection}: {text}"), 0))?;
        output.text(&format!("    {remedy}"))?;
        output.object(&json!({ "type": "attention", "collection": collection, "text": text, "remedy": remedy }))?;
    }
    Ok(())
}

/// Prints a row for each entry, and one for each of its second collections.
fn collections_of(output: Output, database: &str, status: &Status, needs: &[Need]) -> io::Result<()> {
    let mut table = new_table();
    table.set_header(["collection", "pattern", "documents", "largest", "indexes", "migration"]);
    for entry in &status.entries.managed {
        let collection = entry.collection.coll.as_str();
        let migration = status.migrations.iter().find(|record| record.collection == collection);
        let migration = migration.map_or("-", |record| state(record));
        row(
            &mut table,
            database,
            status,
            entry,
            &entry.collection,
            &entry.pattern,
            migration,
        );
        for related in &entry.related {
            row(&mut table, database, status, entry, related, "", "");
        }
        let facts = |namespace: &Namespace| {
            let size = status.size_of(namespace);
            let missing = status.missing_of(entry).filter(|(of, _)| of == namespace);
            json!({
                "namespace": namespace.to_string(),
                "documents": size.map(|size| size.documents),
                "largest_bytes": size.map(|size| size.largest),
                "has_validator": status.facts_of(namespace).is_some_and(|facts| facts.has_validator),
                "missing_indexes": missing.map(|(_, name)| name).collect::<Vec<_>>(),
            })
        };
        output.object(&json!({
            "type": "managed",
            "pattern": entry.pattern,
            "collection": collection,
            "field": entry.field,
            "settings": crate::output::to_json(&entry.settings.clone().into()),
            "migration": migration,
            "collections": std::iter::once(&entry.collection).chain(&entry.related).map(facts).collect::<Vec<_>>(),
            "needs_attention": needs.iter().any(|need| need.collection == collection),
        }))?;
    }
    if status.entries.managed.is_empty() {
        return Ok(());
    }
    output.text("")?;
    output.table(table)?;
    output.text(&format!(
        "(the largest of {} documents, in bytes)",
        grouped(SAMPLE.unsigned_abs().into())
    ))
}

fn row(
    table: &mut comfy_table::Table,
    database: &str,
    status: &Status,
    entry: &Entry,
    namespace: &Namespace,
    pattern: &str,
    migration: &str,
) {
    let name = match (namespace.db == database, pattern.is_empty()) {
        (true, true) => format!("  {}", namespace.coll),
        (false, _) => format!("  {namespace}"),
        _ => namespace.coll.clone(),
    };
    let size = status.size_of(namespace);
    let number = |number: Option<u64>| number.map_or_else(|| "missing".to_owned(), grouped);
    let indexes = match status.missing_of(entry).filter(|(of, _)| of == namespace).count() {
        0 => "ok".to_owned(),
        missing => format!("{missing} missing"),
    };
    table.add_row([
        shortened(name, WIDTH - 52),
        pattern.to_owned(),
        number(size.map(|size| size.documents)),
        number(size.map(|size| size.largest)),
        indexes,
        migration.to_owned(),
    ]);
}

fn shortened(name: String, longest: usize) -> String {
    match name.chars().count() > longest {
        true => name.chars().take(longest - 2).chain("..".chars()).collect(),
        false => name,
    }
}

fn state(record: &MigrationRecord) -> &'static str {
    match (&record.finished, record.is_running) {
        (Some(_), _) => "finished",
        (None, true) => "running",
        (None, false) => "unfinished",
    }
}

/// Prints followers, the steps of services, and leases.
fn services(output: Output, status: &Status) -> io::Result<()> {
    let ago = |time: &DateTime| {
        let seconds = (status.now.timestamp_millis() - time.timestamp_millis()).max(0) / 1000;
        match seconds {
            0..120 => format!("{seconds} s"),
            120..7200 => format!("{} min", seconds / 60),
            _ => format!("{} h", seconds / 3600),
        }
    };
    let text = |time: &Option<DateTime>| time.as_ref().and_then(|time| time.try_to_rfc3339_string().ok());
    let entries = &status.entries;
    let lines = entries.followers.len() + entries.steps.len() + entries.leases.len();
    if lines > 0 {
        output.text("")?;
    }
    for follower in &entries.followers {
        let at = follower
            .updated
            .as_ref()
            .map_or("never".to_owned(), |at| format!("{} ago", ago(at)));
        let watched = follower.watched.join(", ");
        output.text(&wrapped(
            &format!("follower {} of {watched}: stored its position {at}", follower.name),
            0,
        ))?;
        output.object(&json!({
            "type": "follower", "name": follower.name, "watched": follower.watched, "stored": text(&follower.updated),
        }))?;
    }
    for steps in &entries.steps {
        let last = steps
            .last
            .as_ref()
            .map(|(name, at)| format!(", the last one, {name}, {} ago", ago(at)));
        let last = last.unwrap_or_default();
        output.text(&wrapped(
            &format!("steps {}: {} applied{last}", steps.name, steps.applied),
            0,
        ))?;
        output.object(&json!({ "type": "steps", "list": steps.name, "applied": steps.applied }))?;
    }
    for lease in &entries.leases {
        let is_held = lease.until.is_some_and(|until| until > status.now);
        let since = lease.since.as_ref().map(|since| format!(" since {}", ago(since)));
        let held = match is_held {
            true => format!("held{}", since.unwrap_or_default()),
            false => "free".to_owned(),
        };
        output.text(&wrapped(&format!("lease {}: {held}", lease.name), 0))?;
        output.object(&json!({
            "type": "lease", "name": lease.name, "held": is_held, "since": text(&lease.since),
        }))?;
    }
    Ok(())
}
