//! The commands of the driver.
//!
//! Each runs to its reply, also when its future is dropped; see [`conn`](crate::conn).
//!
//! # Design
//!
//! ## Why do the commands return boxed futures and streams?
//!
//! Rust compiles a generic function, and the body of an `async fn`, in the crate that calls it or polls it. With `async fn`s
//! here, each pattern crate compiled the driver, its BSON and serde again: 80% of its code. So a function that sends has a
//! generic front, and a body that is not generic and returns a [`BoxFuture`].

use std::time::Duration;

use futures::TryStreamExt;
use futures::future::BoxFuture;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{
    AggregateOptions, CountOptions, DeleteOptions, FindOneAndDeleteOptions, FindOneAndReplaceOptions,
    FindOneAndUpdateOptions, FindOneOptions, FindOptions, Hint, InsertManyOptions, InsertOneOptions, ReadConcern,
    ReadPreference, ReplaceOptions, SelectionCriteria, UpdateModifications, UpdateOptions,
};
use mongodb::results::{DeleteResult, InsertManyResult, InsertOneResult, UpdateResult};
use mongodb::{Collection, Database, IndexModel};

pub use self::every::{Every, IsRouter};
pub use self::rows::{Rows, next_rows};
pub use self::step::{Reply, Step};
pub use self::updates::UpdatesReply;
use crate::conn::{Conn, bounded, in_flight};
use crate::error::CommandError;
use crate::error::command::Command;
pub use crate::error::command::CommandResult as Result;

pub(crate) mod batch;
mod every;
mod rows;
mod step;
mod steps;
mod updates;

type Raw = Collection<RawDocumentBuf>;

/// Options of a command that may be a read.
pub trait Options: Default {
    /// Bounds the time of a read, unless it is bounded.
    fn limit(&mut self, _time: Duration) {}

    /// Lets a read see the latest data of the primary, or the snapshot of its session.
    fn see_latest(&mut self, _in_snapshot: bool) {}

    /// Returns the name of the index of the hint.
    fn index(&self) -> Option<String> {
        None
    }
}

macro_rules! options {
    ($($read:ty),+; $($write:ty),+) => {
        $(impl Options for $read {
            fn index(&self) -> Option<String> {
                name_of(self.hint.as_ref())
            }

            fn limit(&mut self, time: Duration) {
                self.max_time.get_or_insert(time);
            }

            fn see_latest(&mut self, in_snapshot: bool) {
                self.selection_criteria.get_or_insert_with(primary);
                if !in_snapshot {
                    self.read_concern.get_or_insert_with(ReadConcern::local);
                }
            }
        })+
        $(impl Options for $write {
            fn index(&self) -> Option<String> {
                name_of(self.hint.as_ref())
            }
        })+
    };
}

options! {
    FindOneOptions, FindOptions, CountOptions, AggregateOptions;
    UpdateOptions, ReplaceOptions, DeleteOptions, FindOneAndUpdateOptions, FindOneAndReplaceOptions,
    FindOneAndDeleteOptions
}

impl Options for InsertOneOptions {}
impl Options for InsertManyOptions {}

