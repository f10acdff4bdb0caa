//! Verifies and repairs the documents of a pattern, and prints what is found.

mod setup;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::{io, mem};

use futures::TryStreamExt;
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::verify::{Finding, Repaired};
use mongo_patterns_core::{ErrorKind, Progress, Repository};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{DryRun, Listing};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Record, Summary, counted, printable};
use crate::progress::SharedProgress;
use crate::shard;
use crate::words::in_commands;

/// The number of documents that a text names. JSON has all.
const NAMED: usize = 10;

/// The reasons why a bucket's key is not repaired, and the problems that have them.
const REASONS: [(&str, &[&str]); 5] = [
    ("AmbiguousKey", &["KeyType", "KeyMismatch", "KeyMissing", "IdFormat"]),
    ("UnknownPosition", &["IdFormat", "IdOrder"]),
    ("ItemsDiffer", &["DuplicateItemId"]),
    ("NoItemId", &["ItemIdMissing"]),
    ("UnreadableItems", &["ItemNull", "ItemTimeMissing", "ItemValueInvalid"]),
];

/// The progress callback of a call.
pub(crate) type Report = Box<dyn FnMut(Progress) + Send>;

/// The name of a document that needs none.
pub(crate) async fn unnamed<T>(_: &T) -> Result<Option<String>, Failure> {
    Ok(None)
}

/// A verification or a repair.
pub(crate) struct Check<'a> {
    context: &'a Context,
    progress: SharedProgress,
    output: Output,
    repository: &'a dyn Repository,
    verb: &'static str,
}

impl<'a> Check<'a> {
    /// Creates it, with the name of what is counted.
    pub(crate) fn new(
        context: &'a Context,
        repository: &'a dyn Repository,
        verb: &'static str,
        unit: &'static str,
    ) -> Self {
        let output = context.output;
        let progress = SharedProgress::new(output, verb, unit, None);
        progress.show("the server reads the documents");
        Self {
            context,
            progress,
            output,
            repository,
            verb,
        }
    }

    /// Prints all findings, or a line for each cause, and returns their number.
    pub(crate) async fn print_all<'f, P: Display + Serialize>(
        &self,
        listing: Listing,
        start: impl FnOnce(Report) -> ActionStream<'f, Finding<P>>,
    ) -> Result<u64, Failure> {
        let mut found = 0;
        self.print_each(listing, start, &mut found).await.map(|()| found)
    }

    async fn print_each<'f, P: Display + Serialize>(
        &self,
        listing: Listing,
        start: impl FnOnce(Report) -> ActionStream<'f, Finding<P>>,
        found: &mut u64,
    ) -> Result<(), Failure> {
        let mut findings = start(Box::new(self.progress.callback()));
        let is_grouped = !listing.all && !self.output.json;
        let mut causes = Causes::of(self);
        while *found < self.output.most_findings()
            && let Some(finding) = findings.try_next().await?
        {
            *found += 1;
            match finding.related_id {
                Some(_) if is_grouped => causes.hold(finding),
                _ => self.progress.suspend(|| self.print(&finding, 1))?,
            }
        }
        self.progress.end();
        Ok(causes.print()?)
    }

    /// Checks the collections as a whole, prints all findings, and returns the summary and the number of the findings.
    pub(crate) async fn find<'f, P: Display + Serialize>(
        &self,
        listing: Listing,
        start: impl FnOnce(Report) -> ActionStream<'f, Finding<P>>,
    ) -> Result<(Summary, u64), Failure> {
        let mut found = setup::find_unfinished(self.context, self.repository).await?;
        found += shard::verify(self.output, self.repository).await?;
        match self.print_each(listing, start, &mut found).await {
            // It is a finding, as in patterns that verify without their indexes.
            Err(failure) if failure.is(ErrorKind::IndexMissing) => {
                self.progress.end();
                self.output.notice(&failure.text);
            }
            done => done?,
        }
        found += setup::find_missing_indexes(self.output, self.repository).await?;
        Ok((self.summary("").row("findings", found), found))
    }

    /// Does the same, and prints the summary.
    pub(crate) async fn verify<'f, P: Display + Serialize>(
        &self,
        listing: Listing,
        start: impl FnOnce(Report) -> ActionStream<'f, Finding<P>>,
    ) -> Outcome {
        let (summary, found) = self.find(listing, start).await?;
        self.end(&summary, found).await
    }

    /// Prints the summary of a verification, and stores its outcome in the catalog.
    pub(crate) async fn end(&self, summary: &Summary, found: u64) -> Outcome {
        let exit = Exit::of_findings(found);
        self.output.summary(summary, exit)?;
        let at_least = found >= self.output.most_findings();
        self.repository.managed().entry.store_verified(found, at_least).await?;
        Ok(exit)
    }

    /// Prints what is repaired, or would be, with a name for the document that a dry run would delete.
    pub(crate) async fn repair<'f, P: Display + Serialize, U: Display + Serialize>(
        &self,
        DryRun { dry_run }: DryRun,
        start: impl FnOnce(Report) -> ActionStream<'f, Repaired<P, U>>,
        name: impl AsyncFn(&Repaired<P, U>) -> Result<Option<String>, Failure>,
    ) -> Outcome {
        let mut repairs = start(Box::new(self.progress.callback()));
        let (mut seen, mut left) = (0, 0);
        while let Some(repaired) = repairs.try_next().await? {
            // As a verification counts them.
            let findings = repaired.findings.len() as u64;
            seen += findings;
            left += if repaired.unrepaired.is_some() { findings } else { 0 };
            let deleted = if dry_run { name(&repaired).await? } else { None };
            self.progress
                .suspend(|| self.print_repaired(&repaired, dry_run, deleted))?;
        }
        self.progress.end();
        let exit = Exit::of_findings(if dry_run { seen } else { left });
        let (option, row) = match dry_run {
            true => (" --dry-run", "to_repair"),
            false => ("", "repaired"),
        };
        let summary = self.summary(option).row(row, seen - left).row("unrepaired", left);
        self.output.summary(&summary, exit)?;
        Ok(exit)
    }

    fn summary(&self, option: &str) -> Summary {
        Summary::of(self.repository, &format!("{}{option}", self.verb))
    }

    /// Prints a finding, or the first one of several with one cause.
    fn print<P: Display + Serialize>(&self, finding: &Finding<P>, count: u64) -> io::Result<()> {
        let mut text = self.in_commands(&finding.problem);
        if !finding.fields.is_empty() {
            text = format!("`{}`: {text}", finding.fields.join("` and `"));
        }
        let documents = &finding.document_ids;
        if !documents.is_empty() {
            let named = documents.iter().take(NAMED).map(|id| printable(&id.to_string()));
            let more = if documents.len() > NAMED { ", .." } else { "" };
            text = format!("{text}: {}{more}", named.collect::<Vec<_>>().join(", "));
        }
        if count == 1 {
            return self.record("finding", finding, text, fields(finding));
        }
        let of = finding
            .related_id
            .iter()
            .map(|id| format!(" of the {} {}", self.related(), printable(&id.to_string())));
        let such_as = printable(&finding.document_id.to_string());
        self.output.record(Record {
            kind: "finding",
            collection: &finding.namespace.coll,
            id: None,
            text: format!(
                "{}{}, such as {such_as}: {text}",
                counted(count, "document"),
                of.collect::<String>()
            ),
            fields: Value::Null,
        })
    }

    fn print_repaired<P: Display + Serialize, U: Display + Serialize>(
        &self,
        repaired: &Repaired<P, U>,
        dry_run: bool,
        named: Option<String>,
    ) -> io::Result<()> {
        for finding in &repaired.findings {
            self.print(finding, 1)?;
        }
        let Some(finding) = at_fault(repaired) else {
            return Ok(());
        };
        let (written, deleted) = (repaired.written, repaired.deleted);
        let text = match &repaired.unrepaired {
            Some(left) => format!("not repaired: {}", self.in_commands(left)),
            None if named.is_some() => format!("would delete {}", named.unwrap_or_default()),
            None if written == 0 && deleted == 0 => if dry_run { "would be repaired" } else { "repaired" }.to_owned(),
            None if dry_run => format!("would write {}, and delete {deleted}", counted(written, "document")),
            None => format!("wrote {}, and deleted {deleted}", counted(written, "document")),
        };
        let mut further = fields(finding);
        further.retain(|name, _| name == "related_id" || name == "fields");
        further.extend(fields(repaired));
        further.remove("findings");
        self.record("repaired", finding, text, further)
    }

    fn record<P>(
        &self,
        kind: &'static str,
        finding: &Finding<P>,
        text: String,
        fields: Map<String, Value>,
    ) -> io::Result<()> {
        self.output.record(Record {
            kind,
            collection: &finding.namespace.coll,
            id: Some(finding.document_id.clone()),
            text,
            fields: fields.into(),
        })
    }

    /// Returns what the related id of a finding identifies.
    fn related(&self) -> &'static str {
        match self.repository.pattern() {
            "bucket" => "key",
            "outlier" => "list",
            "reference" => "source",
            _ => "value",
        }
    }

    fn in_commands(&self, text: impl Display) -> String {
        in_commands(Some(self.repository.pattern()), text)
    }
}

