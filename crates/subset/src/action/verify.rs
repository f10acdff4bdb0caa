use mongo_patterns_core::verify::{Verify, scan};

use super::prelude::*;
use crate::repair::finding::Problem;
use crate::repair::scan::Scan;

impl<P, C> SubsetRepository<P, C> {
    /// Scans both collections for problems: first for stale parents, then for children whose parent does not exist.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = products.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns.
    ///
    /// Without its indexes, it finds the children that prevent them: those of one parent with the same id, with their `_id`s in
    /// [`document_ids`](crate::Finding). Nothing else is checked then, and [`IndexMissing`] is the last item.
    ///
    /// # Cost
    /// Two aggregations: one reads all parents and as many children of each as are embedded, the other the parent field
    /// of all children. With a total or computed fields, the first also reads all children. One more round trip for each finding.
    /// Without the indexes, one aggregation reads all children and groups them, on disk if needed. With a progress callback,
    /// which counts parents, one more for each 1000 parents, because the server then replies for each.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`SettingsMismatch`], [`IndexMissing`], and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), |reporter| scan(Scan::new(shared, reporter)))
    }
}
