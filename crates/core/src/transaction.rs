//! Transactions of our own, by the driver's convenient API.

use futures::future::BoxFuture;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::{Error as DriverError, ErrorKind as DriverKind};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions};
use mongodb::{ClientSession, Collection};

use crate::error::{self, Error, ErrorKind, Result};
use crate::plan::update;
use crate::retry::RetryPolicy;

const ILLEGAL_OPERATION: i32 = 20;

/// The work of a transaction. It may run several times; what it borrows beside the session is in the context.
pub type Body<C, T> = for<'b> fn(&'b mut ClientSession, &'b mut C) -> BoxFuture<'b, Result<T>>;

/// Runs a body in a transaction with the collection's write concern and a snapshot of the primary, again when other
/// writers were faster.
///
/// In a caller's session it runs in the transaction that is under way there, once; the caller commits. Where none is
/// under way it is as without a session.
///
/// # Errors
/// That of the body; [`Unsupported`](ErrorKind::Unsupported) on a standalone; [`Contention`](ErrorKind::Contention)
/// when the retry policy ends it.
pub async fn run<D, C, T>(
    collection: &Collection<D>,
    retry: &RetryPolicy,
    session: Option<&mut ClientSession>,
    mut context: C,
    body: Body<C, T>,
) -> Result<T>
where
    D: Send + Sync,
    C: Send,
    T: Send,
{
    let mut own;
    let session = match session {
        Some(session) => {
            if is_under_way(session).await? {
                return body(session, &mut context).await;
            }
            session
        }
        None => {
            own = collection.client().start_session().await?;
            &mut own
        }
    };
    let options = TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .write_concern(collection.write_concern().cloned())
        .build();
    let mut attempts = retry.start();
    loop {
        let transaction = session.start_transaction().with_options(options.clone());
        let outcome = transaction
            .and_run(&mut context, |session, context| {
                Box::pin(async move { body(session, context).await.map_err(DriverError::from) })
            })
            .await;
        let error = match outcome {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // A duplicate key ends a transaction for good, as the driver sees it. Where it is that of another writer's new
        // document, the next transaction knows of it.
        if error::duplicate_key(&error).is_none() {
            return Err(failed(error));
        }
        attempts.next(error).await?;
    }
}

/// A field that a document has for a moment, within a transaction.
const HELD: &str = "mongo_patterns_held";

/// At the start of a transaction: writes to these documents, so that other writers wait for its end. Without it, one
/// that reads first and then writes conflicts with every write in between, and may never get through; and one that
/// decides by a document that it does not change may be wrong by the time it commits.
///
/// # Errors
/// Those of the driver.
pub async fn hold(
    collection: &Collection<RawDocumentBuf>,
    documents: Document,
    session: &mut ClientSession,
) -> Result<()> {
    // To write what is there already would not count as a write.
    let set = doc! { "$set": { HELD: true } };
    collection
        .update_many(documents.clone(), set)
        .session(&mut *session)
        .await?;
    let unset = doc! { "$unset": { HELD: true } };
    collection.update_many(documents, unset).session(session).await?;
    Ok(())
}

/// What [`hold`] sends.
pub fn hold_commands(collection: &str, documents: &Document) -> [Document; 2] {
    let change = |change: Document| doc! { "q": documents.clone(), "u": change, "multi": true };
    [
        update(collection, change(doc! { "$set": { HELD: true } })),
        update(collection, change(doc! { "$unset": { HELD: true } })),
    ]
}

/// Whether a transaction is under way in a caller's session. It sends nothing: the driver tells by refusing to start a
/// second one.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) where there are no transactions, and those of the driver.
pub async fn is_under_way(session: &mut ClientSession) -> Result<bool> {
    match session.start_transaction().await {
        Ok(()) => {
            session.abort_transaction().await?;
            Ok(false)
        }
        Err(error) if matches!(*error.kind, DriverKind::Transaction { .. }) && !is_unsupported(&error) => Ok(true),
        Err(error) => Err(failed(error)),
    }
}

fn is_unsupported(error: &DriverError) -> bool {
    let by_server = error::code(error) == Some(ILLEGAL_OPERATION);
    by_server || matches!(&*error.kind, DriverKind::Transaction { message, .. } if message.contains("not supported"))
}

fn failed(error: DriverError) -> Error {
    if is_unsupported(&error) {
        return Error::from_driver(
            ErrorKind::Unsupported,
            "this needs a transaction, and a standalone server has none, nothing was changed: make it a replica set, of one node if need be",
            error,
        );
    }
    error.into()
}
