use std::fmt;
use std::pin::Pin;

use futures::future::ready;
use futures::{Stream, TryStreamExt, stream};
use mongo_patterns_core::progress::{OnProgress, Reporter};
use mongo_patterns_core::{Error, Progress, Result};
use mongodb::Collection;
use mongodb::bson::{Bson, RawDocumentBuf};

use crate::EmbeddedRepository;
use crate::migrate::from_references::FromReferences;
use crate::migrate::run::{aggregate, check_settings};
use crate::repository::Shared;

impl<P, C> EmbeddedRepository<P, C> {
    /// The documents of a collection that refer to no parent, which
    /// [`migrate_from_references`](Self::migrate_from_references) leaves there: their reference names none, is missing, or is an
    /// array.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::{Collection, bson::Document};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>)
    /// # -> mongo_patterns_core::Result<()> {
    /// let mut orphans = patrons.orphans(&addresses, "patron_id").stream();
    /// while let Some(orphan) = orphans.try_next().await? {
    ///     println!("{} refers to no patron: {:?}", orphan.document_id, orphan.reference);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One aggregation. The server reads every document, and looks up its parent by `_id`.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the names and collections of [`migrate_from_references`](Self::migrate_from_references), and those of the
    /// driver, as the last item of the stream.
    pub fn orphans<D: Send + Sync>(&self, source: &Collection<D>, reference: impl Into<String>) -> Orphans<'_> {
        Orphans {
            shared: self.shared(),
            source: source.clone_with_type(),
            reference: reference.into(),
            on_progress: None,
        }
    }
}

/// Lists what refers to no parent; made by [`EmbeddedRepository::orphans`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::{EmbeddedRepository, Orphan};
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let orphans: Vec<Orphan> = patrons.orphans(&addresses, "patron_id").stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Orphans<'a> {
    shared: &'a Shared,
    source: Collection<RawDocumentBuf>,
    reference: String,
    on_progress: Option<OnProgress<'a>>,
}

/// A document that refers to no parent. Both are user values: take care where you log them.
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let mut orphans = patrons.orphans(&addresses, "patron_id").stream();
/// while let Some(orphan) = orphans.try_next().await? {
///     println!("{} refers to {:?}", orphan.document_id, orphan.reference);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Orphan {
    /// The `_id` of the document.
    pub document_id: Bson,
    /// What is in the field of the reference; `None` when it is missing.
    pub reference: Option<Bson>,
}

/// Does not show the reference.
impl fmt::Debug for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orphan")
            .field("document_id", &self.document_id)
            .finish_non_exhaustive()
    }
}

/// A stream of orphans; made by [`Orphans::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongo_patterns_embedded::action::OrphanStream;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let mut orphans: OrphanStream<'_> = patrons.orphans(&addresses, "patron_id").stream();
/// let has_orphans = orphans.try_next().await?.is_some();
/// # Ok(())
/// # }
/// ```
pub type OrphanStream<'a> = Pin<Box<dyn Stream<Item = Result<Orphan>> + Send + 'a>>;

/// How many documents the server looks at between two answers, where somebody wants to know how far it is.
const BATCH: u32 = 1000;

impl<'a> Orphans<'a> {
    /// Is called with how many documents were looked at. It takes one round trip more, and one for each 1000 documents,
    /// since the server answers for each.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    pub fn stream(self) -> OrphanStream<'a> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let operation = self.shared.operation("orphans");
        let orphans = async move {
            let child_id = &settings.child_id;
            let reference = check_settings(collection, &self.source, collection, self.reference, child_id)?;
            let mut reporter = Reporter::new(self.on_progress);
            let rows = if reporter.is_asked() {
                reporter.begin(self.source.estimated_document_count().await?);
                let stages = FromReferences::orphans_and_others(collection.name(), &reference);
                aggregate(&self.source, stages).batch_size(BATCH).await?
            } else {
                aggregate(&self.source, FromReferences::orphans(collection.name(), &reference)).await?
            };
            let orphans = rows.map_err(Error::from).try_filter_map(move |mut row| {
                reporter.advance(1);
                let reference = row.remove("r");
                let orphan = row.remove("_id").map(|document_id| Orphan { document_id, reference });
                ready(Ok(orphan))
            });
            Ok::<_, Error>(orphans)
        };
        Box::pin(
            stream::once(orphans)
                .try_flatten()
                .map_err(move |error: Error| operation.name(error)),
        )
    }
}

impl fmt::Debug for Orphans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orphans")
            .field("shared", self.shared)
            .field("source", &self.source.namespace())
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}
