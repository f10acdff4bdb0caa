use futures::stream::try_unfold;
use mongo_patterns_core::catalog::after;

use super::prelude::*;
use crate::repair::finding::Finding;
use crate::repair::scan::Scan;

impl<D, S> ReferenceRepository<D, S> {
    /// Scans all referring documents for problems: copies that are outdated or differ from their source, and references
    /// without a source. Of snapshots, the last alone.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(orders: mongo_patterns_reference::ReferenceRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = orders.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{} {}: {}", finding.collection, finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing, and is safe for concurrent writers: a second read, 50 ms later, confirms each finding. A copy that a
    /// running [`update_source`](Self::update_source) has not reached by then is reported as
    /// [`Stale`](crate::Problem::Stale).
    ///
    /// It checks documents. [`verify_shard_keys`](Self::verify_shard_keys) checks the shard keys of a sharded cluster.
    ///
    /// # Cost
    /// A scan of each referring collection, which reads the reference fields of all documents, and one round trip for each
    /// 500 of them, which reads their sources. Two more for each 500 with a problem.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`SettingsMismatch`] when the [catalog](mongo_patterns_core::catalog) has other settings, [`Corrupt`] when the version
    /// of a source is not an integer, and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify {
            shared: self.shared(),
            on_progress: None,
        }
    }
}

/// Scans for problems; returned by [`ReferenceRepository::verify`].
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a> {
    shared: &'a Shared,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Verify<'_>);

/// A stream of findings; returned by [`Verify::stream`].
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

impl<'a> Verify<'a> {
    /// Sets a progress callback, which is called with the number of scanned documents. It costs one more round trip for each
    /// referring collection.
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
            let found = scan.next().await?;
            Ok(found.map(|found| (found.finding, scan)))
        });
        Box::pin(after(check, findings).map_err(move |error: Error| operation.name(error)))
    }
}
