//! Tests of the status of collections that do not exist, or are not what the catalog says.

use std::time::Duration;

use mongo_patterns_archive::Archive;
use mongo_patterns_core::Repository;
use mongo_patterns_embedded::EmbeddedRepository;
use mongo_patterns_history::HistoryRepository;
use mongo_patterns_schema::SchemaRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Collection, Database};
use serde_json::Value;

use crate::status::{follow, needs, status, texts};
use crate::support::*;

fn stored(db: &TestDatabase, name: &str) -> Collection<Document> {
    db.plain_collection(name)
}

async fn drop_all(db: &TestDatabase, collections: &[&str]) {
    for name in collections {
        stored(db, name).drop().await.unwrap();
    }
}

/// Checks that these collections are lost, and nothing else is advised.
#[track_caller]
fn are_lost(found: &[Value], lost: &[(&str, &str)]) {
    let expected = lost
        .iter()
        .map(|(name, pattern)| format!("the collection {name} of the {pattern} pattern does not exist"));
    assert_eq!(texts(found), expected.collect::<Vec<_>>(), "{found:?}");
    for need in found {
        assert_eq!(need["commands"], json!([]), "{need}");
        assert!(need["advice"].as_str().unwrap().starts_with("restore it"), "{need}");
    }
}

fn cold(db: &TestDatabase) -> Database {
    db.plain_client().database(&format!("{}_cold", db.database().name()))
}

async fn set_up_archive(db: &TestDatabase) {
    let invoices = Archive::<Document>::builder(stored(db, "invoices"), cold(db).collection::<Document>("archived"));
    let invoices = invoices.age_field("date").older_than(Duration::from_secs(1));
    invoices.build().unwrap().ensure_indexes().await.unwrap();
}

