use std::fmt;
use std::pin::Pin;

use futures::future::ready;
use futures::stream::{iter, once};
use futures::{Stream, StreamExt, TryStreamExt};
use mongo_patterns_core::progress::OnProgress;
use mongo_patterns_core::rounds::in_rounds;
use mongo_patterns_core::{DocumentId, Error, IntoId, Progress, Result};

use crate::repair::check;
use crate::repair::finding::Finding;
use crate::repair::scan::{Looks, confirm, look_closely, looks_told};
use crate::repository::OutlierRepository;
use crate::repository::Shared;

/// How many documents are looked at again at a time.
const AT_A_TIME: usize = 16;

impl<D, E> OutlierRepository<D, E> {
    /// Everything that is wrong with the stored documents, as a stream of [findings](Finding), document by document.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = books.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{:?} {}: {}", finding.collection, finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing, and needs no index. It may run while others write: a document in which something seems wrong is
    /// looked at again, and once more 50 milliseconds later, before it is reported. Only a writer of another process, or in a
    /// caller's session, that takes longer between two of its commands can be taken for one that has died there.
    ///
    /// What a [removal](Self::remove) leaves is right: an array below the threshold beside extras, and extras that are
    /// not full, or empty. [`rebalance`](Self::rebalance) is for that.
    ///
    /// # Cost
    /// One aggregation. The server reads both collections, and groups some hundred bytes of each extras document, and of
    /// each main document with a flag, on disk beyond 100 MB. Sizes and ids are sent, and no element. Four more round
    /// trips a document in which something is wrong, for 16 of them at a time. Where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), the server also groups the elements of all lists with a flag or
    /// extras, and it is two more round trips a document.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an `_id`,
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when the two collections are in two databases,
    /// and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify {
            shared: self.shared(),
            id: Ok(None),
            on_progress: None,
        }
    }
}

/// Looks for what is wrong; made by [`OutlierRepository::verify`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::{Finding, OutlierRepository};
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let findings: Vec<Finding> = books.verify().document(2).stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a> {
    shared: &'a Shared,
    id: Result<Option<DocumentId>>,
    on_progress: Option<OnProgress<'a>>,
}

/// A stream of findings; made by [`Verify::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongo_patterns_outlier::action::FindingStream;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let mut findings: FindingStream<'_> = books.verify().stream();
/// let is_sound = findings.try_next().await?.is_none();
/// # Ok(())
/// # }
/// ```
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

impl<'a> Verify<'a> {
    /// Only the document with this `_id`, and its extras.
    pub fn document(mut self, id: impl IntoId) -> Self {
        self.id = DocumentId::new(id).map(Some);
        self
    }

    /// Is called with how many of the documents that have extras, a flag or a long array were looked at, when it looks at
    /// all. It takes one round trip more, by which the server reads the main documents to count these.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream. It sends nothing before it is read. While the caller has an item, it locks no document.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. Until then it
    /// may have documents locked: poll it again, or drop it, before other calls of the same repository.
    pub fn stream(self) -> FindingStream<'a> {
        let shared = self.shared;
        let operation = shared.operation("verify");
        let confirmations =
            suspects(shared, self.id, self.on_progress).map_ok(move |look| async move { confirm(shared, &look).await });
        let findings = in_rounds(confirmations, AT_A_TIME)
            .map_ok(|findings| iter(findings.into_iter().map(Ok)))
            .try_flatten();
        Box::pin(findings.map_err(move |error: Error| operation.name(error)))
    }
}

/// The documents in which something seems wrong: of one, or of all.
pub(super) fn suspects<'a>(
    shared: &'a Shared,
    id: Result<Option<DocumentId>>,
    on_progress: Option<OnProgress<'a>>,
) -> Looks<'a> {
    let looks: Looks<'_> = match id {
        Ok(None) => looks_told(shared, on_progress),
        Ok(Some(id)) => Box::pin(once(async move { look_closely(shared, id.value()).await })),
        Err(error) => Box::pin(once(ready(Err(error)))),
    };
    Box::pin(looks.try_filter(move |look| ready(!check::check(&shared.settings, look).is_empty())))
}

/// Ends a stream after its first error.
pub(super) fn until_error<'a, T: Send + 'a>(
    stream: impl Stream<Item = Result<T>> + Send + 'a,
) -> Pin<Box<dyn Stream<Item = Result<T>> + Send + 'a>> {
    let mut failed = false;
    Box::pin(stream.take_while(move |item| {
        let goes_on = !failed;
        failed |= item.is_err();
        ready(goes_on)
    }))
}

impl fmt::Debug for Verify<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
