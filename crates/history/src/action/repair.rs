use mongo_patterns_core::verify::Repair;

use crate::repair::finding::{Problem, Unrepaired};
use crate::repair::repairs;
use crate::repository::HistoryRepository;

impl<D> HistoryRepository<D> {
    /// Repairs the findings of [`verify`](Self::verify): stores missing copies of current documents, and changes of other
    /// programs as the next revision.
    ///
    /// It invents nothing: missing revisions and reversed times stay. A document that is behind its revisions is stored as
    /// the next one.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<i32>) -> mongo_patterns::Result<()> {
    /// let mut repairs = policies.repair().dry_run().stream();
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
    /// # Cost
    /// As [`verify`](Self::verify), and up to five round trips for each repair.
    ///
    /// # Cancel safety
    /// Each document is either repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// - The errors of [`verify`](Self::verify).
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        let shared = self.shared();
        Repair::new(shared.ensure(), |reporter, dry_run| repairs(shared, reporter, dry_run))
    }
}
