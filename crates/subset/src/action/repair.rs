use mongo_patterns_core::verify::Repair;

use super::prelude::*;
use crate::repair::finding::{Problem, Unrepaired};
use crate::repair::repairs;

impl<P, C> SubsetRepository<P, C> {
    /// Repairs the findings of [`verify`](Self::verify), one by one: it rebuilds stale subsets.
    ///
    /// It does not repair children without a parent, because only you know whether they or their parent are missing.
    /// Nor does it repair parents that embed children which are stored nowhere else.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut parents = products.repair().dry_run().stream();
    /// while let Some(repaired) = parents.try_next().await? {
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
    /// That of [`verify`](Self::verify), and that of [`rebuild`](Self::rebuild) for each parent. A dry run takes one or two
    /// round trips for each stale parent.
    ///
    /// # Cancel safety
    /// Each parent is either repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), as the last item of the stream.
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        let shared = self.shared();
        Repair::new(shared.ensure(), |reporter, dry_run| repairs(shared, reporter, dry_run))
    }
}
