use mongo_patterns_core::verify::{Verify, scan};

use crate::repair::find_problems;
use crate::repair::finding::Problem;
use crate::repository::EmbeddedRepository;

impl<P, C> EmbeddedRepository<P, C> {
    /// Checks all stored parents.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(patrons: mongo_patterns::embedded::EmbeddedRepository<(), ()>) -> mongo_patterns::Result<()> {
    /// let mut findings = patrons.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. Parents and children
    /// are not decoded.
    ///
    /// # Cost
    /// One aggregation. The server reads every parent, and returns some hundred bytes for each with a problem. With a
    /// progress callback, one more round trip for each 1000 parents.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, reporter, results))
        })
    }
}
