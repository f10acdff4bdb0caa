//! Steps that leave a trace: a document for each of their runs.

use futures::TryStreamExt;
use mongo_patterns::schema::Migrations;
use mongo_patterns::{Error, ErrorKind, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};
use mongodb::{ClientSession, Collection, Database};

use crate::common::{ends, pause};

/// The work of a plain step.
pub async fn trace(database: &Database, step: &str) -> Result<()> {
    database
        .collection::<Document>("trace")
        .insert_one(doc! { "step": step })
        .await?;
    Ok(())
}

/// The work of a step in a transaction.
pub async fn trace_in(database: &Database, session: &mut ClientSession, step: &str) -> Result<()> {
    let trace = database.collection::<Document>("trace");
    trace.insert_one(doc! { "step": step }).session(session).await?;
    Ok(())
}

/// Returns the steps that left a trace, in their order.
pub async fn traces(db: &TestDatabase) -> Vec<String> {
    let trace = db.plain_collection::<Document>("trace");
    let found = trace.find(doc! {}).sort(doc! { "$natural": 1 });
    let found: Vec<Document> = found.await.unwrap().try_collect().await.unwrap();
    found
        .iter()
        .map(|trace| trace.get_str("step").unwrap().to_owned())
        .collect()
}

/// Returns the names of the recorded steps.
pub async fn recorded(db: &TestDatabase) -> Vec<String> {
    let record = record(db).await.unwrap_or_default();
    let steps = record.get_array("steps").cloned().unwrap_or_default();
    let name = |step: &mongodb::bson::Bson| step.as_document().unwrap().get_str("name").unwrap().to_owned();
    steps.iter().map(name).collect()
}

pub async fn record(db: &TestDatabase) -> Option<Document> {
    let catalog = db.plain_collection::<Document>("mongo_patterns");
    catalog.find_one(doc! { "_id.kind": "steps" }).await.unwrap()
}

/// Adds a plain step that leaves a trace.
pub fn plain(migrations: Migrations, name: &'static str) -> Migrations {
    migrations.step(name, async move |database| trace(&database, name).await)
}

/// Adds a step in a transaction that leaves a trace.
pub fn in_transaction(migrations: Migrations, name: &'static str) -> Migrations {
    migrations.step_in_transaction(name, async move |database, session| {
        trace_in(&database, session, name).await
    })
}

/// Returns a list of plain steps.
pub fn list(database: &Database, names: &[&'static str]) -> Migrations {
    names
        .iter()
        .fold(Migrations::new(database), |list, name| plain(list, name))
}

/// Waits until a collection has a document that matches the filter.
pub async fn until_found(collection: Collection<Document>, filter: Document) {
    let found = async {
        while collection.find_one(filter.clone()).await.unwrap().is_none() {
            pause().await;
        }
    };
    ends("a document", found).await;
}

/// Checks that an error has a kind and names a step.
#[track_caller]
pub fn assert_error(error: &Error, kind: ErrorKind, step: Option<&str>) {
    assert_eq!((error.kind(), error.step()), (kind, step), "{error:?}");
    assert_eq!(
        (error.pattern(), error.operation()),
        (Some("schema"), Some("run")),
        "{error:?}"
    );
}
