//! Commands of the driver, with or without a session.
//!
//! In a session they are [cancel-safe](crate::session).

use futures::TryStreamExt;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::error::Result;
use mongodb::options::{
    AggregateOptions, CountOptions, DeleteOptions, FindOneAndDeleteOptions, FindOneAndUpdateOptions, FindOneOptions,
    FindOptions, InsertManyOptions, InsertOneOptions, ReadPreference, ReplaceOptions, SelectionCriteria,
    UpdateModifications, UpdateOptions,
};
use mongodb::results::{DeleteResult, InsertManyResult, InsertOneResult, UpdateResult};
use mongodb::{Collection, Database, IndexModel};

use crate::session::Session;

type Raw = Collection<RawDocumentBuf>;

/// Runs the driver's action, or in a session the action with copies of what it borrows.
macro_rules! send {
    ($session:expr, [$($borrowed:ident),+], $action:expr) => {
        match $session {
            None => $action.await,
            Some(session) => {
                $(let owned = $borrowed.to_owned(); let $borrowed = owned;)+
                session
                    .send(move |session| {
                        Box::pin(async move {
                            $(let $borrowed = &$borrowed;)+
                            $action.session(session).await
                        })
                    })
                    .await
            }
        }
    };
}

/// Returns the selection criteria of a read that decides about a write: the primary.
pub fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

/// Runs a command on a database.
pub async fn run_command(
    session: Option<&mut Session<'_>>,
    database: &Database,
    command: Document,
) -> Result<Document> {
    send!(session, [database], database.run_command(command))
}

/// Creates indexes.
pub async fn create_indexes(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    models: Vec<IndexModel>,
) -> Result<()> {
    send!(session, [collection], collection.create_indexes(models))?;
    Ok(())
}

/// Updates one document.
pub async fn update_one(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    update: impl Into<UpdateModifications>,
    options: impl Into<Option<UpdateOptions>>,
) -> Result<UpdateResult> {
    let (update, options) = (update.into(), options.into());
    send!(
        session,
        [collection],
        collection.update_one(filter, update).with_options(options)
    )
}

/// Updates many documents.
pub async fn update_many(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    update: impl Into<UpdateModifications>,
) -> Result<UpdateResult> {
    let update = update.into();
    send!(session, [collection], collection.update_many(filter, update))
}

/// Replaces one document. In a session it is copied, because the command owns its input.
pub async fn replace_one(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    document: &RawDocumentBuf,
    options: impl Into<Option<ReplaceOptions>>,
) -> Result<UpdateResult> {
    let options = options.into();
    send!(
        session,
        [collection, document],
        collection.replace_one(filter, document).with_options(options)
    )
}

/// Inserts one document. In a session it is copied, because the command owns its input.
pub async fn insert_one(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    document: &RawDocumentBuf,
    options: impl Into<Option<InsertOneOptions>>,
) -> Result<InsertOneResult> {
    let options = options.into();
    send!(
        session,
        [collection, document],
        collection.insert_one(document).with_options(options)
    )
}

/// Inserts many documents. In a session they are copied, because the command owns its input.
pub async fn insert_many(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    documents: &[RawDocumentBuf],
    options: impl Into<Option<InsertManyOptions>>,
) -> Result<InsertManyResult> {
    let options = options.into();
    send!(
        session,
        [collection, documents],
        collection.insert_many(documents).with_options(options)
    )
}

/// Deletes one document.
pub async fn delete_one(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    options: impl Into<Option<DeleteOptions>>,
) -> Result<DeleteResult> {
    let options = options.into();
    send!(
        session,
        [collection],
        collection.delete_one(filter).with_options(options)
    )
}

/// Deletes many documents.
pub async fn delete_many(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    options: impl Into<Option<DeleteOptions>>,
) -> Result<DeleteResult> {
    let options = options.into();
    send!(
        session,
        [collection],
        collection.delete_many(filter).with_options(options)
    )
}

/// Finds one document.
pub async fn find_one(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    options: impl Into<Option<FindOneOptions>>,
) -> Result<Option<RawDocumentBuf>> {
    let options = options.into();
    send!(session, [collection], collection.find_one(filter).with_options(options))
}

/// Finds one document and updates it.
pub async fn find_one_and_update(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    update: impl Into<UpdateModifications>,
    options: impl Into<Option<FindOneAndUpdateOptions>>,
) -> Result<Option<RawDocumentBuf>> {
    let (update, options) = (update.into(), options.into());
    send!(
        session,
        [collection],
        collection.find_one_and_update(filter, update).with_options(options)
    )
}

/// Finds one document and deletes it.
pub async fn find_one_and_delete(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    options: impl Into<Option<FindOneAndDeleteOptions>>,
) -> Result<Option<RawDocumentBuf>> {
    let options = options.into();
    send!(
        session,
        [collection],
        collection.find_one_and_delete(filter).with_options(options)
    )
}

/// Counts documents.
pub async fn count_documents(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    options: impl Into<Option<CountOptions>>,
) -> Result<u64> {
    let options = options.into();
    send!(
        session,
        [collection],
        collection.count_documents(filter).with_options(options)
    )
}

/// Finds all documents of a filter. Set a limit.
pub async fn find_all(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    options: impl Into<Option<FindOptions>>,
) -> Result<Vec<RawDocumentBuf>> {
    let options = options.into();
    match session {
        None => collection.find(filter).with_options(options).await?.try_collect().await,
        Some(session) => {
            let collection = collection.clone();
            session
                .send(move |session| {
                    Box::pin(async move {
                        let find = collection.find(filter).with_options(options);
                        let mut cursor = find.session(&mut *session).await?;
                        cursor.stream(session).try_collect().await
                    })
                })
                .await
        }
    }
}

/// Returns all documents of an aggregation with a small result.
pub async fn aggregate_all(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    pipeline: Vec<Document>,
    options: impl Into<Option<AggregateOptions>>,
) -> Result<Vec<RawDocumentBuf>> {
    let options = options.into();
    match session {
        None => {
            collection
                .aggregate(pipeline)
                .with_options(options)
                .with_type::<RawDocumentBuf>()
                .await?
                .try_collect()
                .await
        }
        Some(session) => {
            let collection = collection.clone();
            session
                .send(move |session| {
                    Box::pin(async move {
                        let aggregate = collection
                            .aggregate(pipeline)
                            .with_options(options)
                            .with_type::<RawDocumentBuf>();
                        let mut cursor = aggregate.session(&mut *session).await?;
                        cursor.stream(session).try_collect().await
                    })
                })
                .await
        }
    }
}
