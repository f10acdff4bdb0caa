use futures::TryStreamExt;
use futures::future::ready;
use futures::stream::once;
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::stored::value;
use mongo_patterns_core::verify::Verify;
use mongo_patterns_core::{Error, Result, send};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use crate::migrate::{aggregate, check_settings};
use crate::query::from_references::FromReferences;
use crate::repair::finding::{Finding, Problem};
use crate::repository::{EmbeddedRepository, Shared};

impl<P, C> EmbeddedRepository<P, C> {
    /// Lists the documents of a collection that refer to no parent. [`migrate_from_references`](Self::migrate_from_references)
    /// does not migrate them: their reference names no parent, is missing, or is an array.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::Document};
    /// # async fn f(patrons: EmbeddedRepository<(), ()>, addresses: Collection<Document>)
    /// # -> mongo_patterns::Result<()> {
    /// let mut orphans = patrons.orphans(&addresses, "patron_id").stream();
    /// while let Some(orphan) = orphans.try_next().await? {
    ///     println!("{} refers to no patron: {:?}", orphan.document_id, orphan.related_id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One aggregation. The server reads every document, and looks up its parent by `_id`. With a progress callback, one
    /// more round trip for each 1000 documents.
    ///
    /// # Errors
    /// - `Configuration` and `InvalidArgument`, as [`migrate_from_references`](Self::migrate_from_references).
    pub fn orphans<D: Send + Sync>(&self, source: &Collection<D>, reference: impl Into<String>) -> Verify<'_, Problem> {
        let (shared, source, reference) = (self.shared(), source.clone_with_type(), reference.into());
        Verify::unchecked(shared.operation("orphans"), move |reporter| {
            Box::pin(once(orphans(shared, source, reference, reporter)).try_flatten())
        })
    }
}

/// The number of documents in a batch of the server, when somebody asks for the progress.
const BATCH: u32 = 1000;

async fn orphans<'a>(
    shared: &'a Shared,
    source: Collection<RawDocumentBuf>,
    reference: String,
    mut reporter: Reporter<'a>,
) -> Result<ActionStream<'a, Finding>> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    let reference = check_settings(collection, &source, reference, &settings.child_id)?;
    let rows = if reporter.is_asked() {
        reporter.begin(send::estimated_count(&source).await?);
        let stages = FromReferences::orphans_and_others(collection.name(), &reference);
        aggregate(&source, stages, Some(BATCH)).await?
    } else {
        let stages = FromReferences::orphans(collection.name(), &reference);
        aggregate(&source, stages, None).await?
    };
    let orphans = rows.map_err(Error::from).try_filter_map(move |row| {
        reporter.advance(1);
        let finding = value(&row, "_id").map(|id| Finding::new(source.namespace(), id, Problem::Orphan));
        ready(Ok(finding.map(|mut finding| {
            finding.related_id = value(&row, "r");
            finding
        })))
    });
    Ok(Box::pin(orphans))
}