fn name_of(hint: Option<&Hint>) -> Option<String> {
    match hint {
        Some(Hint::Name(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Sets what the call determines: the time of a read, and what it sees.
fn of_call<O: Options>(options: Option<O>, conn: &Conn<'_>) -> O {
    let mut options = options.unwrap_or_default();
    if let Some(time) = conn.max_time() {
        options.limit(time);
    }
    if conn.sees_latest() {
        options.see_latest(conn.is_in_transaction() || conn.is_snapshot());
    }
    options
}

/// Refuses a write of a plan: it would be a mistake of ours.
fn check_plan(conn: &Conn<'_>, command: Command) -> Result<()> {
    match conn.is_plan() && !matches!(command, Command::Read) {
        true => Err(CommandError::custom("a plan writes nothing")),
        false => Ok(()),
    }
}

/// Runs the driver's action, in the session if there is one. The action owns its input.
macro_rules! send {
    ($command:ident, $conn:expr, $action:expr) => {{
        let done = $conn.send(move |session| {
            Box::pin(async move {
                let action = $action;
                match session {
                    Some(session) => action.session(session).await,
                    None => action.await,
                }
            })
        });
        done.await.map_err(|error| CommandError::new(error, Command::$command))
    }};
}

/// Defines the commands on a collection.
macro_rules! commands {
    ($(
        $(#[$attribute:meta])*
        $command:ident $name:ident($($input:ident: $type:ty),+ ), $options:ty => $output:ty;
    )+) => {
        impl Conn<'_> {$(
            $(#[$attribute])*
            pub fn $name<'a>(
                &'a mut self,
                collection: &Raw,
                $($input: impl Into<$type>,)+
                options: impl Into<Option<$options>>,
            ) -> BoxFuture<'a, Result<$output>> {
                bodies::$name(self, collection.clone(), $($input.into(),)+ options.into())
            }
        )+}

        /// The commands, which are compiled in this crate alone.
        mod bodies {
            use super::{
                BoxFuture, Command, CommandError, Conn, CountOptions, DeleteOptions, DeleteResult, Document,
                FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions, FindOneOptions,
                InsertManyOptions, InsertManyResult, InsertOneOptions, InsertOneResult, Options, Raw, RawDocumentBuf, ReplaceOptions,
                Result, UpdateModifications, UpdateOptions, UpdateResult, check_plan, of_call,
            };

            $(
                pub(super) fn $name<'a>(
                    conn: &'a mut Conn<'_>,
                    collection: Raw,
                    $($input: $type,)+
                    options: Option<$options>,
                ) -> BoxFuture<'a, Result<$output>> {
                    Box::pin(async move {
                        check_plan(conn, Command::$command)?;
                        let options = of_call(options, conn);
                        let index = options.index();
                        let done = send!($command, conn, collection.$name($($input),+).with_options(options));
                        done.map_err(|error| error.with_hint(index))
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
    WriteOne replace_one(filter: Document, document: RawDocumentBuf), ReplaceOptions => UpdateResult;
    /// Inserts one document.
    WriteOne insert_one(document: RawDocumentBuf), InsertOneOptions => InsertOneResult;
    /// Inserts many documents.
    WriteMany insert_many(documents: Vec<RawDocumentBuf>), InsertManyOptions => InsertManyResult;
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
    WriteOne find_one_and_replace(filter: Document, document: RawDocumentBuf), FindOneAndReplaceOptions
        => Option<RawDocumentBuf>;
    /// Finds one document and deletes it.
    WriteOne find_one_and_delete(filter: Document), FindOneAndDeleteOptions => Option<RawDocumentBuf>;
    /// Counts documents.
    Read count_documents(filter: Document), CountOptions => u64;
}

/// Lets a scan, which has no [`Conn`], see the latest data of the primary.
pub fn latest<O: Options>(mut options: O) -> O {
    options.see_latest(false);
    options
}

/// Returns the selection criteria of a read that decides about a write: the primary.
pub fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

/// Runs a command that only reads on a database.
pub fn run_read(database: &Database, command: Document) -> BoxFuture<'_, Result<Document>> {
    let database = database.clone();
    Box::pin(async move {
        let mut conn = Conn::new();
        send!(Read, conn, database.run_command(command))
    })
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
    let collection = collection.clone();
    let count = async move { collection.estimated_document_count().await };
    Box::pin(async move { in_flight(Box::pin(count)).await.map_err(CommandError::of_read) })
}

/// Runs the driver's action, and reads its cursor to the end.
macro_rules! collect {
    ($command:expr, $conn:expr, $action:expr) => {{
        let command = $command;
        let done = $conn.send(move |session| {
            Box::pin(async move {
                let action = $action;
                match session {
                    None => action.await?.try_collect().await,
                    Some(session) => {
                        let mut cursor = action.session(&mut *session).await?;
                        cursor.stream(session).try_collect().await
                    }
                }
            })
        });
        done.await.map_err(|error| CommandError::new(error, command))
    }};
}

fn find_all_documents<'a>(
    conn: &'a mut Conn<'_>,
    collection: Raw,
    filter: Document,
    options: Option<FindOptions>,
) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
    Box::pin(async move {
        let options = of_call(options, conn);
        let index = options.index();
        let found = collect!(Command::Read, conn, collection.find(filter).with_options(options));
        found.map_err(|error| error.with_hint(index))
    })
}

impl Conn<'_> {
    /// Runs a command on a database.
    pub fn run_command<'a>(
        &'a mut self,
        database: &Database,
        mut command: Document,
    ) -> BoxFuture<'a, Result<Document>> {
        let database = database.clone();
        if let Some(time) = self.max_time() {
            command.insert("maxTimeMS", i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        }
        Box::pin(async move { send!(WriteMany, self, database.run_command(command)) })
    }

    /// Creates indexes.
    pub fn create_indexes<'a>(&'a mut self, collection: &Raw, models: Vec<IndexModel>) -> BoxFuture<'a, Result<()>> {
        let collection = collection.clone();
        Box::pin(async move {
            check_plan(self, Command::WriteMany)?;
            send!(WriteMany, self, collection.create_indexes(models)).map(drop)
        })
    }

    /// Drops an index.
    pub fn drop_index<'a>(&'a mut self, collection: &Raw, name: String) -> BoxFuture<'a, Result<()>> {
        let collection = collection.clone();
        Box::pin(async move {
            check_plan(self, Command::WriteMany)?;
            send!(WriteMany, self, collection.drop_index(name))
        })
    }

    /// Finds all documents of a filter. Set a limit.
    pub fn find_all<'a>(
        &'a mut self,
        collection: &Raw,
        filter: Document,
        options: impl Into<Option<FindOptions>>,
    ) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
        find_all_documents(self, collection.clone(), filter, options.into())
    }

    /// Returns all documents of an aggregation with a small result.
    pub fn aggregate_all<'a>(
        &'a mut self,
        collection: &Raw,
        pipeline: impl Into<Vec<Document>>,
        options: impl Into<Option<AggregateOptions>>,
    ) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
        aggregate_all_documents(self, collection.clone(), pipeline.into(), options.into())
    }
}

