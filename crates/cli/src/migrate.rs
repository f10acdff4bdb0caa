//! Migrations of all patterns: their plan, their dry run, and their run.

use mongo_patterns_core::Repository;
use mongo_patterns_core::migration::Migration;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Summary, counted};
use crate::plan;
use crate::progress::SharedProgress;
use crate::selection::Selection;

/// What is done with a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Prints its commands.
    Plan,
    /// Prints its result, without a write.
    DryRun,
    /// Runs it.
    Run,
}

/// A migration of a pattern.
pub(crate) struct Migrate<'a> {
    pub(crate) context: &'a Context,
    pub(crate) repository: &'a dyn Repository,
    pub(crate) verb: &'static str,
    pub(crate) mode: Mode,
    /// The name of what is counted.
    pub(crate) unit: &'static str,
    pub(crate) selection: Option<&'a Selection>,
    /// The collection that the filter is about, and the filter, if they are not the first collection and that of the selection.
    pub(crate) filtered: Option<(Collection<Document>, Document)>,
    /// The rows that would be wrong: what the migration does not count, and the commands of a plan that does not list all.
    pub(crate) omits: &'static [&'static str],
}

/// The rows of a dry run with the number of the commands.
pub(crate) const COMMANDS: [&str; 2] = ["commands", "commands_that_write"];

impl<'a> Migrate<'a> {
    pub(crate) fn new(context: &'a Context, repository: &'a dyn Repository, mode: Mode, unit: &'static str) -> Self {
        Self {
            context,
            repository,
            verb: "migrate",
            mode,
            unit,
            selection: None,
            filtered: None,
            omits: &[],
        }
    }

    /// Does it, and prints its result.
    pub(crate) async fn execute(&self, migration: impl Migration<'a>) -> Outcome {
        match self.run(migration).await? {
            Some((summary, exit)) => self.print(&summary, exit).await,
            None => Ok(Exit::Success),
        }
    }

    /// Does it. Returns its result, except for a plan, which it prints.
    pub(crate) async fn run(&self, mut migration: impl Migration<'a>) -> Result<Option<(Summary, Exit)>, Failure> {
        let output = self.context.output;
        if let Some(selection) = self.selection {
            selection.set(self.context, migration.options())?;
        }
        if self.mode == Mode::Run {
            let progress = SharedProgress::new(output, self.verb, self.unit, None);
            progress.show("the server checks all documents, then migrates them");
            migration.report(Box::new(progress.callback()));
            let migrated = migration.await;
            progress.end();
            return self.summary(&migrated?, None).map(Some);
        }
        let planned = migration.planned().await?;
        plan::warn(output, &planned.warnings)?;
        if self.mode == Mode::Plan {
            plan::print(output, &self.context.database, &planned.commands)?;
            return Ok(None);
        }
        let writes = planned.commands.iter().filter(|planned| planned.writes).count();
        let commands = Some((planned.commands.len(), writes));
        self.summary(&planned.migrated, commands).map(Some)
    }

    /// Prints the result.
    pub(crate) async fn print(&self, summary: &Summary, exit: Exit) -> Outcome {
        let output = self.context.output;
        let unmatched = match summary.is_zero() {
            true => self.unmatched().await?,
            false => None,
        };
        if let Some(text) = &unmatched {
            output.text(text)?;
            output.object(&json!({ "type": "warning", "text": text }))?;
        }
        output.summary(summary, exit)?;
        if self.mode == Mode::Run && summary.is_zero() && unmatched.is_none() {
            output.text(match self.verb {
                "run" | "restore" | "delete" | "empty" => "nothing to move or delete: no document matches",
                _ => "nothing to migrate: the documents, but those skipped, have the new form already",
            })?;
        }
        if exit.findings() > 0 {
            let pattern = self.repository.pattern();
            output.text(&format!("`{pattern} verify` lists the orphans"))?;
        }
        Ok(exit)
    }

    /// Returns that the filter matches no document, if that is so.
    async fn unmatched(&self) -> Result<Option<String>, Failure> {
        let (collection, filter) = match (&self.filtered, self.selection) {
            (Some(filtered), _) => filtered.clone(),
            (None, Some(selection)) => {
                let first = &self.repository.namespaces()[0].coll;
                (self.context.database.collection(first), selection.filter()?)
            }
            (None, None) => return Ok(None),
        };
        let on = || Failure::on(collection.namespace());
        if filter.is_empty()
            || collection
                .find_one(filter)
                .projection(doc! { "_id": 1 })
                .await
                .map_err(on())?
                .is_some()
        {
            return Ok(None);
        }
        let documents = collection.estimated_document_count().await.map_err(on())?;
        Ok(Some(format!(
            "the filter matches 0 of {} of {}",
            counted(documents, "document"),
            collection.name()
        )))
    }

    /// Returns the fields of a result as rows. A dry run leaves out the numbers that are 0 after the first one, because some
    /// of them are known to a run only.
    fn summary(&self, migrated: &impl Serialize, commands: Option<(usize, usize)>) -> Result<(Summary, Exit), Failure> {
        let dry_run = if commands.is_some() { " --dry-run" } else { "" };
        let mut summary = Summary::of(self.repository, &format!("{}{dry_run}", self.verb));
        let fields = serde_json::to_value(migrated).map_err(std::io::Error::from)?;
        let mut orphans = 0;
        let fields = fields.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| !self.omits.contains(&name.as_str()));
        for (number, (name, value)) in fields.enumerate() {
            let value = match value {
                Value::Array(names) => Value::from(names.len()),
                Value::Object(reasons) => {
                    if let Some(selection) = self.selection {
                        summary = selection.rows(summary, reasons);
                    }
                    continue;
                }
                Value::Null => continue,
                value => value.clone(),
            };
            if commands.is_some() && number > 0 && (value == 0 || value == false) {
                continue;
            }
            if name == "orphans" {
                orphans = value.as_u64().unwrap_or(0);
            }
            summary = summary.row(name.clone(), value);
        }
        let Some((all, writes)) = commands else {
            return Ok((summary, Exit::of_findings(orphans)));
        };
        let counted = COMMANDS.into_iter().zip([all, writes]);
        let counted = counted.filter(|(name, _)| !self.omits.contains(name));
        let summary = counted.fold(summary, |summary, (name, number)| summary.row(name, number));
        Ok((summary, Exit::Success))
    }
}
