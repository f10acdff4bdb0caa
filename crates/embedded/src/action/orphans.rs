use futures::future::ready;
use futures::stream;

use super::prelude::*;
use crate::migrate::aggregate;
use crate::query::from_references::FromReferences;

impl<P, C> EmbeddedRepository<P, C> {
    /// Lists the documents of a collection that refer to no parent. [`migrate_from_references`](Self::migrate_from_references)
    /// does not migrate them: their reference names no parent, is missing, or is an array.
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
    /// Those of [`migrate_from_references`](Self::migrate_from_references) for names and collections, and those of the
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

/// Lists documents that refer to no parent; returned by [`EmbeddedRepository::orphans`].
#[must_use = "it does nothing until its stream is polled"]
pub struct Orphans<'a> {
    shared: &'a Shared,
    source: Collection<RawDocumentBuf>,
    reference: String,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Orphans<'_>);

/// A stream of orphans; returned by [`Orphans::stream`].
pub type OrphanStream<'a> = Pin<Box<dyn Stream<Item = Result<Orphan>> + Send + 'a>>;

/// The number of documents in a batch of the server, when somebody asks for the progress.
const BATCH: u32 = 1000;

impl<'a> Orphans<'a> {
    /// Sets a progress callback, which gets the number of checked documents. It takes one more round trip, and one for each
    /// 1000 documents, because the server then replies for each.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Returns the stream. It sends nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: after the future of an item was dropped, the stream can be polled again and loses no item.
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
                reporter.begin(send::estimated_count(&self.source).await?);
                let stages = FromReferences::orphans_and_others(collection.name(), &reference);
                aggregate(&self.source, stages, Some(BATCH)).await?
            } else {
                let stages = FromReferences::orphans(collection.name(), &reference);
                aggregate(&self.source, stages, None).await?
            };
            let decoded = |row: RawDocumentBuf| Ok(Document::try_from(row).map_err(CommandError::from)?);
            let orphans = rows.map_err(Error::from).and_then(move |row| ready(decoded(row)));
            let orphans = orphans.try_filter_map(move |mut row| {
                reporter.advance(1);
                let reference = row.remove("r");
                let orphan = row.remove("_id").map(|document_id| Orphan { document_id, reference });
                ready(Ok(orphan))
            });
            Ok::<_, Error>(orphans)
        };
        let orphans = stream::once(orphans).try_flatten();
        Box::pin(orphans.map_err(move |error: Error| operation.name(error)))
    }
}
