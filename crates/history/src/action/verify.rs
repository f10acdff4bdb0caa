#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::IndexMissing;
use mongo_patterns_core::verify::{Verify, scan};

use crate::repair::finding::Problem;
use crate::repair::scan::find_problems;
use crate::repository::HistoryRepository;

impl<D> HistoryRepository<D> {
    /// Scans both collections for problems, such as revisions that are missing or differ, and documents without a history.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<i32>) -> mongo_patterns::Result<()> {
    /// let mut findings = policies.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. The history of a
    /// document begins with its oldest stored revision: deleted old revisions are no gap.
    ///
    /// Without its indexes, it finds only the documents that prevent them: current documents with the same id, and revisions
    /// of a document with the same number, with their `_id`s in [`Finding::document_ids`](crate::Finding). Then
    /// [`IndexMissing`] is the last item.
    ///
    /// # Cost
    /// Two scans, which read all documents, and the numbers and times of all revisions. One round trip for each 100 current
    /// documents, and one for each 100 revisions. About ten for each document with a problem.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, reporter, results))
        })
    }
}
