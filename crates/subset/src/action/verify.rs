use futures::stream::try_unfold;
use mongo_patterns_core::catalog::after;

use super::prelude::*;
use crate::repair::finding::Finding;
use crate::repair::scan::Scan;

impl<P, C> SubsetRepository<P, C> {
    /// Scans both collections for problems, and returns them as a stream of [findings](Finding): first the stale
    /// parents, then the children whose parent does not exist.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = products.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.parent_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Without its indexes, it finds the children that prevent them: those of one parent with the same id, with their `_id`s in
    /// [`Finding::document_ids`]. Nothing else is checked then, and [`IndexMissing`] is the last item.
    ///
    /// It writes nothing, and is safe for concurrent writers: a second read confirms each finding.
    ///
    /// It checks documents. [`verify_shard_keys`](Self::verify_shard_keys) checks the shard keys of a sharded cluster.
    ///
    /// # Cost
    /// Two aggregations: one reads all parents and as many children of each as are embedded, the other the parent field
    /// of all children. With a total or computed fields, the first also reads all children. One more round trip for each finding.
    /// Without the indexes, one aggregation reads all children and groups them, on disk if needed.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`IndexMissing`], and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify {
            shared: self.shared(),
            on_progress: None,
        }
    }
}

/// Scans for problems; returned by [`SubsetRepository::verify`].
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a> {
    shared: &'a Shared,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Verify<'_>);

/// A stream of findings; returned by [`Verify::stream`].
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

impl<'a> Verify<'a> {
    /// Sets a progress callback, which is called with the number of scanned parents. It costs one more round trip, and
    /// one for each 1000 parents, because the server then replies for each parent. The scan for children without a
    /// parent follows.
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
