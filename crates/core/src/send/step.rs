//! One command, to execute or to list.

use futures::future::BoxFuture;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, serialize_to_bson, serialize_to_document};
use mongodb::options::{
    AggregateOptions, Collation, FindOneOptions, FindOptions, Hint, ReadConcern, UpdateModifications as Update,
    UpdateOptions, WriteConcern,
};
use mongodb::{Collection, IndexModel};

use crate::conn::Conn;
use crate::error::CommandError;
use crate::plan::PlannedCommand;
use crate::send::batch::one_batch;
use crate::send::rows::first_batch;
use crate::send::{self, Every, IsRouter, Rows};
use crate::value::stored::value;

type Result<T> = send::Result<T>;
type Raw = Collection<RawDocumentBuf>;

/// The field of a row with the values by which rows are in order.
const POSITION: &str = "mongo_patterns_position";

/// One command.
///
/// [`Conn`] executes it, or lists it.
pub struct Step {
    purpose: &'static str,
    collection: Raw,
    action: Action,
    /// Whether its cursor resumes.
    in_order: bool,
}

crate::redacted_debug!(Step, |step| "purpose" = step.purpose);

enum Action {
    FindOne(Document, FindOneOptions),
    Find(Document, FindOptions),
    Aggregate(Vec<Document>, AggregateOptions),
    EstimatedCount,
    UpdateOne(Document, Update),
    /// With `upsert`.
    UpsertOne(Document, Update),
    UpdateMany(Document, Update),
    UpdateInOrder(Vec<Document>),
    /// With `upsert`.
    ReplaceOne(Document, RawDocumentBuf),
    InsertMany(Vec<RawDocumentBuf>),
    DeleteOne(Document),
    DeleteMany(Document),
    CreateIndexes(Vec<IndexModel>),
    DropIndex(String),
    /// A command that replies with a cursor of one batch.
    List(Document),
    ListOnAdmin(Document),
    /// A command on the database `admin` that replies with one document.
    Admin(Document),
}

/// The server's reply to a [`Step`].
#[derive(Debug, Default)]
pub struct Reply {
    /// What it found.
    pub documents: Vec<RawDocumentBuf>,
    /// How many documents it counted.
    pub count: u64,
    /// How many documents a write matched.
    pub matched: u64,
    /// How many documents it changed.
    pub modified: u64,
    /// How many documents it deleted.
    pub deleted: u64,
}

impl Reply {
    /// Returns its first document, or an empty one.
    pub fn first(&self) -> Result<Document> {
        // Deserialized from the bytes, because serde would take a user's field such as `$date` for extended JSON.
        let first = self.documents.first().map(|first| Document::try_from(first.as_ref()));
        Ok(first.transpose()?.unwrap_or_default())
    }

    /// Returns its documents.
    ///
    /// # Errors
    /// When one is no valid BSON.
    pub fn decoded(&self) -> Result<Vec<Document>> {
        let decoded = self.documents.iter().map(|one| Document::try_from(one.as_ref()));
        Ok(decoded.collect::<std::result::Result<_, _>>()?)
    }
}

impl Step {
    fn new(purpose: &'static str, on: &Raw, action: Action) -> Self {
        let collection = on.clone();
        Self {
            purpose,
            collection,
            action,
            in_order: false,
        }
    }

    /// Finds one document.
    pub fn find_one(purpose: &'static str, on: &Raw, filter: Document, options: FindOneOptions) -> Self {
        Self::new(purpose, on, Action::FindOne(filter, options))
    }

    /// Finds documents.
    pub fn find(purpose: &'static str, on: &Raw, filter: Document, options: FindOptions) -> Self {
        Self::new(purpose, on, Action::Find(filter, options))
    }

    /// Aggregates. Compares ids by their bytes, also in a collection with another collation.
    pub fn aggregate(purpose: &'static str, on: &Raw, stages: impl IntoIterator<Item = Document>) -> Self {
        let options = AggregateOptions::builder()
            .allow_disk_use(true)
            .collation(Collation::builder().locale("simple").build())
            .build();
        Self::new(purpose, on, Action::Aggregate(stages.into_iter().collect(), options))
    }

    /// Estimates how many documents the collection has, from its metadata.
    pub fn estimated_count(purpose: &'static str, on: &Raw) -> Self {
        Self::new(purpose, on, Action::EstimatedCount)
    }

    /// Updates one document.
    pub fn update_one(purpose: &'static str, on: &Raw, filter: Document, update: impl Into<Update>) -> Self {
        Self::new(purpose, on, Action::UpdateOne(filter, update.into()))
    }

