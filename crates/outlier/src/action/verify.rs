use futures::stream::iter;
use mongo_patterns_core::catalog::after;
use mongo_patterns_core::rounds::in_rounds;

use super::prelude::*;
use crate::repair::check_settings::check_settings;
use crate::repair::finding::Finding;
use crate::repair::scan::{confirm, suspects};

/// The number of lists that are read again concurrently.
const CONCURRENCY: usize = 16;

impl<D, E> OutlierRepository<D, E> {
    /// Verifies the stored documents, and returns a stream of [findings](Finding), list by list.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = books.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{:?} {}: {}", finding.collection, finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing and needs no index. Others may write concurrently: before it reports a finding, it reads the list
    /// again, and once more 50 milliseconds later. Only a writer of another process, or in a session of a caller, that
    /// is slower between two of its commands can be reported like one that died there.
    ///
    /// What a [removal](Self::remove) leaves is valid: an array below the threshold with overflow documents, and
    /// overflow documents that are not full, or empty. [`rebalance`](Self::rebalance) closes these gaps.
    ///
    /// It checks documents. [`verify_shard_keys`](Self::verify_shard_keys) checks the shard keys of a sharded cluster.
    ///
    /// # Cost
    /// One aggregation. The server reads both collections, and groups some hundred bytes of each overflow document, and
    /// of each main document with a flag, on disk beyond 100 MB. It sends sizes and ids, and no element. Four more
    /// round trips for each list with findings, for 16 of them concurrently. Where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), the server also groups the elements of all lists
    /// with a flag or overflow documents, and it is two more round trips for each list.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`, [`Configuration`] when the two collections are in two databases, and
    /// those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify {
            shared: self.shared(),
            id: Ok(None),
            on_progress: None,
        }
    }
}

/// Verifies lists; returned by [`OutlierRepository::verify`].
#[must_use = "a verify does nothing until its stream is polled"]
pub struct Verify<'a> {
    shared: &'a Shared,
    id: Result<Option<DocumentId>>,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Verify<'_>);

/// A stream of findings; returned by [`Verify::stream`].
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

mongo_patterns_core::setters! {
    for Verify<'a>:

    /// Verifies only the document with this `_id`, and its overflow documents.
    document(id: impl IntoId) => id = DocumentId::new(id).map(Some);

    /// Sets a progress callback for a verify of all lists. It counts the lists with overflow documents, a flag or a
    /// long array. Costs one more round trip, in which the server reads the main documents to count them.
    on_progress(call: impl FnMut(Progress) + Send + 'a) => on_progress = Some(Box::new(call));
}

impl<'a> Verify<'a> {
    /// Returns the stream. It sends nothing before it is polled. While the caller has an item, it locks no document.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. Until then
    /// it may have [lanes](crate#lanes): poll it again, or drop it, before other calls of the same repository.
    pub fn stream(self) -> FindingStream<'a> {
        let shared = self.shared;
        let operation = shared.operation("verify");
        let id = self.id.clone();
        let check = async move { check_settings(shared, &id).await };
        let confirmations = suspects(shared, self.id, self.on_progress)
            .map_ok(move |summary| async move { confirm(shared, &summary).await });
        let findings = in_rounds(confirmations, CONCURRENCY)
            .map_ok(|findings| iter(findings.into_iter().map(Ok)))
            .try_flatten();
        let checked = after(check, findings);
        Box::pin(checked.map_err(move |error: Error| operation.name(error)))
    }
}
