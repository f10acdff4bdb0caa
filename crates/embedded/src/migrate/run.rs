//! What both directions share.

use futures::TryStreamExt;
use mongo_patterns_core::plan::aggregation;
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result, error};
use mongodb::Collection;
use mongodb::action::Aggregate;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc, serialize_to_bson};
use mongodb::error::Error as DriverError;
use mongodb::options::{Acknowledgment, Collation, ReadConcern, ReadPreference, SelectionCriteria};

/// MongoDB's limit of a document, less what one has beside its fields.
pub(crate) const MAX_BYTES: i64 = 16 * 1024 * 1024 - 8 * 1024;

/// What an older server says to a `$lookup` by fields that has a pipeline, too.
const NOT_PARSED: i32 = 9;
/// What a `$lookup` gathers is too large for one document.
const LOOKUP_TOO_LARGE: i32 = 4568;

/// The collections and the field, without asking the server.
pub(crate) fn check_settings(
    parents: &Collection<RawDocumentBuf>,
    references: &Collection<RawDocumentBuf>,
    written: &Collection<RawDocumentBuf>,
    reference: String,
    child_id: &FieldName,
) -> Result<FieldName> {
    let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
    if parents.namespace().db != references.namespace().db {
        return refuse("parents and references must be in one database: take one collection from the other's database");
    }
    if parents.name() == references.name() {
        return refuse("the collection of the references must be another one than that of the parents");
    }
    let concern = written.write_concern().and_then(|concern| concern.w.as_ref());
    if concern == Some(&Acknowledgment::Nodes(0)) {
        return refuse("the write concern of the target must not be w: 0, under which no move could be confirmed");
    }
    let reference = FieldName::new(reference)?;
    if reference == *child_id {
        return refuse("the field of the reference must be another one than that of the child's id");
    }
    Ok(reference)
}

/// How much goes at a time.
pub(crate) fn check_chunk(chunk: u64) -> Result<()> {
    if chunk > 0 {
        return Ok(());
    }
    let message = "a chunk must be of at least 1, nothing was moved";
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// All on the primary, and ids compared by their bytes, also where a collection's own collation is another.
pub(crate) fn aggregate(
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Aggregate<'_> {
    collection
        .aggregate(stages)
        .allow_disk_use(true)
        .collation(Collation::builder().locale("simple").build())
        .read_concern(ReadConcern::local())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
}

/// The one document that the stages make.
pub(crate) async fn look(
    collection: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<Document> {
    let mut cursor = aggregate(collection, stages).await.map_err(failed)?;
    Ok(cursor.try_next().await.map_err(failed)?.unwrap_or_default())
}

/// Runs stages of which the last one writes.
pub(crate) async fn write(
    source: &Collection<RawDocumentBuf>,
    target: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Result<()> {
    let concern = target.write_concern().cloned().unwrap_or_default();
    aggregate(source, stages).write_concern(concern).await.map_err(failed)?;
    Ok(())
}

/// As [`write`] sends it.
pub(crate) fn write_command(
    source: &Collection<RawDocumentBuf>,
    target: &Collection<RawDocumentBuf>,
    stages: impl IntoIterator<Item = Document>,
) -> Document {
    let mut command = aggregation(source.name(), stages);
    let concern = target.write_concern();
    if let Some(concern) = concern.and_then(|concern| serialize_to_bson(concern).ok()) {
        command.insert("writeConcern", concern);
    }
    command
}

/// How many rows meet a condition, and one of them, for [`refuse`].
pub(crate) fn count_if(group: &mut Document, name: &str, condition: Document, how_many: impl Into<Bson>, one: &str) {
    group.insert(
        name,
        doc! { "$sum": { "$cond": [condition.clone(), how_many.into(), 0] } },
    );
    group.insert(
        format!("{name}One"),
        doc! { "$max": { "$cond": [condition, one, null] } },
    );
}

pub(crate) fn failed(error: DriverError) -> Error {
    if error::code(&error) == Some(NOT_PARSED) {
        return Error::from_driver(
            ErrorKind::Unsupported,
            "embedding what refers to a parent needs MongoDB 5.0, nothing was moved: move on a newer server",
            error,
        );
    }
    if error::code(&error) == Some(LOOKUP_TOO_LARGE) {
        return Error::from_driver(
            ErrorKind::TooLarge,
            "the children of a parent would pass MongoDB's limit of 16 MiB: embed fewer, or use a pattern for longer lists",
            error,
        );
    }
    if error::duplicate_key(&error).is_some() {
        return Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index of your own refused what was moved: drop it, or mend the children, then move again",
            error,
        );
    }
    error.into()
}
