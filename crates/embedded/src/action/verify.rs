use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;

use futures::stream::try_unfold;
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::progress::{OnProgress, Reporter};
use mongo_patterns_core::{Error, Progress, Result};
use mongodb::Cursor;
use mongodb::bson::RawDocumentBuf;

use crate::repository::Shared;
use crate::{EmbeddedRepository, Finding, query};

impl<P, C> EmbeddedRepository<P, C> {
    /// Everything that is wrong with the stored parents, as a stream of [findings](Finding).
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # async fn f(patrons: EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// let mut findings = patrons.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It writes nothing, and may run while others write: each parent is seen at one moment. Parents and children are
    /// not decoded.
    ///
    /// # Cost
    /// One aggregation. The server reads every parent, and sends some hundred bytes of those in which something is wrong.
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

/// Looks for what is wrong; made by [`EmbeddedRepository::verify`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::{EmbeddedRepository, Finding};
/// # use mongodb::bson::Document;
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let findings: Vec<Finding> = patrons.verify().stream().try_collect().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a> {
    shared: &'a Shared,
    on_progress: Option<OnProgress<'a>>,
}

/// A stream of findings; made by [`Verify::stream`].
///
/// ```no_run
/// # use futures::TryStreamExt;
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongo_patterns_embedded::action::FindingStream;
/// # use mongodb::bson::Document;
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let mut findings: FindingStream<'_> = patrons.verify().stream();
/// let is_sound = findings.try_next().await?.is_none();
/// # Ok(())
/// # }
/// ```
pub type FindingStream<'a> = Pin<Box<dyn Stream<Item = Result<Finding>> + Send + 'a>>;

/// How many parents the server looks at between two answers, where somebody wants to know how far it is.
const BATCH: u32 = 1000;

/// The bytes of a document without fields: a parent in which nothing is wrong.
const EMPTY: usize = 5;

impl<'a> Verify<'a> {
    /// Is called with how many parents were looked at. It takes one round trip more, and one for each 1000 parents, since
    /// the server answers for each.
    pub fn on_progress(mut self, call: impl FnMut(Progress) + Send + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// The stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    pub fn stream(self) -> FindingStream<'a> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let operation = self.shared.operation("verify");
        let state: (Option<Cursor<RawDocumentBuf>>, VecDeque<Finding>) = (None, VecDeque::new());
        let state = (state, Reporter::new(self.on_progress));
        let findings = try_unfold(state, move |((mut cursor, mut found), mut reporter)| async move {
            loop {
                if let Some(finding) = found.pop_front() {
                    return Ok(Some((finding, ((cursor, found), reporter))));
                }
                let rows = match &mut cursor {
                    Some(rows) => rows,
                    None if reporter.is_asked() => {
                        reporter.begin(collection.estimated_document_count().await?);
                        let aggregate = collection.aggregate(query::faults_and_sound(settings));
                        let aggregate = aggregate.batch_size(BATCH);
                        cursor.insert(aggregate.with_type::<RawDocumentBuf>().await?)
                    }
                    None => {
                        let aggregate = collection.aggregate(query::faults(settings));
                        cursor.insert(aggregate.with_type::<RawDocumentBuf>().await?)
                    }
                };
                match rows.try_next().await? {
                    Some(row) if row.as_bytes().len() == EMPTY => reporter.advance(1),
                    Some(row) => {
                        reporter.advance(1);
                        found.extend(Finding::of_row(&row, settings.max_children));
                    }
                    None => return Ok(None),
                }
            }
        });
        Box::pin(findings.map_err(move |error: Error| operation.name(error)))
    }
}

impl fmt::Debug for Verify<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
