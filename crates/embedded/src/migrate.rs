//! Migrations between references, where each child is a document that names its parent, and embedded children.
//!
//! # Design
//!
//! ## Why do these migrations keep no record of their position?
//!
//! The data shows it. A parent that has its children is skipped, and a document that exists stays. So a migration that was
//! interrupted is simply run again.

pub(crate) mod from_references;
pub(crate) mod to_references;

use mongo_patterns_core::error;
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::settings::is_unacknowledged;

use crate::prelude::*;

/// The result of a `$lookup` exceeds the limit of a document.
const LOOKUP_TOO_LARGE: i32 = 4568;

/// Checks the collections and the name of the reference, without the server.
pub(crate) fn check_settings(
    parents: &Collection<RawDocumentBuf>,
    references: &Collection<RawDocumentBuf>,
    target: &Collection<RawDocumentBuf>,
    reference: String,
    child_id: &FieldName,
) -> Result<FieldName> {
    let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
    if parents.namespace().db != references.namespace().db {
        return refuse("the parents and the references are in two databases, nothing was sent: use one database");
    }
    if parents.name() == references.name() {
        return refuse("the parents and the references are one collection, nothing was sent: use two");
    }
    if is_unacknowledged(target) {
        return refuse(
            "the write concern of the target is w: 0, which confirms no write, nothing was sent: use another one",
        );
    }
    let reference = FieldName::new(reference)?;
    if reference == *child_id {
        return refuse("the reference has the name of the child's id, nothing was sent: use another field");
    }
    Ok(reference)
}

/// Aggregates on the primary, and compares ids by their bytes, also in a collection with another collation.
pub(crate) async fn aggregate(
    collection: &Collection<RawDocumentBuf>,
    stages: impl Into<Vec<Document>>,
    batch_size: Option<u32>,
) -> Result<Rows> {
    let options = AggregateOptions::builder()
        .allow_disk_use(true)
        .batch_size(batch_size)
        .collation(Collation::builder().locale("simple").build())
        .build();
    Ok(send::aggregate_rows(collection, stages, send::latest(options)).await?)
}

/// Reads the one document that the stages return.
pub(crate) async fn read(
    conn: &mut Conn<'_>,
    purpose: &'static str,
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<Document> {
    let reply = conn.read(Step::aggregate(purpose, collection, stages)).await;
    Ok(reply.map_err(failed)?.first()?)
}

/// Does what [`read`] does, after the migration has written. A plan gets an empty document.
pub(crate) async fn read_written(
    conn: &mut Conn<'_>,
    purpose: &'static str,
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<Document> {
    let reply = conn.read_written(Step::aggregate(purpose, collection, stages)).await;
    Ok(reply.map_err(failed)?.unwrap_or_default().first()?)
}

/// Runs stages of which the last one writes into the target.
pub(crate) async fn write(
    conn: &mut Conn<'_>,
    purpose: &'static str,
    source: &Collection<RawDocumentBuf>,
    target: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<()> {
    let step = Step::aggregate(purpose, source, stages).acknowledged_by(target);
    conn.write(step).await.map_err(failed)?;
    Ok(())
}

fn failed(error: CommandError) -> Error {
    if error::code(&error) == Some(LOOKUP_TOO_LARGE) {
        return Error::from_driver(
            ErrorKind::TooLarge,
            "the children of a parent exceed MongoDB's limit of 16 MiB: embed fewer, or use a pattern for longer lists",
            error,
        );
    }
    if error::duplicate_key(&error).is_some() {
        return Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index that is not the pattern's refused a write: drop it, or correct the children, then migrate again",
            error,
        );
    }
    error.into()
}
