//! Verifies, repairs and sweeps copies.

use mongo_patterns_reference::OnReferences;

use super::Work;
use crate::args::{Listing, OnMissing, ReferenceRepair};
use crate::failure::{Exit, Outcome};
use crate::findings::Check;
use crate::output::Summary;
use crate::progress::SharedProgress;
use crate::selection::id;

impl Work<'_> {
    fn check(&self, verb: &'static str) -> Check<'_> {
        Check::new(self.context.output, &self.documents, verb, "documents")
    }

    pub(super) async fn verify(&self, listing: Listing) -> Outcome {
        let verify = |report| self.documents.verify().on_progress(report).stream();
        self.check("verify").verify(listing, verify).await
    }

    pub(super) async fn repair(&self, options: ReferenceRepair) -> Outcome {
        let repair = |report| {
            let mut repair = self.documents.repair().on_progress(report);
            if options.options.dry_run {
                repair = repair.dry_run();
            }
            match options.on_missing {
                Some(OnMissing::Keep) => repair.on_missing(OnReferences::KeepCopy),
                Some(OnMissing::Clear) => repair.on_missing(OnReferences::Clear),
                None => repair,
            }
            .stream()
        };
        self.check("repair").repair(options.options, repair).await
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
}
