use mongo_patterns_core::catalog::after;

use super::prelude::*;
use crate::repair::finding::Finding;
use crate::repair::findings;

impl<P, C> EmbeddedRepository<P, C> {
    /// Checks all stored parents, and returns everything that is wrong as a stream of [findings](Finding).
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = patrons.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing, and can run while others write: each parent is checked as it is at one moment. Parents and
    /// children are not decoded.
    ///
    /// It checks documents. [`verify_shard_keys`](Self::verify_shard_keys) checks the shard keys of a sharded cluster.
    ///
    /// # Cost
    /// One aggregation. The server reads every parent, and returns some hundred bytes for each that has a problem.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify {
            shared: self.shared(),
            on_progress: None,
        }
    }
}

/// Checks the stored parents; returned by [`EmbeddedRepository::verify`].
#[must_use = "it does nothing until its stream is polled"]
pub struct Verify<'a> {
    shared: &'a Shared,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Verify<'_>);

/// A stream of findings; returned by [`Verify::stream`].
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

impl<'a> Verify<'a> {
    /// Sets a progress callback, which gets the number of checked parents. It takes one more round trip, and one for each
    /// 1000 parents, because the server then replies for each.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Returns the stream. It sends nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: after the future of an item was dropped, the stream can be polled again and loses no item.
    pub fn stream(self) -> FindingStream<'a> {
        let operation = self.shared.operation("verify");
        let findings = findings(self.shared, Reporter::new(self.on_progress));
        let shared = self.shared;
        let checked = after(async move { shared.ensure().check_settings().await }, findings);
        Box::pin(checked.map_err(move |error: Error| operation.name(error)))
    }
}
