//! Commands of the driver, with or without a session.
//!
//! In a session they are [cancel-safe](crate::session).
//!
//! # Design
//!
//! ## Why do the commands return boxed futures and streams?
//!
//! Rust compiles a generic function, and the body of an `async fn`, in the crate that calls it or polls it. With
//! `async fn`s here, each pattern crate compiled the driver, its BSON and serde again: 80% of its code. So a function
//! that sends has a generic front, which only converts its arguments, and a body that is not generic and returns a
//! [`BoxFuture`]. No other crate polls a future or a cursor of the driver.

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{
    AggregateOptions, CountOptions, DeleteOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions,
    FindOneAndUpdateOptions, FindOneOptions, FindOptions, InsertManyOptions, InsertOneOptions, ReadPreference,
    ReplaceOptions, SelectionCriteria, UpdateModifications, UpdateOptions,
};
use mongodb::results::{DeleteResult, InsertManyResult, InsertOneResult, UpdateResult};
use mongodb::{Collection, Cursor, Database, IndexModel};

use crate::error::CommandError;
use crate::error::command::Command;
use crate::session::Session;

/// The result of a command.
pub type Result<T> = std::result::Result<T, CommandError>;

type Raw = Collection<RawDocumentBuf>;

/// The documents of a cursor.
pub type Rows = BoxStream<'static, Result<RawDocumentBuf>>;

/// Runs the driver's action, or in a session the action with copies of what it borrows.
macro_rules! send {
    ($command:ident, $session:expr, [$($borrowed:ident),+], $action:expr) => {{
        let done = match $session {
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
        };
        done.map_err(|error| CommandError::new(error, Command::$command))
    }};
}

/// Defines the commands on a collection. What one borrows is copied in a session, where the command owns its input.
macro_rules! commands {
    ($(
        $(#[$attribute:meta])*
        $command:ident $name:ident($($owned:ident: $type:ty),* $(; $borrowed:ident: &$borrowed_type:ty)?), $options:ty => $output:ty;
    )+) => {
        $(
            $(#[$attribute])*
            pub fn $name<'a>(
                session: Option<&'a mut Session<'_>>,
                collection: &'a Raw,
                $($owned: impl Into<$type>,)*
                $($borrowed: &'a $borrowed_type,)?
                options: impl Into<Option<$options>>,
            ) -> BoxFuture<'a, Result<$output>> {
                bodies::$name(session, collection, $($owned.into(),)* $($borrowed,)? options.into())
            }
        )+

        /// The commands, which are compiled in this crate alone.
        mod bodies {
            use super::*;

            $(
                pub(super) fn $name<'a>(
                    session: Option<&'a mut Session<'_>>,
                    collection: &'a Raw,
                    $($owned: $type,)*
                    $($borrowed: &'a $borrowed_type,)?
                    options: Option<$options>,
                ) -> BoxFuture<'a, Result<$output>> {
                    Box::pin(async move {
                        send!(
                            $command,
                            session,
                            [collection $(, $borrowed)?],
                            collection.$name($($owned,)* $($borrowed)?).with_options(options)
                        )
                    })
                }
            )+
        }
    };
}

commands! {
    /// Updates one document.
    WriteOne update_one(filter: Document, update: UpdateModifications), UpdateOptions => UpdateResult;
    /// Updates many documents.
    WriteMany update_many(filter: Document, update: UpdateModifications), UpdateOptions => UpdateResult;
    /// Replaces one document.
    WriteOne replace_one(filter: Document; document: &RawDocumentBuf), ReplaceOptions => UpdateResult;
    /// Inserts one document.
    WriteOne insert_one(; document: &RawDocumentBuf), InsertOneOptions => InsertOneResult;
    /// Inserts many documents.
    WriteMany insert_many(; documents: &[RawDocumentBuf]), InsertManyOptions => InsertManyResult;
    /// Deletes one document.
    WriteOne delete_one(filter: Document), DeleteOptions => DeleteResult;
    /// Deletes many documents.
    WriteMany delete_many(filter: Document), DeleteOptions => DeleteResult;
    /// Finds one document.
    Read find_one(filter: Document), FindOneOptions => Option<RawDocumentBuf>;
    /// Finds one document and updates it.
    WriteOne find_one_and_update(filter: Document, update: UpdateModifications), FindOneAndUpdateOptions
        => Option<RawDocumentBuf>;
    /// Finds one document and replaces it.
    WriteOne find_one_and_replace(filter: Document; document: &RawDocumentBuf), FindOneAndReplaceOptions
        => Option<RawDocumentBuf>;
    /// Finds one document and deletes it.
    WriteOne find_one_and_delete(filter: Document), FindOneAndDeleteOptions => Option<RawDocumentBuf>;
    /// Counts documents.
    Read count_documents(filter: Document), CountOptions => u64;
}

/// Returns the selection criteria of a read that decides about a write: the primary.
pub fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

/// Runs a command on a database.
pub fn run_command<'a>(
    session: Option<&'a mut Session<'_>>,
    database: &'a Database,
    command: Document,
) -> BoxFuture<'a, Result<Document>> {
    Box::pin(async move { send!(WriteMany, session, [database], database.run_command(command)) })
}

