//! Verifies and repairs copies.

use mongo_patterns_reference::OnReferences;

use super::Work;
use crate::args::{Listing, OnMissing, ReferenceRepair};
use crate::confirm::confirmed;
use crate::failure::Outcome;
use crate::findings::{Check, unnamed};

impl Work<'_> {
    fn check(&self, verb: &'static str) -> Check<'_> {
        Check::new(self.context, &self.documents, verb, "documents")
    }

    pub(super) async fn verify(&self, listing: Listing) -> Outcome {
        let verify = |report| self.documents.verify().on_progress(report).stream();
        self.check("verify").verify(listing, verify).await
    }

    pub(super) async fn repair(&self, options: ReferenceRepair) -> Outcome {
        if options.on_missing == Some(OnMissing::Clear) && !options.options.dry_run {
            let deleted =
                "the references without a source, which `--dry-run` lists, are deleted for good, with their copies";
            confirmed(self.context.output, options.confirmation, deleted).await?;
        }
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
        self.check("repair").repair(options.options, repair, unnamed).await
    }
}
