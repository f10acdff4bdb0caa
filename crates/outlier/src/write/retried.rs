//! What the server answers when the driver sends a `findAndModify` again.

use mongo_patterns_core::{Error, ErrorKind};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::Result;
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};

/// What a projection makes of the document as it was before.
///
/// When the answer to a command is lost, or says that the server shuts down, the driver sends the command again. The
/// server knows that it has done it and answers with the document that it kept, but as a whole: it does not apply the
/// projection, whose expressions are what we must know. So they are evaluated on that document by one more round trip.
/// `None` when there is no document any more that the filter finds.
///
/// The answer is a whole document when it has this field, which the projection leaves out and each document has.
pub(crate) async fn projected(
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
    projection: Document,
    left_out: &str,
    answer: RawDocumentBuf,
) -> Result<Option<RawDocumentBuf>> {
    if !matches!(answer.get(left_out), Ok(Some(_))) {
        return Ok(Some(answer));
    }
    let answer = Document::try_from(answer)?;
    let pipeline = [
        doc! { "$match": filter },
        doc! { "$limit": 1 },
        doc! { "$replaceWith": { "$literal": answer } },
        doc! { "$project": projection },
    ];
    let evaluated = collection
        .aggregate(pipeline)
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .read_concern(ReadConcern::local())
        .with_type::<RawDocumentBuf>();
    let mut evaluated = evaluated.await?;
    match evaluated.advance().await? {
        true => Ok(Some(evaluated.current().to_owned())),
        false => Ok(None),
    }
}

/// Converts the error of a read without which it is unknown what the command before it stored.
pub(crate) fn stored_or_not(error: mongodb::error::Error) -> Error {
    Error::from_driver(
        ErrorKind::Network,
        "the connection broke under a write, and what it did could not be found out: it may or may not have been done",
        error,
    )
}