/// Runs a command that only reads on a database.
pub fn run_read(database: &Database, command: Document) -> BoxFuture<'_, Result<Document>> {
    Box::pin(async move { database.run_command(command).await.map_err(CommandError::of_read) })
}

/// Returns the options of a collection or view. `None` if there is none of this name.
pub fn collection_options<'a>(database: &'a Database, name: &str) -> BoxFuture<'a, Result<Option<Document>>> {
    let list = doc! { "listCollections": 1, "filter": { "name": name } };
    Box::pin(async move {
        let reply = run_read(database, list).await?;
        let batch = reply
            .get_document("cursor")
            .and_then(|cursor| cursor.get_array("firstBatch"));
        let found = batch.ok().and_then(|batch| batch.first()).and_then(Bson::as_document);
        Ok(found.map(|found| found.get_document("options").cloned().unwrap_or_default()))
    })
}

/// Estimates how many documents a collection has, from its metadata.
pub fn estimated_count(collection: &Raw) -> BoxFuture<'_, Result<u64>> {
    Box::pin(async move {
        collection
            .estimated_document_count()
            .await
            .map_err(CommandError::of_read)
    })
}

/// Creates indexes.
pub fn create_indexes<'a>(
    session: Option<&'a mut Session<'_>>,
    collection: &'a Raw,
    models: Vec<IndexModel>,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move { send!(WriteMany, session, [collection], collection.create_indexes(models)).map(drop) })
}

/// Runs the driver's action, and reads its cursor to the end.
macro_rules! collect {
    ($command:expr, $session:expr, $collection:ident, $action:expr) => {{
        let command = $command;
        let done = match $session {
            None => async { $action.await?.try_collect().await }.await,
            Some(session) => {
                let $collection = $collection.clone();
                session
                    .send(move |session| {
                        Box::pin(async move {
                            let mut cursor = $action.session(&mut *session).await?;
                            cursor.stream(session).try_collect().await
                        })
                    })
                    .await
            }
        };
        done.map_err(|error| CommandError::new(error, command))
    }};
}

/// Finds all documents of a filter. Set a limit.
pub fn find_all<'a>(
    session: Option<&'a mut Session<'_>>,
    collection: &'a Raw,
    filter: Document,
    options: impl Into<Option<FindOptions>>,
) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
    find_all_documents(session, collection, filter, options.into())
}

fn find_all_documents<'a>(
    session: Option<&'a mut Session<'_>>,
    collection: &'a Raw,
    filter: Document,
    options: Option<FindOptions>,
) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
    Box::pin(async move {
        collect!(
            Command::Read,
            session,
            collection,
            collection.find(filter).with_options(options)
        )
    })
}

/// Returns all documents of an aggregation with a small result.
pub fn aggregate_all<'a>(
    session: Option<&'a mut Session<'_>>,
    collection: &'a Raw,
    pipeline: impl Into<Vec<Document>>,
    options: impl Into<Option<AggregateOptions>>,
) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
    aggregate_all_documents(session, collection, pipeline.into(), options.into())
}

fn aggregate_all_documents<'a>(
    session: Option<&'a mut Session<'_>>,
    collection: &'a Raw,
    pipeline: Vec<Document>,
    options: Option<AggregateOptions>,
) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
    let writes = |stage: &Document| stage.contains_key("$merge") || stage.contains_key("$out");
    let command = match pipeline.last().is_some_and(writes) {
        true => Command::WriteMany,
        false => Command::Read,
    };
    Box::pin(async move {
        collect!(
            command,
            session,
            collection,
            collection
                .aggregate(pipeline)
                .with_options(options)
                .with_type::<RawDocumentBuf>()
        )
    })
}

/// Finds documents, and reads them one after another.
pub fn find_rows(collection: &Raw, filter: Document, options: FindOptions) -> BoxFuture<'_, Result<Rows>> {
    Box::pin(async move {
        let cursor = collection.find(filter).with_options(options).await;
        rows(cursor)
    })
}

/// Aggregates, and reads the results one after another.
pub fn aggregate_rows(
    collection: &Raw,
    pipeline: impl Into<Vec<Document>>,
    options: impl Into<Option<AggregateOptions>>,
) -> BoxFuture<'_, Result<Rows>> {
    rows_of_aggregate(collection, pipeline.into(), options.into())
}

fn rows_of_aggregate(
    collection: &Raw,
    pipeline: Vec<Document>,
    options: Option<AggregateOptions>,
) -> BoxFuture<'_, Result<Rows>> {
    Box::pin(async move {
        let aggregate = collection.aggregate(pipeline).with_options(options);
        rows(aggregate.with_type::<RawDocumentBuf>().await)
    })
}

fn rows(cursor: mongodb::error::Result<Cursor<RawDocumentBuf>>) -> Result<Rows> {
    let cursor = cursor.map_err(CommandError::of_read)?;
    Ok(cursor.map_err(CommandError::of_read).boxed())
}

/// Reads the next rows. None at the end.
pub fn next_rows(rows: &mut Rows, most: usize) -> BoxFuture<'_, Result<Vec<RawDocumentBuf>>> {
    Box::pin(rows.take(most).try_collect())
}
