//! The reply to a retried `findAndModify`.
//!
//! # Design
//!
//! ## Why is a projection evaluated again?
//!
//! The driver retries a command when its reply is lost, or reports that the server shuts down. The server recognizes the
//! retry and replies with the whole document, without the projection. One more round trip evaluates the expressions of the
//! projection on the document.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::send::Result;
use mongo_patterns_core::{Error, ErrorKind};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use crate::query;

/// Returns the projection of the document as it was before the command. `None` if no document matches the filter any more. A
/// whole document has the field `left_out`, which the projection leaves out.
pub(crate) async fn projected(
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
    projection: Document,
    left_out: &str,
    reply: RawDocumentBuf,
) -> Result<Option<RawDocumentBuf>> {
    if !matches!(reply.get(left_out), Ok(Some(_))) {
        return Ok(Some(reply));
    }
    let before = Document::try_from(reply)?;
    let evaluate = query::evaluate(filter, before, projection);
    let evaluated = Conn::new().aggregate_all(collection, evaluate, None).await?;
    Ok(evaluated.into_iter().next())
}

/// Converts the error of a read without which the outcome of the command before it is unknown.
pub(crate) fn unknown_outcome(error: CommandError) -> Error {
    Error::from_driver(
        ErrorKind::Network,
        "the connection broke during a write, and a read of its outcome failed: the write may or may not have taken effect",
        error,
    )
}
