use futures::stream::try_unfold;
use mongo_patterns_core::catalog::after;

use super::prelude::*;
use crate::repair::finding::Finding;
use crate::repair::scan::Scan;

impl<D> HistoryRepository<D> {
    /// Scans both collections for problems: revisions that are missing, that differ from the current document, or whose
    /// times go back, and documents without a history.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(policies: mongo_patterns_history::HistoryRepository<i32>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = policies.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The history of a document begins with its oldest stored revision: pruned revisions are no gap.
    ///
    /// Without its indexes, it finds the documents that prevent them: current documents with the same id, and revisions of one
    /// document with the same number, with their `_id`s in [`Finding::document_ids`]. Nothing else is checked then, and
    /// [`IndexMissing`] is the last item.
    ///
    /// It writes nothing, and is safe for concurrent writers: further reads, 50 ms apart, confirm each finding.
    ///
    /// It checks documents. [`verify_shard_keys`](Self::verify_shard_keys) checks the shard keys of a sharded cluster.
    ///
    /// # Cost
    /// Two scans, which read all documents, and the numbers and times of all revisions. One round trip for each 100 current
    /// documents, and one for each 100 revisions. About ten for each document with a problem. Without the indexes, one
    /// aggregation of each collection reads and groups all documents, on disk if needed, and one round trip for each finding.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`SettingsMismatch`] when the [catalog](mongo_patterns_core::catalog) has other settings, [`IndexMissing`], and those
    /// of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify {
            shared: self.shared(),
            on_progress: None,
        }
    }
}

/// Scans for problems; returned by [`HistoryRepository::verify`].
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a> {
    shared: &'a Shared,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Verify<'_>);

/// A stream of findings; returned by [`Verify::stream`].
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

impl<'a> Verify<'a> {
    /// Sets a progress callback, which is called with the number of scanned documents and revisions. It costs two more round
    /// trips.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Returns the stream. It sends nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future of an item is dropped, the stream can be polled again, and loses no item.
    pub fn stream(self) -> FindingStream<'a> {
        let operation = self.shared.operation("verify");
        let shared = self.shared;
        let check = async move { shared.ensure().check_settings().await };
        let findings = try_unfold(Scan::new(self.shared, self.on_progress), |mut scan| async move {
            let finding = scan.next().await?;
            Ok(finding.map(|finding| (finding, scan)))
        });
        Box::pin(after(check, findings).map_err(move |error: Error| operation.name(error)))
    }
}
