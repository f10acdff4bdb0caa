//! What is wrong with subsets, and mending it.

use futures::TryStreamExt;
use mongo_patterns_subset::{Finding, Problem, Unrepaired};
use serde_json::json;

use super::Work;
use crate::failure::{Exit, Outcome};
use crate::output::{Record, Summary, variant};
use crate::progress::SharedProgress;

impl Work<'_> {
    pub(super) async fn verify(&self) -> Outcome {
        let output = self.context.output;
        let progress = SharedProgress::new(output, "verify", "parents", None);
        let mut findings = self.parents.verify().on_progress(progress.told()).stream();
        let mut found = 0;
        while let Some(finding) = findings.try_next().await? {
            found += 1;
            progress.suspend(|| self.print(&finding))?;
        }
        progress.end();
        let exit = Exit::of_findings(found);
        let summary = Summary::new("subset verify", self.namespace()).row("findings", found);
        output.summary(&summary, exit)?;
        Ok(exit)
    }

    pub(super) async fn repair(&self, dry_run: bool) -> Outcome {
        let output = self.context.output;
        let progress = SharedProgress::new(output, "repair", "parents", None);
        let mut repair = self.parents.repair().on_progress(progress.told());
        if dry_run {
            repair = repair.dry_run();
        }
        let (mut seen, mut left) = (0, 0);
        let mut repaired = repair.stream();
        while let Some(parent) = repaired.try_next().await? {
            seen += 1;
            left += u64::from(parent.left.is_some());
            let text = match (&parent.left, dry_run) {
                (Some(left), _) => format!("left: {}", why_left(*left)),
                (None, true) => "would make the subset anew".to_owned(),
                (None, false) => "the subset was made anew".to_owned(),
            };
            progress.suspend(|| {
                self.print(&parent.finding)?;
                output.record(Record {
                    kind: "repaired",
                    collection: self.parents.collection().name(),
                    id: Some(parent.finding.parent_id.clone()),
                    text,
                    fields: vec![("left", json!(parent.left.as_ref().map(variant)))],
                })
            })?;
        }
        progress.end();
        let exit = Exit::of_findings(if dry_run { seen } else { left });
        let command = if dry_run {
            "subset repair --dry-run"
        } else {
            "subset repair"
        };
        let name = if dry_run { "parents_to_mend" } else { "parents" };
        let summary = Summary::new(command, self.namespace())
            .row(name, seen)
            .row("left", left);
        output.summary(&summary, exit)?;
        Ok(exit)
    }

    fn print(&self, finding: &Finding) -> std::io::Result<()> {
        let text = match finding.problem {
            Problem::Stale => {
                "the subset is not the first of the children, or the total not their number: `subset repair` makes it anew".to_owned()
            }
            Problem::Orphaned { children } => {
                format!("{children} children belong to a parent that does not exist: insert it, or delete them")
            }
            problem => problem.to_string(),
        };
        self.context.output.record(Record {
            kind: "finding",
            collection: self.parents.collection().name(),
            id: Some(finding.parent_id.clone()),
            text,
            fields: vec![("problem", json!(variant(&finding.problem)))],
        })
    }
}

/// In words of the command line, where the library speaks of calls.
fn why_left(left: Unrepaired) -> String {
    match left {
        Unrepaired::NoParent => "the children's parent does not exist: insert it, or delete them".to_owned(),
        Unrepaired::NotMigrated => {
            "the parent holds children that are not in their collection: `subset migrate --from embedded` moves them, and `--from collection --discard-embedded` gives them up".to_owned()
        }
        left => left.to_string(),
    }
}
