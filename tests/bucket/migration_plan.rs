//! A plan lists the commands that a migration sends.

use mongo_patterns::bucket::Migrated;
use mongo_patterns_core::{Planned, PlannedCommand, Progress};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use crate::bucket::migration::*;
use crate::common::support::*;

/// The essence of a command: without the id of this call, and without fields that the driver adds or omits.
pub fn essence(command: &Document) -> Document {
    let mut essence = Document::new();
    let name = command.keys().next().unwrap();
    essence.insert(name, command.get(name));
    for field in [
        "pipeline",
        "documents",
        "filter",
        "sort",
        "skip",
        "limit",
        "projection",
        "hint",
        "indexes",
        "collation",
        "allowDiskUse",
    ] {
        if let Some(value) = command.get(field) {
            essence.insert(field, as_int64(value));
        }
    }
    for delete in command
        .get_array("deletes")
        .into_iter()
        .flatten()
        .filter_map(Bson::as_document)
    {
        essence.insert("q", as_int64(delete.get("q").unwrap()));
        essence.insert("delete_limit", as_int64(delete.get("limit").unwrap()));
    }
    for update in command
        .get_array("updates")
        .into_iter()
        .flatten()
        .filter_map(Bson::as_document)
    {
        essence.insert("q", as_int64(update.get("q").unwrap()));
        essence.insert("u", as_int64(update.get("u").unwrap()));
        essence.insert("upsert", update.get_bool("upsert").unwrap_or(false));
    }
    essence
}

/// Numbers of one type, and object ids of one value.
fn as_int64(value: &Bson) -> Bson {
    match value {
        Bson::Int32(number) => i64::from(*number).into(),
        Bson::ObjectId(_) => ObjectId::from_bytes([0; 12]).into(),
        Bson::Array(values) => values.iter().map(as_int64).collect::<Vec<_>>().into(),
        Bson::Document(document) => {
            let fields = document.iter().map(|(name, value)| (name.clone(), as_int64(value)));
            fields.collect::<Document>().into()
        }
        other => other.clone(),
    }
}

fn check(db: &TestDatabase, planned: &[PlannedCommand]) {
    let sent: Vec<Document> = db
        .recorder()
        .commands()
        .iter()
        .map(|sent| essence(&sent.essence()))
        .collect();
    let planned: Vec<Document> = planned.iter().map(|planned| essence(&planned.command)).collect();
    for (sent, planned) in sent.iter().zip(&planned) {
        assert_eq!(sent, planned);
    }
    assert_eq!(sent.len(), planned.len());
}

/// Returns the number of chunks that a plan migrates.
pub fn chunks_of(planned: &Planned<Migrated>) -> usize {
    let chunks = planned.commands.iter();
    chunks.filter(|planned| planned.purpose == "migrate a chunk").count()
}

#[tokio::test]
async fn a_plan_into_buckets_lists_the_sent_commands_and_writes_nothing() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
        fill(db, &documents(&keys, 25)).await;
        let trades = histories::<u32>(db).build().unwrap();
        let source = db.collection::<Document>("flat");
        let planned = trades.migrate_from_flat(&source).chunk(30).plan().await.unwrap();
        assert_eq!(
            (planned.migrated.items, chunks_of(&planned), planned.migrated.resumed),
            (100, 3, false)
        );
        nothing_is_stored(db).await;
        assert!(planned.commands.iter().filter(|planned| planned.writes).count() >= 6);

        db.recorder().clear();
        trades.migrate_from_flat(&source).chunk(30).await.unwrap();
        check(db, &planned.commands);

        let again = trades.migrate_from_flat(&source).plan().await.unwrap();
        assert!(again.migrated.keys == 4 && again.commands.iter().all(|planned| !planned.writes));
        db.recorder().clear();
        trades.migrate_from_flat(&source).await.unwrap();
        check(db, &again.commands);
    })
    .await;
}

