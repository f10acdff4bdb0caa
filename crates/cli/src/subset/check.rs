//! Verifies and repairs subsets.

use futures::TryStreamExt;
use mongo_patterns_subset::{Finding, Problem, Unrepaired};
use serde_json::json;

use super::Work;
use crate::args::DryRun;
use crate::failure::{Exit, Outcome};
use crate::findings;
use crate::output::{Record, Summary};
use crate::progress::SharedProgress;

impl Work<'_> {
    pub(super) async fn verify(&self) -> Outcome {
        let progress = SharedProgress::new(self.context.output, "verify", "parents", None);
        let found = self.parents.verify().on_progress(progress.callback()).stream();
        let (output, repository) = (self.context.output, &self.parents);
        findings::verify(output, repository, &progress, found, |finding| self.print(finding)).await
    }

    pub(super) async fn repair(&self, options: DryRun) -> Outcome {
        let dry_run = options.dry_run;
        let output = self.context.output;
        let progress = SharedProgress::new(output, "repair", "parents", None);
        let mut repair = self.parents.repair().on_progress(progress.callback());
        if dry_run {
            repair = repair.dry_run();
        }
        let (mut seen, mut left) = (0, 0);
        let mut repaired = repair.stream();
        while let Some(parent) = repaired.try_next().await? {
            seen += 1;
            left += u64::from(parent.unrepaired.is_some());
            let text = match (&parent.unrepaired, dry_run) {
                (Some(left), _) => format!("not repaired: {}", reason(*left)),
                (None, true) => "would rebuild the subset".to_owned(),
                (None, false) => "the subset was rebuilt".to_owned(),
            };
            progress.suspend(|| {
                self.print(&parent.finding)?;
                output.record(Record {
                    kind: "repaired",
                    collection: self.parents.collection().name(),
                    id: Some(parent.finding.parent_id.clone()),
                    text,
                    fields: vec![("unrepaired", json!(parent.unrepaired.map(|left| left.name())))],
                })
            })?;
        }
        progress.end();
        let exit = Exit::of_findings(if dry_run { seen } else { left });
        let command = if dry_run { "repair --dry-run" } else { "repair" };
        let name = if dry_run { "parents_to_repair" } else { "parents" };
        let summary = Summary::of(&self.parents, command)
            .row(name, seen - left)
            .row("unrepaired", left);
        output.summary(&summary, exit)?;
        Ok(exit)
    }

    fn print(&self, finding: &Finding) -> std::io::Result<()> {
        let (documents, document_ids) = findings::documents(&finding.document_ids);
        let text = match finding.problem {
            Problem::DuplicateChildId { children } => format!(
                "{children} children of the parent have the same id, or none: set other ids, or delete all but one of these: {documents}"
            ),
            Problem::Stale if !finding.stale_subsets.is_empty() => {
                let fields = finding.stale_subsets.join(" and ");
                format!("{fields} differ from the first children: rebuild the parent with `subset repair`")
            }
            Problem::Stale => {
                "the subset differs from the first children, or the total or a computed field from theirs: rebuild it with `subset repair`".to_owned()
            }
            Problem::Orphaned { children } => {
                format!("{children} children belong to a parent that does not exist: insert the parent, or delete the children")
            }
            problem => problem.to_string(),
        };
        let mut fields = vec![("problem", json!(finding.problem.name()))];
        if !finding.stale_subsets.is_empty() {
            fields.push(("stale_subsets", json!(finding.stale_subsets)));
        }
        if !finding.document_ids.is_empty() {
            fields.push(document_ids);
        }
        self.context.output.record(Record {
            kind: "finding",
            collection: self.parents.collection().name(),
            id: Some(finding.parent_id.clone()),
            text,
            fields,
        })
    }
}

/// Returns the reason with options of the command line, because the library's text names methods.
fn reason(left: Unrepaired) -> String {
    match left {
        Unrepaired::NoParent => "the children's parent does not exist: insert the parent, or delete the children".to_owned(),
        Unrepaired::NotMigrated => {
            "the parent contains children that are not in their collection: migrate them with `subset migrate --from embedded`, or discard them with `--from collection --discard-embedded`".to_owned()
        }
        left => left.to_string(),
    }
}
