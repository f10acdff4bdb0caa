//! Commands of the driver, with or without a session.
//!
//! In a session they are [cancel-safe](crate::session).

use futures::TryStreamExt;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::options::{
    AggregateOptions, CountOptions, DeleteOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions,
    FindOneAndUpdateOptions, FindOneOptions, FindOptions, InsertManyOptions, InsertOneOptions, ReadPreference,
    ReplaceOptions, SelectionCriteria, UpdateModifications, UpdateOptions,
};
use mongodb::results::{DeleteResult, InsertManyResult, InsertOneResult, UpdateResult};
use mongodb::{Collection, Database, IndexModel};

use crate::error::CommandError;
use crate::error::command::Command;
use crate::session::Session;

/// The result of a command.
pub type Result<T> = std::result::Result<T, CommandError>;

type Raw = Collection<RawDocumentBuf>;

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
    )+) => {$(
        $(#[$attribute])*
        pub async fn $name(
            session: Option<&mut Session<'_>>,
            collection: &Raw,
            $($owned: impl Into<$type>,)*
            $($borrowed: &$borrowed_type,)?
            options: impl Into<Option<$options>>,
        ) -> Result<$output> {
            $(let $owned: $type = $owned.into();)*
            let options = options.into();
            send!(
                $command,
                session,
                [collection $(, $borrowed)?],
                collection.$name($($owned,)* $($borrowed)?).with_options(options)
            )
        }
    )+};
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
pub async fn run_command(
    session: Option<&mut Session<'_>>,
    database: &Database,
    command: Document,
) -> Result<Document> {
    send!(WriteMany, session, [database], database.run_command(command))
}

/// Creates indexes.
pub async fn create_indexes(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    models: Vec<IndexModel>,
) -> Result<()> {
    send!(WriteMany, session, [collection], collection.create_indexes(models)).map(drop)
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
pub async fn find_all(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    filter: Document,
    options: impl Into<Option<FindOptions>>,
) -> Result<Vec<RawDocumentBuf>> {
    let options = options.into();
    collect!(
        Command::Read,
        session,
        collection,
        collection.find(filter).with_options(options)
    )
}

/// Returns all documents of an aggregation with a small result.
pub async fn aggregate_all(
    session: Option<&mut Session<'_>>,
    collection: &Raw,
    pipeline: Vec<Document>,
    options: impl Into<Option<AggregateOptions>>,
) -> Result<Vec<RawDocumentBuf>> {
    let options = options.into();
    let writes = |stage: &Document| stage.contains_key("$merge") || stage.contains_key("$out");
    collect!(
        match pipeline.last().is_some_and(writes) {
            true => Command::WriteMany,
            false => Command::Read,
        },
        session,
        collection,
        collection
            .aggregate(pipeline)
            .with_options(options)
            .with_type::<RawDocumentBuf>()
    )
}
