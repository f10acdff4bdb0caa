//! The screen.

use std::io;

use mongo_patterns_core::catalog::MigrationRecord;
use mongodb::Namespace;
use mongodb::bson::DateTime;
use serde_json::{Value, json};

use super::attention::{Need, Remedy};
use super::entries::{Entry, Index, Steps};
use super::facts::SAMPLE;
use super::state::Status;
use crate::analyze::size;
use crate::migrations;
use crate::output::{Output, counted, grouped, printable, to_json, wrapped};

/// The width of the names of collections, and of patterns with their size.
const NAME: usize = 34;
const PATTERN: usize = 15;

/// The screen of a database.
pub(super) struct Screen<'a> {
    pub(super) output: Output,
    pub(super) database: &'a str,
    pub(super) status: &'a Status,
    pub(super) needs: &'a [Need],
}

impl Screen<'_> {
    pub(super) fn print(&self) -> io::Result<()> {
        let Self {
            output,
            database,
            status,
            needs,
        } = *self;
        let (server, library) = (&status.server, env!("CARGO_PKG_VERSION"));
        output.text(&wrapped(&format!("{database}: server {server}, library {library}"), 0))?;
        if !status.entries.managed.is_empty() {
            let header = line("collection", "pattern", "documents", "largest", "indexes");
            output.text(&format!("\n{header}"))?;
        }
        for entry in &status.entries.managed {
            self.entry(entry)?;
        }
        if !status.entries.managed.is_empty() {
            let sample = grouped(SAMPLE.unsigned_abs().into());
            output.text(&format!("(the largest of {sample} documents)\n"))?;
        }
        for record in status.other_migrations() {
            output.text(&wrapped(
                &format!("{}: {}", printable(&record.collection), migrations::text(record)),
                0,
            ))?;
        }
        for record in &status.migrations {
            output.object(&migrations::object(record))?;
        }
        self.services()?;
        if !status.unmanaged.is_empty() {
            let names = printable(&status.unmanaged.join(", "));
            output.text(&wrapped(&format!("not managed: {names}"), 0))?;
        }
        for name in &status.unmanaged {
            output.object(&json!({ "type": "unmanaged", "collection": name }))?;
        }
        if !needs.is_empty() {
            output.heading("what needs attention")?;
        }
        needs.iter().try_for_each(|need| self.need(need))
    }

    fn need(
        &self,
        Need {
            collection,
            text,
            remedy,
        }: &Need,
    ) -> io::Result<()> {
        let output = self.output;
        output.text(&wrapped(&printable(&format!("{collection}: {text}")), 0))?;
        match remedy {
            Remedy::Commands(commands) => commands
                .iter()
                .try_for_each(|command| output.text(&format!("    {}", printable(command))))?,
            Remedy::Advice(advice) => output.text(&wrapped(&printable(advice), 4))?,
            Remedy::Either(advice, command) => {
                output.text(&wrapped(&printable(&format!("{advice}:")), 4))?;
                output.text(&format!("    {}", printable(command)))?;
            }
        }
        let (commands, advice) = match remedy {
            Remedy::Commands(commands) => (commands.as_slice(), None),
            Remedy::Advice(advice) => (&[][..], Some(advice.clone())),
            Remedy::Either(advice, command) => (&[][..], Some(format!("{advice}: {command}"))),
        };
        output.object(&json!({
            "type": "attention", "collection": collection, "text": text, "commands": commands, "advice": advice,
        }))
    }

    /// Prints a row for an entry, one for each of its second collections, and what else is known.
    fn entry(&self, entry: &Entry) -> io::Result<()> {
        let Self { output, status, .. } = *self;
        let size = entry.bound().map(|(_, size)| format!(" {size}"));
        let pattern = format!("{}{}", entry.pattern, size.unwrap_or_default());
        output.text(&self.row(entry, &entry.collection, &entry.collection.coll, &pattern))?;
        for related in &entry.related {
            let name = match related.db == self.database {
                true => format!("  {}", related.coll),
                false => format!("  {related}"),
            };
            output.text(&self.row(entry, related, &name, ""))?;
        }
        output.text(&wrapped(&printable(&self.details(entry).join(", ")), 6))?;
        let of = |namespace: &Namespace| {
            let size = status.size_of(namespace);
            let missing = status.missing_of(entry).filter(|index| index.namespace == *namespace);
            json!({
                "namespace": namespace.to_string(),
                "documents": size.map(|size| size.documents),
                "largest_bytes": size.map(|size| size.largest),
                "has_validator": status.facts.get(namespace).is_some_and(|facts| facts.has_validator),
                "missing_indexes": missing.map(|index| &index.name).collect::<Vec<_>>(),
            })
        };
        let facts = status.facts.get(&entry.collection);
        let versions = status
            .facts_of(entry, "schema")
            .into_iter()
            .flat_map(|facts| &facts.versions);
        let versions = versions.map(|(version, documents)| json!({ "version": version, "documents": documents }));
        let follower = status.entries.follower_of(entry);
        output.object(&json!({
            "type": "managed",
            "pattern": entry.pattern,
            "collection": entry.collection.coll,
            "field": entry.field,
            "settings": to_json(&entry.settings.clone().into()),
            "collections": entry.collections().map(of).collect::<Vec<_>>(),
            "longest": entry.bound().and_then(|(array, _)| Some(facts?.longest(array))),
            "migration": status.migration_of(entry).map(migrations::state),
            "follower": follower.map(|follower| &follower.name),
            "verified": entry.verified.as_ref().map(|of| {
                json!({ "at": rfc3339(of.at), "findings": of.findings, "at_least": of.at_least })
            }),
            "verify_error": entry.failed,
            "versions": versions.collect::<Vec<_>>(),
            "oldest": status.facts_of(entry, "archive").and_then(|facts| facts.oldest).map(rfc3339),
            "expired": status.expired(entry),
            "needs_attention": self.needs.iter().any(|need| need.collection == entry.collection.coll),
        }))
    }

    fn row(&self, entry: &Entry, namespace: &Namespace, name: &str, pattern: &str) -> String {
        let of = self.status.size_of(namespace);
        #[allow(clippy::cast_precision_loss)]
        let [documents, largest] = match of {
            Some(of) => [grouped(of.documents), size(of.largest as f64)],
            None if self.status.is_view(namespace) => ["view", "-"].map(str::to_owned),
            None => ["missing", "-"].map(str::to_owned),
        };
        let is_its = |index: &&Index| index.namespace == *namespace;
        let needed = entry.indexes.iter().filter(is_its).count();
        let missing = self.status.missing_of(entry).filter(is_its).count();
        let indexes = match (needed, missing) {
            (0, _) => "-".to_owned(),
            (_, 0) => "ok".to_owned(),
            _ => format!("{missing} MISSING"),
        };
        line(&printable(name), pattern, &documents, &largest, &indexes)
    }

    /// Returns what is known of an entry beside its collections.
    fn details(&self, entry: &Entry) -> Vec<String> {
        let status = self.status;
        let migration = status.migration_of(entry);
        let mut details: Vec<String> = entry.field.iter().map(|field| format!("field {field}")).collect();
        details.push(match migration.map(|record| (record, migrations::state(record))) {
            None => "migration -".to_owned(),
            Some((MigrationRecord { finished: Some(at), .. }, _)) => format!("migration finished {}", self.ago(*at)),
            Some((record, "running")) => format!("migration running, at {}", grouped(record.migrated)),
            Some((record, _)) => format!("migration STOPPED at {}", grouped(record.migrated)),
        });
        let follower = status.entries.follower_of(entry);
        let stored = follower.map(|follower| follower.updated.map_or_else(|| "-".to_owned(), |at| self.ago(at)));
        match stored {
            Some(stored) => details.push(format!("follower {stored}")),
            None if entry.needs_follower() => details.push("follower NONE".to_owned()),
            None => {}
        }
        details.push(match (&entry.failed, &entry.verified) {
            (Some(_), _) => "verify FAILED".to_owned(),
            (None, None) if entry.command("verify").is_none() => "verify -".to_owned(),
            (None, None) => "verify never".to_owned(),
            (None, Some(of)) if of.findings == 0 => format!("verify ok {}", self.ago(of.at)),
            (None, Some(of)) => format!(
                "verify {} {}",
                counted(of.findings, "finding")
                    .to_uppercase()
                    .replacen(' ', "+ ", of.at_least.into()),
                self.ago(of.at)
            ),
        });
        let versions = status
            .facts_of(entry, "schema")
            .into_iter()
            .flat_map(|facts| &facts.versions);
        details.extend(versions.map(|(version, documents)| match version {
            0 => format!("no version: {}", grouped(*documents)),
            version => format!("version {version}: {}", grouped(*documents)),
        }));
        let oldest = status.facts_of(entry, "archive").and_then(|facts| facts.oldest);
        details.extend(oldest.map(|time| format!("oldest {}", rfc3339(time))));
        details.extend(
            status
                .expired(entry)
                .map(|expired| format!("{} past their time", grouped(expired))),
        );
        let validated = entry
            .collections()
            .filter(|one| status.facts.get(one).is_some_and(|facts| facts.has_validator));
        let validated: Vec<&str> = validated.map(|one| one.coll.as_str()).collect();
        if !validated.is_empty() {
            details.push(format!("validator of {}", validated.join(" and ")));
        }
        details
    }

    /// Prints followers, the steps of services, and leases.
    fn services(&self) -> io::Result<()> {
        let Self { output, status, .. } = *self;
        let entries = &status.entries;
        for follower in &entries.followers {
            let at = follower.updated.map_or_else(|| "never".to_owned(), |at| self.ago(at));
            let watched = follower.watched.join(", ");
            let text = format!("follower {} of {watched}: stored its position {at}", follower.name);
            output.text(&wrapped(&printable(&text), 0))?;
            output.object(&json!({
                "type": "follower",
                "name": follower.name,
                "watched": follower.watched,
                "stored": follower.updated.map(rfc3339),
            }))?;
        }
        entries.steps.iter().try_for_each(|steps| self.steps(steps))?;
        for lease in &entries.leases {
            let held = match (lease.until.is_some_and(|until| until > status.now), lease.since) {
                (true, Some(since)) => format!("held by {} since {}", lease.holder, self.ago(since)),
                _ => "free".to_owned(),
            };
            output.text(&wrapped(&printable(&format!("lease {}: {held}", lease.name)), 0))?;
            output.object(&json!({
                "type": "lease",
                "name": lease.name,
                "held": held != "free",
                "holder": lease.holder,
                "since": lease.since.map(rfc3339),
            }))?;
        }
        Ok(())
    }

    fn steps(&self, Steps { name, applied, failed }: &Steps) -> io::Result<()> {
        let last = applied
            .last()
            .map(|(last, at)| format!(", the last one, {last}, {}", self.ago(*at)));
        let text = format!("steps {name}: {} applied{}", applied.len(), last.unwrap_or_default());
        self.output.text(&wrapped(&printable(&text), 0))?;
        let applied = applied
            .iter()
            .map(|(name, at)| json!({ "name": name, "applied": rfc3339(*at) }));
        let applied: Vec<Value> = applied.collect();
        self.output
            .object(&json!({ "type": "steps", "list": name, "applied": applied, "failed": failed }))
    }

    fn ago(&self, time: DateTime) -> String {
        let seconds = self.status.millis_since(time).max(0) / 1000;
        match seconds {
            0..120 => format!("{seconds} s ago"),
            120..7200 => format!("{} min ago", seconds / 60),
            7200..172_800 => format!("{} h ago", seconds / 3600),
            _ => format!("{} days ago", seconds / 86_400),
        }
    }
}

/// Returns a line of the table. A long name is shortened; JSON has all of it.
fn line(name: &str, pattern: &str, documents: &str, largest: &str, indexes: &str) -> String {
    let name = match name.chars().count() > NAME {
        true => name.chars().take(NAME - 2).chain("..".chars()).collect(),
        false => name.to_owned(),
    };
    format!(" {name:NAME$} {pattern:PATTERN$} {documents:>9} {largest:>7} {indexes:>9}")
}

fn rfc3339(time: DateTime) -> String {
    time.try_to_rfc3339_string().unwrap_or_default()
}