fn aggregate_all_documents<'a>(
    conn: &'a mut Conn<'_>,
    collection: Raw,
    pipeline: Vec<Document>,
    options: Option<AggregateOptions>,
) -> BoxFuture<'a, Result<Vec<RawDocumentBuf>>> {
    let writes = |stage: &Document| stage.contains_key("$merge") || stage.contains_key("$out");
    let command = match pipeline.last().is_some_and(writes) {
        true => Command::WriteMany,
        false => Command::Read,
    };
    Box::pin(async move {
        check_plan(conn, command)?;
        let options = of_call(options, conn);
        let index = options.index();
        let found = collect!(
            command,
            conn,
            collection
                .aggregate(pipeline)
                .with_options(options)
                .with_type::<RawDocumentBuf>()
        );
        found.map_err(|error| error.with_hint(index))
    })
}

/// Finds documents, and reads them one after another.
pub fn find_rows(collection: &Raw, filter: Document, mut options: FindOptions) -> BoxFuture<'_, Result<Rows>> {
    let collection = collection.clone();
    options.max_time = options.max_time.map(bounded);
    let index = options.index();
    let find = async move { collection.find(filter).with_options(options).await };
    Box::pin(async move { Rows::of(in_flight(Box::pin(find)).await, index) })
}

/// Aggregates, and reads the results one after another.
pub fn aggregate_rows(
    collection: &Raw,
    pipeline: impl Into<Vec<Document>>,
    options: impl Into<Option<AggregateOptions>>,
) -> BoxFuture<'_, Result<Rows>> {
    rows_of_aggregate(collection.clone(), pipeline.into(), options.into())
}

fn rows_of_aggregate(
    collection: Raw,
    pipeline: Vec<Document>,
    options: Option<AggregateOptions>,
) -> BoxFuture<'static, Result<Rows>> {
    let index = options.as_ref().and_then(Options::index);
    let aggregate = async move {
        let aggregate = collection.aggregate(pipeline).with_options(options);
        aggregate.with_type::<RawDocumentBuf>().await
    };
    Box::pin(async move { Rows::of(in_flight(Box::pin(aggregate)).await, index) })
}