    /// Updates one document, or inserts it.
    pub fn upsert_one(purpose: &'static str, on: &Raw, filter: Document, update: impl Into<Update>) -> Self {
        Self::new(purpose, on, Action::UpsertOne(filter, update.into()))
    }

    /// Updates all documents that match, which they do not afterwards. On a router it
    /// [checks again](Conn::update_every).
    pub fn update_many(purpose: &'static str, on: &Raw, filter: Document, update: impl Into<Update>) -> Self {
        Self::new(purpose, on, Action::UpdateMany(filter, update.into()))
    }

    /// Sends update statements, which are idempotent, in one command, in order.
    pub fn update_in_order(purpose: &'static str, on: &Raw, statements: Vec<Document>) -> Self {
        Self::new(purpose, on, Action::UpdateInOrder(statements))
    }

    /// Replaces one document, or inserts it.
    pub fn upsert(purpose: &'static str, on: &Raw, filter: Document, document: RawDocumentBuf) -> Self {
        Self::new(purpose, on, Action::ReplaceOne(filter, document))
    }

    /// Inserts documents.
    pub fn insert_many(purpose: &'static str, on: &Raw, documents: Vec<RawDocumentBuf>) -> Self {
        Self::new(purpose, on, Action::InsertMany(documents))
    }

    /// Deletes one document.
    pub fn delete_one(purpose: &'static str, on: &Raw, filter: Document) -> Self {
        Self::new(purpose, on, Action::DeleteOne(filter))
    }

    /// Deletes documents.
    pub fn delete_many(purpose: &'static str, on: &Raw, filter: Document) -> Self {
        Self::new(purpose, on, Action::DeleteMany(filter))
    }

    pub(crate) fn create_indexes(on: &Raw, models: Vec<IndexModel>) -> Self {
        Self::new("create indexes", on, Action::CreateIndexes(models))
    }

    pub(crate) fn drop_index(on: &Raw, name: String) -> Self {
        Self::new("drop the old index", on, Action::DropIndex(name))
    }

    /// Runs a command on the database of the collection that replies with a cursor of one batch.
    pub(crate) fn list(purpose: &'static str, on: &Raw, command: Document) -> Self {
        Self::new(purpose, on, Action::List(command))
    }

