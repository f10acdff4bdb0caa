use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::verify::{checked, each};

use super::prelude::*;
use crate::repair::finding::Finding;
use crate::repair::scan::{confirm, suspects};

/// The number of lists that are read again concurrently.
const CONCURRENCY: usize = 16;

impl<D, E> OutlierRepository<D, E> {
    /// Verifies the stored documents, list by list.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = books.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{} {}: {}", finding.namespace, finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns. Two further reads,
    /// the second 50 milliseconds later, confirm each finding. Only a writer of another process, or in a session of a
    /// caller, that is slower between two of its commands can be reported like one that died there.
    ///
    /// What a [removal](Self::remove) leaves is valid: an array below the threshold with overflow documents, and
    /// overflow documents that are not full, or empty. [`rebalance`](Self::rebalance) closes these gaps.
    ///
    /// # Cost
    /// One aggregation. The server reads both collections, and groups some hundred bytes of each overflow document, and
    /// of each main document with a flag, on disk beyond 100 MB. It sends sizes and ids, and no element. Four more
    /// round trips for each list with findings, for 16 of them concurrently. Where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), the server also groups the elements of all lists
    /// with a flag or overflow documents, and it is two more round trips for each list. A progress callback counts the lists
    /// with overflow documents, a flag or a long array.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`, [`SettingsMismatch`], [`Configuration`] when the two collections are in two
    /// databases, and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify::create(self.shared(), Ok(None))
    }
}

mongo_patterns_core::action! {
    /// Verifies lists; returned by [`OutlierRepository::verify`].
    pub struct Verify<'a> {
        shared: &'a Shared,
        id: Result<Option<DocumentId>>,
    }
    with on_progress;
}

mongo_patterns_core::setters! {
    for Verify<'a>:

    /// Verifies only the document with this `_id`, and its overflow documents.
    document(id: impl IntoId) => id = DocumentId::new(id).map(Some);
}

impl<'a> Verify<'a> {
    /// Returns the stream. It sends nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: see [the module](mongo_patterns_core::verify#cancel-safety).
    pub fn stream(self) -> ActionStream<'a, Finding> {
        let shared = self.shared;
        let suspects = self
            .id
            .and_then(|id| suspects(shared, id, Reporter::new(self.on_progress)));
        let findings = suspects.map(|suspects| {
            each(suspects, CONCURRENCY, move |summary| {
                Box::pin(async move { confirm(shared, &summary).await })
            })
        });
        checked(shared.ensure(), "verify", true, findings)
    }
}