/// Also a second collection without documents: its indexes have created it.
#[tokio::test]
async fn a_second_collection_that_was_dropped_is_a_loss_and_lacks_no_indexes() {
    testkit::run(async |db: &TestDatabase| {
        insert(db, "sales", [doc! { "_id": 1, "customers": [1] }]).await;
        let sales = "outlier --collection sales --extras-collection extra_sales --array customers indexes --create";
        ran(on(db).args(sales.split(' '))).ok();
        let policies = HistoryRepository::<Document>::builder(stored(db, "policies"), stored(db, "revisions"));
        policies
            .id_field("policyId")
            .build()
            .unwrap()
            .ensure_indexes()
            .await
            .unwrap();
        set_up_archive(db).await;
        assert_eq!(needs(db, 0), Vec::<Value>::new());
        let cold = cold(db);
        cold.drop().await.unwrap();
        drop_all(db, &["extra_sales", "revisions"]).await;
        let found = needs(db, 1);
        let archived = format!("{}.archived", cold.name());
        are_lost(
            &found,
            &[
                (&archived, "archive"),
                ("revisions", "history"),
                ("extra_sales", "outlier"),
            ],
        );
        let shown = status(db, &[]);
        shown.fits_80_columns();
        shown.shows(["    mongo-patterns outlier --collection sales indexes --create\n"]);
        // Without documents, the command is right.
        ran(on(db).args(["outlier", "--collection", "sales", "indexes", "--create"])).ok();
        assert_eq!(needs(db, 1).len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_collection_without_indexes_or_of_an_incomplete_entry_can_be_lost_too() {
    testkit::run(async |db: &TestDatabase| {
        let patrons = EmbeddedRepository::<Document, Document>::builder(stored(db, "patron"));
        patrons
            .children_field("addresses")
            .build()
            .unwrap()
            .ensure_indexes()
            .await
            .unwrap();
        crate::reference::filled(db).await;
        update(
            db,
            "mongo_patterns",
            doc! {},
            doc! { "$set": { "verified": { "findings": 0_i64, "at": DateTime::now() } } },
        )
        .await;
        are_lost(&needs(db, 1), &[("patron", "embedded")]);
        insert(db, "patron", [doc! { "_id": 1, "addresses": [] }]).await;
        assert_eq!(needs(db, 0), Vec::<Value>::new());
        drop_all(db, &["customers"]).await;
        are_lost(&needs(db, 1), &[("customers", "reference")]);
        let of_reference = doc! { "_id.kind": "reference" };
        let incomplete = doc! { "$unset": { "indexes": 1, "owns": 1 } };
        update(db, "mongo_patterns", of_reference.clone(), incomplete).await;
        are_lost(&needs(db, 1), &[("customers", "reference")]);
        update(db, "mongo_patterns", of_reference, doc! { "$set": { "format": 99 } }).await;
        let found = needs(db, 1);
        are_lost(&found[..1], &[("customers", "reference")]);
        assert!(texts(&found)[1].starts_with("a later version"), "{found:?}");
    })
    .await;
}

#[tokio::test]
async fn a_view_needs_attention_and_the_rest_is_shown() {
    testkit::run(async |db: &TestDatabase| {
        fill(db, 3, 30).await;
        bucket(db, &["migrate"]).ok();
        drop_all(db, &["trades"]).await;
        let database = db.plain_client().database(db.database().name());
        let view = database
            .create_collection("trades")
            .view_on("flat".to_owned())
            .pipeline(vec![doc! { "$match": {} }]);
        view.await.unwrap();
        let found = needs(db, 1);
        assert_eq!(
            texts(&found),
            ["trades is a view, and the bucket pattern needs a plain collection"]
        );
        status(db, &[]).shows(["view", "not managed: flat"]);
    })
    .await;
}

#[tokio::test]
async fn the_index_of_versions_is_created_by_the_command_that_is_shown() {
    testkit::run(async |db: &TestDatabase| {
        let contacts = SchemaRepository::<Document>::builder(stored(db, "contacts")).newest(3);
        contacts.build().unwrap().ensure_indexes().await.unwrap();
        stored(db, "contacts").drop_indexes().await.unwrap();
        let found = needs(db, 1);
        assert_eq!(
            found[0]["commands"],
            json!(["mongo-patterns schema indexes --create contacts"])
        );
        follow(db, &found[0]);
        assert_eq!(needs(db, 0), Vec::<Value>::new());
    })
    .await;
}

#[tokio::test]
async fn printed_commands_name_the_database_that_was_given() {
    testkit::run(async |db: &TestDatabase| {
        fill(db, 3, 30).await;
        bucket(db, &["--collection=-r f", "migrate"]).ok();
        stored(db, "-r f").drop_indexes().await.unwrap();
        let name = db.database().name();
        let mut given = program();
        let given = given
            .env("MONGODB_URI", db.server().uri())
            .args(["--db", name, "status"]);
        let shown = ran(given);
        shown.shows([&format!(
            "mongo-patterns --db {name} bucket --collection='-r f' indexes --create"
        )]);
    })
    .await;
}

#[tokio::test]
async fn an_index_that_a_longer_one_serves_is_not_missing() {
    testkit::run(async |db: &TestDatabase| {
        insert(db, "invoices", [doc! { "date": DateTime::now() }]).await;
        set_up_archive(db).await;
        let needed = |or_longer: bool| doc! { "$push": { "indexes": { "collection": "invoices", "name": "book_id_1", "or_longer": or_longer } } };
        update(db, "mongo_patterns", doc! {}, needed(true)).await;
        index(db, "invoices", doc! { "book_id": 1, "seq": 1 }).await;
        assert_eq!(needs(db, 0), Vec::<Value>::new());
        update(db, "mongo_patterns", doc! {}, needed(false)).await;
        let found = needs(db, 1);
        assert_eq!(texts(&found), ["the archive pattern lacks indexes: book_id_1 of invoices"]);
        cold(db).drop().await.unwrap();
    })
    .await;
}
