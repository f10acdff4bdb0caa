use futures::TryStreamExt;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, IndexMissing, SettingsMismatch};
use mongo_patterns_core::verify::{Verify, scan};

use crate::repair::finding::Problem;
use crate::repair::scan::find_problems;
use crate::repository::ReferenceRepository;

impl<D, S> ReferenceRepository<D, S> {
    /// Scans all referring documents for problems: copies that are outdated or differ from their source, and references
    /// without a source. Of snapshots, the last alone.
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
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns. A copy that a
    /// running [`update_source`](Self::update_source) has not reached by the second read is reported as
    /// [`Stale`](Problem::Stale).
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key) it needs the indexes. Without that of the key, it
    /// names the sources that have the same value, and no other problems.
    ///
    /// # Cost
    /// A scan of each referring collection, which reads the reference fields of all documents, and one round trip for each
    /// 500 of them, which reads their sources. Two more for each 500 with a problem.
    ///
    /// # Errors
    /// [`SettingsMismatch`], [`Corrupt`] when the version of a source is not an integer, [`IndexMissing`] for a source key, and
    /// those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            let findings = scan(move |results| find_problems(shared, reporter, results));
            Box::pin(findings.map_ok(|findings| findings.finding))
        })
    }
}
