//! Verifies, repairs and sweeps copies.

use futures::TryStreamExt;
use mongo_patterns_reference::{Finding, OnReferences, Problem, Unrepaired};
use serde_json::json;

use super::Work;
use crate::args::{OnMissing, ReferenceRepair};
use crate::failure::{Exit, Outcome};
use crate::findings;
use crate::output::{Record, Summary, to_json};
use crate::progress::SharedProgress;
use crate::selection::id;

impl Work<'_> {
    pub(super) async fn verify(&self) -> Outcome {
        let progress = SharedProgress::new(self.context.output, "verify", "documents", None);
        let found = self.documents.verify().on_progress(progress.callback()).stream();
        let (output, repository) = (self.context.output, &self.documents);
        findings::verify(output, repository, &progress, found, |finding| self.print(finding)).await
    }

    pub(super) async fn repair(&self, repair: ReferenceRepair) -> Outcome {
        let dry_run = repair.options.dry_run;
        let output = self.context.output;
        let progress = SharedProgress::new(output, "repair", "documents", None);
        let mut repairs = self.documents.repair().on_progress(progress.callback());
        if dry_run {
            repairs = repairs.dry_run();
        }
        repairs = match repair.on_missing {
            Some(OnMissing::Keep) => repairs.on_missing(OnReferences::KeepCopy),
            Some(OnMissing::Clear) => repairs.on_missing(OnReferences::Clear),
            None => repairs,
        };
        let (mut seen, mut left) = (0, 0);
        let mut repaired = repairs.stream();
        while let Some(reference) = repaired.try_next().await? {
            seen += 1;
            left += u64::from(reference.unrepaired.is_some());
            let text = match reference.unrepaired {
                Some(left) => format!("not repaired: {}", reason(left)),
                None => done(reference.finding.problem, repair.on_missing, dry_run).to_owned(),
            };
            progress.suspend(|| {
                self.print(&reference.finding)?;
                output.record(Record {
                    kind: "repaired",
                    collection: &reference.finding.collection,
                    id: Some(reference.finding.document_id.clone()),
                    text,
                    fields: vec![
                        ("field", json!(reference.finding.field)),
                        ("unrepaired", json!(reference.unrepaired.map(|left| left.name()))),
                    ],
                })
            })?;
        }
        progress.end();
        let exit = Exit::of_findings(if dry_run { seen } else { left });
        let (command, name) = match dry_run {
            true => ("repair --dry-run", "references_to_repair"),
            false => ("repair", "references_repaired"),
        };
        let summary = Summary::of(&self.documents, command)
            .row(name, seen - left)
            .row("unrepaired", left);
        output.summary(&summary, exit)?;
        Ok(exit)
    }

    /// Updates outdated copies. Copies get a new version, so other copied fields than those of the service would hide
    /// old values.
    pub(super) async fn sweep(&self, source: Option<&str>) -> Outcome {
        let output = self.context.output;
        let progress = SharedProgress::new(output, "sweep", "sources", None);
        let sweep = self.documents.sweep();
        let swept = match source {
            Some(source) => sweep.source(id(source)?).await?,
            None => sweep.on_progress(progress.callback()).await?,
        };
        progress.end();
        let summary = Summary::of(&self.documents, "sweep")
            .row("sources", swept.sources)
            .row("copies", swept.copies);
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    fn print(&self, finding: &Finding) -> std::io::Result<()> {
        let mut fields = vec![
            ("field", json!(finding.field)),
            ("source_id", finding.source_id.as_ref().map_or(json!(null), to_json)),
            ("problem", json!(finding.problem.name())),
        ];
        if let Problem::Stale {
            version,
            source_version,
        }
        | Problem::NewerThanSource {
            version,
            source_version,
        } = finding.problem
        {
            fields.extend([("version", json!(version)), ("source_version", json!(source_version))]);
        }
        self.context.output.record(Record {
            kind: "finding",
            collection: &finding.collection,
            id: Some(finding.document_id.clone()),
            text: format!("`{}`: {}", finding.field, text(finding.problem)),
            fields,
        })
    }
}

/// Returns the text with commands of the command line, because the library's text names methods.
fn text(problem: Problem) -> String {
    match problem {
        Problem::Stale { version, source_version } => format!(
            "the copy has the version {version}, and its source the version {source_version}: `reference sweep` or `reference repair` updates it"
        ),
        Problem::Differs => {
            "the copy differs from the source of the same version: `reference repair` copies the source again".to_owned()
        }
        Problem::NewerThanSource { version, source_version } => format!(
            "the copy has the version {version}, and its source only the version {source_version}: `reference repair` raises the version of the source, and copies it again"
        ),
        Problem::SourceMissing => {
            "the source does not exist: insert it again, or run `reference repair` with --on-missing keep or clear".to_owned()
        }
        Problem::VersionMissing => {
            "the copy has no valid version: `reference repair` copies the source again".to_owned()
        }
        Problem::DbRef => {
            "the reference is a DBRef: replace it by a document with the value of its `$id` as `_id`, then run `reference repair`".to_owned()
        }
        Problem::WithoutId => {
            "the reference is a document without an `_id`: rename its field with the id of the source to `_id`, then run `reference repair`".to_owned()
        }
        Problem::NotAReference => {
            "the value is not a document with the `_id` of a source: migrate ids with `reference migrate`, set a reference, or remove the field".to_owned()
        }
        problem => problem.to_string(),
    }
}

/// Returns what a repair did, or would do.
fn done(problem: Problem, on_missing: Option<OnMissing>, dry_run: bool) -> &'static str {
    match (problem, on_missing, dry_run) {
        (Problem::SourceMissing, Some(OnMissing::Clear), true) => "would remove the reference",
        (Problem::SourceMissing, Some(OnMissing::Clear), false) => "the reference was removed",
        (Problem::SourceMissing, _, true) => "would mark the copy as that of a deleted source",
        (Problem::SourceMissing, _, false) => "the copy was marked as that of a deleted source",
        (_, _, true) => "would copy the source again",
        (_, _, false) => "the source was copied again",
    }
}

/// Returns the reason with options of the command line, because the library's text names methods.
fn reason(left: Unrepaired) -> String {
    match left {
        Unrepaired::SourceMissing => {
            "it is unknown whether the source was deleted on purpose: insert it again, or pass --on-missing keep or clear"
                .to_owned()
        }
        Unrepaired::WithoutId => {
            "a repair does not change the form of a reference: store the id of the source as its `_id`, then run `reference repair`".to_owned()
        }
        Unrepaired::NotAReference => {
            "it is unknown to which source the value refers: migrate ids with `reference migrate`, set a reference, or remove the field".to_owned()
        }
        left => left.to_string(),
    }
}