/// Findings about what belongs to one value, such as the copies of a customer, by their problem. They are printed at the end,
/// also when the verification is stopped.
struct Causes<'a, P: Display + Serialize> {
    check: &'a Check<'a>,
    /// The first finding of each cause, and their number.
    held: BTreeMap<String, (Finding<P>, u64)>,
}

impl<'a, P: Display + Serialize> Causes<'a, P> {
    fn of(check: &'a Check<'a>) -> Self {
        let held = BTreeMap::new();
        Self { check, held }
    }

    fn hold(&mut self, finding: Finding<P>) {
        let mut cause = fields(&finding);
        cause.retain(|name, _| ["problem", "related_id", "fields"].contains(&name.as_str()));
        let cause = format!("{} {}", finding.namespace.coll, Value::from(cause));
        self.held.entry(cause).or_insert((finding, 0)).1 += 1;
    }

    fn print(&mut self) -> io::Result<()> {
        let mut held = mem::take(&mut self.held).into_values();
        held.try_for_each(|(first, count)| self.check.print(&first, count))
    }
}

impl<P: Display + Serialize> Drop for Causes<'_, P> {
    fn drop(&mut self) {
        let _ = self.print();
    }
}

/// Returns the finding for which something was not repaired, or the first one.
fn at_fault<P: Serialize, U: Serialize>(repaired: &Repaired<P, U>) -> Option<&Finding<P>> {
    let name = |value: Value| value.as_str().map(str::to_owned);
    let reason = serde_json::to_value(&repaired.unrepaired).ok().and_then(name);
    let reason = reason.unwrap_or_default();
    let is_at_fault = |finding: &&Finding<P>| {
        let problem = fields(finding).remove("problem").and_then(name).unwrap_or_default();
        problem == reason
            || REASONS
                .iter()
                .any(|(left, problems)| *left == reason && problems.contains(&problem.as_str()))
    };
    repaired.findings.iter().find(is_at_fault).or(repaired.findings.first())
}

/// Returns the fields of the serialized form, but for those that each record has.
fn fields(serialized: impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(serialized) else {
        return Map::new();
    };
    fields.retain(|name, _| name != "namespace" && name != "document_id");
    fields
}