#[tokio::test]
async fn a_plan_into_a_flat_collection_lists_the_sent_commands() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for n in 0..35 {
            trades.append(&123, &spread(n)).await.unwrap();
        }
        let target = db.collection::<Document>("flat");
        let planned = trades.migrate_to_flat(&target).chunk(20).plan().await.unwrap();
        assert_eq!(all(&flat(db)).await, []);
        db.recorder().clear();
        trades.migrate_to_flat(&target).chunk(20).await.unwrap();
        check(db, &planned.commands);
    })
    .await;
}

#[tokio::test]
async fn a_plan_resumes_an_interrupted_migration() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
        fill(db, &documents(&keys, 25)).await;
        let trades = histories::<u32>(db).build().unwrap();
        let source = db.collection::<Document>("flat");
        {
            let migration = trades.migrate_from_flat(&source).chunk(30);
            let (sender, broken_off) = tokio::sync::oneshot::channel();
            let mut sender = Some(sender);
            let migration = migration.on_progress(move |_| {
                if let Some(sender) = sender.take() {
                    sender.send(()).unwrap();
                }
            });
            tokio::select! {
                biased;
                _ = broken_off => {}
                _ = migration.into_future() => panic!("the migration was not interrupted"),
            }
        }
        let planned = trades.migrate_from_flat(&source).chunk(30).plan().await.unwrap();
        assert!(planned.migrated.resumed && chunks_of(&planned) < 3, "{planned:?}");
        let mut before = None;
        let migrated = trades
            .migrate_from_flat(&source)
            .chunk(30)
            .on_progress(|at| before = Some(at.before))
            .await;
        assert!(migrated.unwrap().resumed);
        assert!(before.is_some_and(|before| before >= 30), "{before:?}");
    })
    .await;
}

#[tokio::test]
async fn a_plan_of_embedded_children_lists_the_sent_commands() {
    testkit::run(async |db| {
        use mongo_patterns::embedded::EmbeddedRepository;
        db.plain_collection("patron")
            .insert_one(doc! { "_id": "joe" })
            .await
            .unwrap();
        let address = db.plain_collection::<Document>("address");
        address
            .insert_one(doc! { "_id": 1, "id": "home", "patron_id": "joe" })
            .await
            .unwrap();
        let by_patron = mongodb::IndexModel::builder().keys(doc! { "patron_id": 1 }).build();
        address.create_index(by_patron).await.unwrap();
        let patrons = EmbeddedRepository::<Document, Document>::builder(db.collection::<Document>("patron"));
        let patrons = patrons
            .children_field("addresses")
            .child_id_field("id")
            .build()
            .unwrap();
        let source = db.collection::<Document>("address");
        let planned = patrons.migrate_from_references(&source, "patron_id").plan().await;
        let planned = planned.unwrap();
        assert_eq!((planned.migrated.children, planned.migrated.orphans), (1, 0));
        assert_eq!(all(&db.plain_collection("patron")).await, [doc! { "_id": "joe" }]);
        db.recorder().clear();
        patrons.migrate_from_references(&source, "patron_id").await.unwrap();
        check(db, &planned.commands);
    })
    .await;
}

#[tokio::test]
async fn verify_and_repair_report_their_progress() {
    testkit::run(async |db| {
        use futures::TryStreamExt;
        let trades = trades(db).await;
        plain(db)
            .insert_many((0..30).map(|n| full_bucket(SECOND + n)))
            .await
            .unwrap();
        let (mut verified, mut repaired) = (Progress::default(), Progress::default());
        let findings = trades.verify().on_progress(|seen| verified = seen).stream();
        assert_eq!(findings.try_collect::<Vec<_>>().await.unwrap(), []);
        let keys = trades.repair().dry_run().on_progress(|seen| repaired = seen).stream();
        assert_eq!(keys.try_collect::<Vec<_>>().await.unwrap(), []);
        for seen in [verified, repaired] {
            assert_eq!((seen.done, seen.total), (30, 30));
        }
    })
    .await;
}
