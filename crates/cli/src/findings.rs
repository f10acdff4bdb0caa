//! Verifies and repairs the documents of a pattern, and prints what is found.

use std::fmt::Display;
use std::io;

use futures::TryStreamExt;
use mongo_patterns_core::Repository;
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::verify::{Finding, Repaired};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Record, Summary, counted, printable};
use crate::progress::SharedProgress;
use crate::shard;

/// The number of documents that a text names. JSON has all.
const NAMED: usize = 10;

/// The methods that the texts of the library name, and what they are called here.
const COMMANDS: [(&str, &str); 9] = [
    (
        "rebuild(..).discard_embedded()",
        "`PATTERN migrate --from collection --discard-embedded`",
    ),
    ("migrate_from_embedded()", "`PATTERN migrate --from embedded`"),
    ("migrate_from_references()", "`PATTERN migrate`"),
    ("migrate_existing()", "`PATTERN migrate`"),
    (" with delete_parent(..)", ""),
    ("delete_orphans()", "--delete-orphans"),
    ("on_missing(..)", "--on-missing keep or clear"),
    ("sweep()", "`PATTERN sweep`"),
    ("repair()", "`PATTERN repair`"),
];

/// A verification or a repair.
pub(crate) struct Check<'a> {
    pub(crate) progress: SharedProgress,
    output: Output,
    repository: &'a dyn Repository,
    verb: &'static str,
}

impl<'a> Check<'a> {
    /// Creates it, with the name of what is counted.
    pub(crate) fn new(output: Output, repository: &'a dyn Repository, verb: &'static str, unit: &'static str) -> Self {
        Self {
            progress: SharedProgress::new(output, verb, unit, None),
            output,
            repository,
            verb,
        }
    }

    /// Prints all findings, and returns their number.
    pub(crate) async fn print_all<P: Display + Serialize>(
        &self,
        mut findings: ActionStream<'_, Finding<P>>,
    ) -> Result<u64, Failure> {
        let mut found = 0;
        while let Some(finding) = findings.try_next().await? {
            found += 1;
            self.progress.suspend(|| self.print(&finding))?;
        }
        self.progress.end();
        Ok(found)
    }

    /// Checks the shard keys, prints all findings, and returns the summary and the number of the findings.
    pub(crate) async fn find<P: Display + Serialize>(
        &self,
        findings: ActionStream<'_, Finding<P>>,
    ) -> Result<(Summary, u64), Failure> {
        let found = shard::verify(self.output, self.repository).await? + self.print_all(findings).await?;
        Ok((self.summary("").row("findings", found), found))
    }

    /// Does the same, and prints the summary.
    pub(crate) async fn verify<P: Display + Serialize>(&self, findings: ActionStream<'_, Finding<P>>) -> Outcome {
        let (summary, found) = self.find(findings).await?;
        let exit = Exit::of_findings(found);
        self.output.summary(&summary, exit)?;
        Ok(exit)
    }

    /// Prints what is repaired, or would be.
    pub(crate) async fn repair<P: Display + Serialize, U: Display + Serialize>(
        &self,
        dry_run: bool,
        mut repairs: ActionStream<'_, Repaired<P, U>>,
    ) -> Outcome {
        let (mut seen, mut left) = (0, 0);
        while let Some(repaired) = repairs.try_next().await? {
            seen += 1;
            left += u64::from(repaired.unrepaired.is_some());
            self.progress.suspend(|| self.print_repaired(&repaired, dry_run))?;
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

    fn print<P: Display + Serialize>(&self, finding: &Finding<P>) -> io::Result<()> {
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
        self.record("finding", finding, text, fields(finding))
    }

    fn print_repaired<P: Display + Serialize, U: Display + Serialize>(
        &self,
        repaired: &Repaired<P, U>,
        dry_run: bool,
    ) -> io::Result<()> {
        for finding in &repaired.findings {
            self.print(finding)?;
        }
        let Some(finding) = repaired.findings.first() else {
            return Ok(());
        };
        let (written, deleted) = (repaired.written, repaired.deleted);
        let text = match &repaired.unrepaired {
            Some(left) => format!("not repaired: {}", self.in_commands(left)),
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

    fn in_commands(&self, text: impl Display) -> String {
        in_commands(self.repository.pattern(), text)
    }
}

/// Returns a text of the library with the names of commands in place of those of methods.
fn in_commands(pattern: &str, text: impl Display) -> String {
    COMMANDS.iter().fold(text.to_string(), |text, (method, command)| {
        text.replace(method, &command.replace("PATTERN", pattern))
    })
}

/// Returns the fields of the serialized form, but for those that each record has.
fn fields(serialized: impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(serialized) else {
        return Map::new();
    };
    fields.retain(|name, _| name != "namespace" && name != "document_id");
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_library_name_commands() {
        use mongo_patterns_reference::{Problem, Unrepaired};
        use mongo_patterns_subset::Unrepaired as OfParent;
        let of = |pattern, text: &dyn Display| in_commands(pattern, text);
        let texts = [
            of("reference", &Problem::Differs),
            of("reference", &Problem::SourceMissing),
            of("reference", &Problem::NotAReference),
            of(
                "reference",
                &Problem::Stale {
                    version: 1,
                    source_version: 2,
                },
            ),
            of("reference", &Unrepaired::WithoutId),
            of("reference", &Unrepaired::SourceMissing),
            of(
                "history",
                &mongo_patterns_history::Problem::DuplicateRevision { revisions: 2 },
            ),
            of("history", &mongo_patterns_history::Problem::Different { revision: 2 }),
            of("outlier", &mongo_patterns_outlier::Problem::Orphaned),
            of("outlier", &mongo_patterns_outlier::Unrepaired::Orphaned),
            of("subset", &OfParent::NoParent),
            of("subset", &OfParent::NotMigrated),
        ];
        for text in &texts {
            assert!(!text.contains("()") && !text.contains("(..)"), "{text}");
        }
        assert!(texts[11].contains("`subset migrate --from embedded`"), "{}", texts[11]);
    }
}
