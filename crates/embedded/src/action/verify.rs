use std::collections::VecDeque;
use std::pin::Pin;

use futures::stream::try_unfold;
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::{Error, Result};
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
    /// # Errors
    /// Those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_> {
        Verify { shared: self.shared() }
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
#[derive(Debug)]
#[must_use = "it does nothing until its stream is read"]
pub struct Verify<'a> {
    shared: &'a Shared,
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

impl<'a> Verify<'a> {
    /// The stream. It sends nothing before it is read.
    pub fn stream(self) -> FindingStream<'a> {
        let Shared { collection, settings } = self.shared;
        let operation = self.shared.operation("verify");
        let state: (Option<Cursor<RawDocumentBuf>>, VecDeque<Finding>) = (None, VecDeque::new());
        let findings = try_unfold(state, move |(mut cursor, mut found)| async move {
            loop {
                if let Some(finding) = found.pop_front() {
                    return Ok(Some((finding, (cursor, found))));
                }
                let rows = match &mut cursor {
                    Some(rows) => rows,
                    None => {
                        let aggregate = collection.aggregate(query::faults(settings));
                        cursor.insert(aggregate.with_type::<RawDocumentBuf>().await?)
                    }
                };
                match rows.try_next().await? {
                    Some(row) => found.extend(Finding::of_row(&row, settings.max_children)),
                    None => return Ok(None),
                }
            }
        });
        Box::pin(findings.map_err(move |error: Error| operation.name(error)))
    }
}
