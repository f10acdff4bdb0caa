//! Verifies and repairs buckets.

use futures::TryStreamExt;
use mongo_patterns_bucket::{Finding, Repaired};
use mongo_patterns_core::Key;
use serde_json::{Value, json};

use super::work::Work;
use crate::args::DryRun;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Record, Summary, counted, printable, to_json};
use crate::progress::SharedProgress;
use crate::shard;

impl<K: Key> Work<'_, K> {
    pub(super) async fn verify(&self) -> Outcome {
        let mut found = shard::verify(self.context.output, self.buckets.verify_shard_keys()).await?;
        let progress = self.progress("verify").await?;
        let mut findings = self.buckets.verify().on_progress(|at| progress.at(at)).stream();
        while let Some(finding) = findings.try_next().await? {
            found += 1;
            progress.suspend(|| self.print(&finding))?;
        }
        drop(findings);
        progress.end();
        let exit = Exit::of_findings(found);
        let summary = Summary::new("bucket verify", self.namespace()).row("findings", found);
        self.context.output.summary(&summary, exit)?;
        Ok(exit)
    }

    pub(super) async fn repair(&self, options: DryRun) -> Outcome {
        let dry_run = options.dry_run;
        let progress = self.progress("repair").await?;
        let mut repair = self.buckets.repair().on_progress(|at| progress.at(at));
        if dry_run {
            repair = repair.dry_run();
        }
        let (mut keys, mut left) = (0_u64, 0);
        let mut repaired = repair.stream();
        while let Some(key) = repaired.try_next().await? {
            keys += 1;
            left += u64::from(key.unrepaired.is_some());
            progress.suspend(|| self.print_repaired(&key, dry_run))?;
        }
        drop(repaired);
        progress.end();
        let exit = Exit::of_findings(if dry_run { keys } else { left });
        let command = if dry_run {
            "bucket repair --dry-run"
        } else {
            "bucket repair"
        };
        let summary = Summary::new(command, self.namespace());
        let summary = summary
            .row(if dry_run { "keys_to_repair" } else { "keys" }, keys - left)
            .row("unrepaired", left);
        self.context.output.summary(&summary, exit)?;
        Ok(exit)
    }

    async fn progress(&self, what: &'static str) -> Result<SharedProgress, Failure> {
        let buckets = self.buckets.collection().estimated_document_count().await?;
        let progress = SharedProgress::new(self.context.output, what, "buckets", Some(buckets));
        progress.show("the server reads and sorts the buckets");
        Ok(progress)
    }

    fn print(&self, finding: &Finding) -> std::io::Result<()> {
        self.context.output.record(Record {
            kind: "finding",
            collection: self.buckets.collection().name(),
            id: Some(finding.document_id.clone()),
            text: finding.problem.to_string(),
            fields: vec![
                ("key", key::<K>(finding.key.as_deref())),
                ("problem", json!(finding.problem.name())),
            ],
        })
    }

    fn print_repaired(&self, repaired: &Repaired, dry_run: bool) -> std::io::Result<()> {
        for finding in &repaired.findings {
            self.print(finding)?;
        }
        let (written, removed) = (repaired.written.len() as u64, repaired.removed.len());
        let of_key = counted(written, "bucket");
        let text = match (&repaired.unrepaired, dry_run) {
            (Some(left), _) => format!("not repaired: {left}"),
            (None, true) => format!("would write {of_key} of the key, and remove {removed}"),
            (None, false) => format!("wrote {of_key} of the key, and removed {removed}"),
        };
        let text = match &repaired.key {
            Some(key) => format!("key {}: {text}", printable(key)),
            None => text,
        };
        self.context.output.record(Record {
            kind: "repaired",
            collection: self.buckets.collection().name(),
            id: None,
            text,
            fields: vec![
                ("key", key::<K>(repaired.key.as_deref())),
                ("written", json!(repaired.written)),
                ("removed", repaired.removed.iter().map(to_json).collect()),
                ("unrepaired", json!(repaired.unrepaired.map(|left| left.name()))),
            ],
        })
    }
}

/// Returns the key with this text, or the text where it is that of no key of the type.
fn key<K: Key>(text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Null };
    let key = K::decode_key(text).and_then(|key| key.encode_key().ok());
    key.map_or_else(|| json!(text), |key| to_json(key.value()))
}
