use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::checked;

use crate::repair::finding::Repaired;
use crate::repair::repairs;
use crate::repository::{ReferenceRepository, Shared};
use crate::results::OnReferences;

impl<D, S> ReferenceRepository<D, S> {
    /// Repairs the findings of [`verify`](Self::verify): copies the source to all of its outdated copies again.
    ///
    /// If a copy differs, or is newer, it raises the version of the source first, so that no copy goes back to an older
    /// version.
    ///
    /// A reference without a source stays as it is, unless you [say what to do](RepairReferences::on_missing).
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(orders: mongo_patterns::reference::ReferenceRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let mut repairs = orders.repair().dry_run().stream();
    /// while let Some(repaired) = repairs.try_next().await? {
    ///     for finding in &repaired.findings {
    ///         println!("{}: {}", finding.document_id, finding.problem);
    ///     }
    ///     if let Some(unrepaired) = repaired.unrepaired {
    ///         println!("not repaired: {unrepaired}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One repair updates all copies of a source, so a dry run can list more.
    ///
    /// # Cost
    /// As [`verify`](Self::verify), and for each finding at most four round trips, and one for each reference.
    ///
    /// # Cancel safety
    /// Each copy is either repaired or unchanged, or has lost an invalid version. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// - The errors of [`verify`](Self::verify).
    pub fn repair(&self) -> RepairReferences<'_> {
        RepairReferences::create(self.shared(), OnReferences::Restrict)
    }
}

mongo_patterns_core::action! {
    /// Repairs findings; returned by [`ReferenceRepository::repair`].
    pub struct RepairReferences<'a> {
        shared: &'a Shared,
        on_missing: OnReferences,
    }
    with dry_run, on_progress;

    /// Sets what happens to references without a source: the copies are [kept](OnReferences::KeepCopy), or the references
    /// [cleared](OnReferences::Clear). By default ([`Restrict`](OnReferences::Restrict)) they are not repaired.
    on_missing(rule: OnReferences) => on_missing = rule;
}

impl<'a> RepairReferences<'a> {
    /// Returns the stream. It does nothing before it is polled.
    pub fn stream(self) -> ActionStream<'a, Repaired> {
        let (shared, dry_run) = (self.shared, self.dry_run);
        let reporter = Reporter::new(self.on_progress);
        let repairs = repairs(shared, reporter, self.on_missing, dry_run);
        checked(shared.ensure(), "repair", dry_run, Ok(repairs))
    }
}