    /// Aggregates operations of the server, such as `$currentOp`. The reply is one batch.
    pub fn aggregate_on_admin(purpose: &'static str, on: &Raw, stages: impl IntoIterator<Item = Document>) -> Self {
        let pipeline: Vec<Document> = stages.into_iter().collect();
        let command = doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} };
        Self::new(purpose, on, Action::ListOnAdmin(command))
    }

    /// Runs a command of the deployment, on the database `admin`. The reply is one document.
    pub(crate) fn admin(purpose: &'static str, on: &Raw, command: Document) -> Self {
        Self::new(purpose, on, Action::Admin(command))
    }

    /// Sets the index that an aggregation uses.
    #[must_use]
    pub fn hint(self, index: Option<Hint>) -> Self {
        self.options(|options| options.hint = index)
    }

    /// Reads up to this number of documents in one batch, as far as 16 MiB hold them.
    #[must_use]
    pub fn up_to(mut self, documents: usize) -> Self {
        match &mut self.action {
            Action::Find(_, options) => options.batch_size = one_batch(documents),
            Action::Aggregate(_, options) => options.batch_size = one_batch(documents),
            _ => {}
        }
        self
    }

    /// Sorts the rows of an aggregation by fields that identify a row together. Its cursor [resumes](Rows::resuming) after
    /// the last row.
    #[must_use]
    pub fn in_order_of<'f>(mut self, fields: impl IntoIterator<Item = &'f str>) -> Self {
        let value = |field: &str| (field.to_owned(), doc! { "$ifNull": [format!("${field}"), null] }.into());
        // In a document, because a sort takes an array for its smallest element.
        let position: Document = fields.into_iter().map(value).collect();
        if let Action::Aggregate(pipeline, _) = &mut self.action {
            pipeline.extend([
                doc! { "$set": { POSITION: position } },
                doc! { "$sort": { POSITION: 1 } },
            ]);
            self.in_order = true;
        }
        self
    }

    /// Sets the comment by which an aggregation is found among the operations of the server.
    #[must_use]
    pub fn comment(self, comment: String) -> Self {
        self.options(|options| options.comment = Some(comment.into()))
    }

    /// Sets the collation of an aggregation back to its collection's.
    #[must_use]
    pub fn own_collation(self) -> Self {
        self.options(|options| options.collation = None)
    }

    /// Sets the write concern of an aggregation to the write concern of its target.
    #[must_use]
    pub fn acknowledged_by(self, target: &Raw) -> Self {
        let concern = target.write_concern().cloned().unwrap_or_default();
        self.options(|options| options.write_concern = Some(concern))
    }

    fn options(mut self, change: impl FnOnce(&mut AggregateOptions)) -> Self {
        if let Action::Aggregate(_, options) = &mut self.action {
            change(options);
        }
        self
    }

    /// Returns the command, as an operator reads it.
    pub(super) fn planned(&self, writes: bool) -> Result<PlannedCommand> {
        let planned = match writes {
            true => PlannedCommand::write(self.purpose, self.command()?),
            false => PlannedCommand::read(self.purpose, self.command()?),
        };
        Ok(match self.action {
            Action::ListOnAdmin(_) | Action::Admin(_) => planned.on_admin(),
            _ if self.collection.namespace().db == "config" => planned.on_config(),
            _ => planned,
        })
    }

    /// Returns the command, as `runCommand` takes it.
    pub(crate) fn command(&self) -> Result<Document> {
        let name = self.collection.name();
        let find = |filter: &Document, options: &FindOptions| -> Result<Document> {
            let mut command = doc! { "find": name, "filter": filter };
            command.extend(serialize_to_document(options)?);
            read_concern(&mut command, options.read_concern.as_ref())?;
            Ok(command)
        };
        let delete = |filter: &Document, limit: i32| {
            doc! { "delete": name, "ordered": true, "deletes": [{ "q": filter, "limit": limit }] }
        };
        let update = |statement: Document| doc! { "update": name, "ordered": true, "updates": [statement] };
        Ok(match &self.action {
            Action::FindOne(filter, options) => {
                let mut command = find(filter, &options.clone().into())?;
                command.extend(doc! { "limit": 1, "singleBatch": true });
                command
            }
            Action::Find(filter, options) => find(filter, options)?,
            Action::Aggregate(pipeline, options) => {
                let mut command = doc! { "aggregate": name, "pipeline": pipeline, "cursor": {} };
                command.extend(serialize_to_document(options)?);
                read_concern(&mut command, options.read_concern.as_ref())?;
                write_concern(&mut command, options.write_concern.as_ref())?;
                command
            }
            Action::EstimatedCount => doc! { "count": name },
            Action::UpdateOne(filter, changes) => update(with_changes(doc! { "q": filter }, changes)),
            Action::UpsertOne(filter, changes) => {
                let mut statement = with_changes(doc! { "q": filter }, changes);
                statement.insert("upsert", true);
                update(statement)
            }
            Action::UpdateMany(filter, changes) => {
                let mut statement = with_changes(doc! { "q": filter }, changes);
                statement.insert("multi", true);
                update(statement)
            }
            Action::UpdateInOrder(statements) => doc! { "update": name, "ordered": true, "updates": statements },
            Action::ReplaceOne(filter, document) => {
                let document = Document::try_from(document.as_ref())?;
                update(doc! { "q": filter, "u": document, "upsert": true })
            }
            Action::InsertMany(documents) => {
                let documents = documents.iter().map(|one| Document::try_from(one.as_ref()));
                let documents: Vec<Document> = documents.collect::<std::result::Result<_, _>>()?;
                doc! { "insert": name, "ordered": true, "documents": documents }
            }
            Action::DeleteOne(filter) => delete(filter, 1),
            Action::DeleteMany(filter) => delete(filter, 0),
            Action::CreateIndexes(models) => doc! { "createIndexes": name, "indexes": serialize_to_bson(models)? },
            Action::DropIndex(index) => doc! { "dropIndexes": name, "index": index },
            Action::List(command) | Action::ListOnAdmin(command) | Action::Admin(command) => command.clone(),
        })
    }

    /// Sends an aggregation, and returns its cursor.
    pub(super) async fn stream(self) -> Result<Rows> {
        let Action::Aggregate(pipeline, options) = self.action else {
            return Err(CommandError::custom("only an aggregation has a cursor"));
        };
        let (collection, options) = (self.collection, send::latest(options));
        if !self.in_order {
            return send::aggregate_rows(&collection, pipeline, options).await;
        }
        let open = move |last: Option<&RawDocument>| {
            let (collection, pipeline, options) = (collection.clone(), after(&pipeline, last), options.clone());
            let opened = async move { send::aggregate_rows(&collection, pipeline, options).await };
            Box::pin(opened) as BoxFuture<'static, _>
        };
        Rows::resuming(Box::new(open)).await
    }

    pub(super) async fn execute(self, conn: &mut Conn<'_>) -> Result<Reply> {
        let on = &self.collection;
        let mut reply = Reply::default();
        match self.action {
            Action::FindOne(filter, options) => {
                reply.documents = Vec::from_iter(conn.find_one(on, filter, options).await?);
            }
            Action::Find(filter, options) => reply.documents = conn.find_all(on, filter, options).await?,
            Action::Aggregate(pipeline, options) => {
                reply.documents = conn.aggregate_all(on, pipeline, options).await?;
            }
            Action::EstimatedCount => {
                reply.count = send::estimated_count(on).await?;
            }
            Action::UpdateOne(filter, update) => {
                let updated = conn.update_one(on, filter, update, None).await?;
                (reply.matched, reply.modified) = (updated.matched_count, updated.modified_count);
            }
            Action::UpsertOne(filter, update) => {
                let options = UpdateOptions::builder().upsert(true).build();
                let updated = conn.update_one(on, filter, update, options).await?;
                (reply.matched, reply.modified) = (updated.matched_count, updated.modified_count);
            }
            Action::UpdateMany(filter, update) => {
                let every = Every::new(filter, update);
                let updated = conn.update_every(on, every, &IsRouter::default()).await?;
                (reply.matched, reply.modified) = (updated.matched_count, updated.modified_count);
            }
            Action::UpdateInOrder(statements) => reply.matched = conn.update_in_order(on, statements).await?,
            Action::ReplaceOne(filter, document) => {
                let options = mongodb::options::ReplaceOptions::builder().upsert(true).build();
                let replaced = conn.replace_one(on, filter, document, options).await?;
                (reply.matched, reply.modified) = (replaced.matched_count, replaced.modified_count);
            }
            Action::InsertMany(documents) => {
                conn.insert_many(on, documents, None).await?;
            }
            Action::DeleteOne(filter) => {
                reply.deleted = conn.delete_one(on, filter, None).await?.deleted_count;
            }
            Action::DeleteMany(filter) => {
                reply.deleted = conn.delete_many(on, filter, None).await?.deleted_count;
            }
            Action::CreateIndexes(models) => conn.create_indexes(on, models).await?,
            Action::DropIndex(index) => conn.drop_index(on, index).await?,
            Action::List(command) => {
                let database = on.client().database(&on.namespace().db);
                reply.documents = first_batch(&conn.run_command(&database, command).await?)?;
            }
            Action::ListOnAdmin(command) => {
                let admin = on.client().database("admin");
                reply.documents = first_batch(&conn.run_command(&admin, command).await?)?;
            }
            Action::Admin(command) => {
                let admin = on.client().database("admin");
                let document = conn.run_command(&admin, command).await?;
                reply.documents = vec![RawDocumentBuf::try_from(&document)?];
            }
        }
        Ok(reply)
    }
}

