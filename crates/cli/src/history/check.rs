//! Verifies and repairs histories.

use futures::TryStreamExt;
use mongo_patterns_history::{Finding, Problem};
use serde_json::json;

use super::Work;
use crate::args::DryRun;
use crate::failure::{Exit, Outcome};
use crate::findings;
use crate::output::{Record, Summary};
use crate::progress::SharedProgress;

impl Work<'_> {
    pub(super) async fn verify(&self) -> Outcome {
        let progress = SharedProgress::new(self.context.output, "verify", "documents", None);
        let found = self.documents.verify().on_progress(progress.callback()).stream();
        let (output, repository) = (self.context.output, &self.documents);
        findings::verify(output, repository, &progress, found, |finding| self.print(finding)).await
    }

    pub(super) async fn repair(&self, options: DryRun) -> Outcome {
        let dry_run = options.dry_run;
        let output = self.context.output;
        let progress = SharedProgress::new(output, "repair", "documents", None);
        let mut repair = self.documents.repair().on_progress(progress.callback());
        if dry_run {
            repair = repair.dry_run();
        }
        let (mut seen, mut left) = (0, 0);
        let mut repaired = repair.stream();
        while let Some(document) = repaired.try_next().await? {
            seen += 1;
            left += u64::from(document.unrepaired.is_some());
            let text = match (&document.unrepaired, dry_run) {
                (Some(left), _) => format!("not repaired: {left}"),
                (None, true) => "would store the revision".to_owned(),
                (None, false) => "the revision was stored".to_owned(),
            };
            progress.suspend(|| {
                self.print(&document.finding)?;
                output.record(Record {
                    kind: "repaired",
                    collection: self.documents.collection().name(),
                    id: Some(document.finding.document_id.clone()),
                    text,
                    fields: vec![("unrepaired", json!(document.unrepaired.map(|left| left.name())))],
                })
            })?;
        }
        progress.end();
        let exit = Exit::of_findings(if dry_run { seen } else { left });
        let (command, name) = match dry_run {
            true => ("repair --dry-run", "revisions_to_store"),
            false => ("repair", "revisions_stored"),
        };
        let summary = Summary::of(&self.documents, command)
            .row(name, seen - left)
            .row("unrepaired", left);
        output.summary(&summary, exit)?;
        Ok(exit)
    }

    fn print(&self, finding: &Finding) -> std::io::Result<()> {
        let mut text = text(finding.problem);
        let mut fields = vec![("problem", json!(finding.problem.name()))];
        if !finding.document_ids.is_empty() {
            let (documents, document_ids) = findings::documents(&finding.document_ids);
            text = format!("{text}: {documents}");
            fields.push(document_ids);
        }
        self.context.output.record(Record {
            kind: "finding",
            collection: self.documents.collection().name(),
            id: Some(finding.document_id.clone()),
            text,
            fields,
        })
    }
}

/// Returns the text with commands of the command line, because the library's text names methods.
fn text(problem: Problem) -> String {
    match problem {
        Problem::Unrecorded { revision } => {
            format!("the revision {revision} is only in the current document: `history repair` stores its copy")
        }
        Problem::Different { revision } => format!(
            "the current document differs from its revision {revision}: `history repair` stores it as the next revision"
        ),
        Problem::DuplicateId { documents } => format!(
            "{documents} current documents have the same id, or none: set other ids, or delete all but one of these"
        ),
        Problem::DuplicateRevision { revisions } => format!(
            "{revisions} revisions of the document have the same number, or none: delete or renumber those that are wrong, or run `history migrate`, which deletes equal ones, among these"
        ),
        problem => problem.to_string(),
    }
}
