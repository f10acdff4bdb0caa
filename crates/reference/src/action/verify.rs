use futures::TryStreamExt;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, IndexMissing};
use mongo_patterns_core::verify::{Verify, scan};

use crate::repair::finding::Problem;
use crate::repair::scan::find_problems;
use crate::repository::ReferenceRepository;

impl<D, S> ReferenceRepository<D, S> {
    /// Scans all referring documents for problems: copies that are outdated or differ from their source, and references
    /// without a source. Snapshots are checked for a missing source only.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(orders: mongo_patterns::reference::ReferenceRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let mut findings = orders.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{} {}: {}", finding.namespace, finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. A copy that a running
    /// [`update_source`](Self::update_source) has not reached yet is reported as [`Stale`](Problem::Stale).
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key) it needs the indexes. Without the index of the
    /// key, it only names the sources with the same value.
    ///
    /// # Cost
    /// A scan of each referring collection, which reads the reference fields of all documents. One round trip for each 500
    /// of them, which reads their sources, and two more for each 500 with a problem.
    ///
    /// # Errors
    /// - [`Corrupt`]: the version of a source is not an integer.
    /// - [`IndexMissing`]: there is a source key.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            let findings = scan(move |results| find_problems(shared, reporter, results));
            Box::pin(findings.map_ok(|findings| findings.finding))
        })
    }
}