/// Returns the stages of rows in an order, after a row.
fn after(pipeline: &[Document], last: Option<&RawDocument>) -> Vec<Document> {
    let mut stages = pipeline.to_vec();
    if let Some(last) = last {
        let last = value(last, POSITION).unwrap_or(Bson::Null);
        let is_after = doc! { "$gt": [format!("${POSITION}"), { "$literal": last }] };
        // Before the sort.
        stages.insert(pipeline.len() - 1, doc! { "$match": { "$expr": is_after } });
    }
    stages
}

fn with_changes(mut statement: Document, changes: &Update) -> Document {
    match changes {
        Update::Document(changes) => drop(statement.insert("u", changes)),
        Update::Pipeline(stages) => drop(statement.insert("u", stages)),
        // The variants are all that the driver has today.
        _ => {}
    }
    statement
}

fn read_concern(command: &mut Document, concern: Option<&ReadConcern>) -> Result<()> {
    let concern = concern.cloned().unwrap_or_else(ReadConcern::local);
    command.insert("readConcern", serialize_to_bson(&concern)?);
    Ok(())
}

fn write_concern(command: &mut Document, concern: Option<&WriteConcern>) -> Result<()> {
    let concern = concern.map(serialize_to_bson).transpose()?;
    if let Some(concern) = concern.filter(|concern| *concern != Bson::Document(Document::new())) {
        command.insert("writeConcern", concern);
    }
    Ok(())
}
