//! The plans of the outlier, subset and embedded patterns list the commands that the migrations send, and calls that
//! read whole collections report their progress.

use futures::TryStreamExt;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::{Progress, Repository};
use mongo_patterns_core::PlannedCommand;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use crate::common::support::{all, ends};
use crate::embedded::migration::{addresses, referring};
use crate::embedded::support::stored;
use crate::outlier::support::{again, extra_sales, sales, users};
use crate::subset::support::{Products, builder, product, review_of};

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

/// Returns the commands that were sent, without `getMore`.
fn sent(db: &TestDatabase) -> Vec<Document> {
    let commands = db.recorder().commands();
    let sent = commands.iter().filter(|sent| sent.name != "getMore");
    sent.map(|sent| essence(&sent.essence())).collect()
}

fn planned(commands: &[PlannedCommand]) -> Vec<Document> {
    commands.iter().map(|planned| essence(&planned.command)).collect()
}

fn same(sent: &[Document], planned: &[Document]) {
    for (sent, planned) in sent.iter().zip(planned) {
        assert_eq!(sent, planned);
    }
    assert_eq!(sent.len(), planned.len());
}

/// The server groups documents in no order. Each document has a transaction, which begins with a read of it.
pub fn by_document(commands: Vec<Document>) -> Vec<Document> {
    let begins = |command: &Document| {
        let projection = command.get_document("projection");
        projection.is_ok_and(|projection| projection.contains_key("bytes"))
    };
    let mut transactions: Vec<Vec<Document>> = vec![Vec::new()];
    for command in commands {
        if begins(&command) {
            transactions.push(Vec::new());
        }
        transactions.last_mut().unwrap().push(command);
    }
    transactions[1..].sort_by_key(|transaction| transaction[0].to_string());
    transactions.concat()
}

fn writes(planned: &[PlannedCommand]) -> usize {
    planned.iter().filter(|planned| planned.writes).count()
}

#[tokio::test]
async fn a_plan_of_outliers_lists_every_transaction() {
    testkit::run(async |db| {
        let numbers = [0, 5, 6, 30, 31];
        let books = (0..)
            .zip(numbers)
            .map(|(id, number)| doc! { "_id": id, "customers_purchased": users(0..number) });
        sales(db).insert_many(books).await.unwrap();
        // A smaller threshold, then other overflow documents, then none.
        for (threshold, cap, outliers) in [(5, 10, 3), (10, 20, 3), (100, 20, 2)] {
            let books = again(db, threshold, cap);
            let (before, extras) = (all(&sales(db)).await, all(&extra_sales(db)).await);
            let planned_now = books.migrate_existing().plan().await.unwrap();
            let commands = planned_now.commands;
            assert_eq!((all(&sales(db)).await, all(&extra_sales(db)).await), (before, extras));
            let commits = commands.iter().filter(|planned| planned.on_admin && planned.writes);
            assert_eq!(commits.count(), outliers);
            db.recorder().clear();
            let migrated = books.migrate_existing().concurrency(1).await.unwrap();
            assert_eq!(
                (&migrated, migrated.documents),
                (&planned_now.migrated, outliers as u64)
            );
            same(&by_document(sent(db)), &by_document(planned(&commands)));
        }
        let commands = again(db, 100, 20).migrate_existing().plan().await.unwrap().commands;
        assert_eq!(
            (commands.len(), writes(&commands)),
            (4, 0),
            "the settings are those of the catalog, and the flags are flags"
        );
    })
    .await;
}

/// The commands contain the elements, so a plan of all lists would be the collection in memory. A plan does not wait for the
/// rate either.
#[tokio::test]
async fn a_plan_of_outliers_lists_the_first_hundred_and_counts_all() {
    testkit::run(async |db| {
        let long = (0..130).map(|id| doc! { "_id": id, "customers_purchased": users(0..8) });
        sales(db).insert_many(long).await.unwrap();
        let invalid = doc! { "_id": 500, "customers_purchased": "none" };
        sales(db).insert_one(invalid).await.unwrap();
        let list = db.plain_collection::<Document>("skipped");
        let books = again(db, 5, 10);
        let migration = || books.migrate_existing().skip_invalid(&list);
        let planned = ends("the plan", migration().rate(1).plan()).await.unwrap();
        assert_eq!(planned.migrated.documents, 130);
        let commits = planned
            .commands
            .iter()
            .filter(|planned| planned.on_admin && planned.writes);
        let listed = commits.count();
        assert!((95..=100).contains(&listed), "{listed}");
        assert_eq!(all(&list).await, []);
        assert_eq!(migration().await.unwrap(), planned.migrated);
        assert_eq!(all(&list).await.len(), 1);
        // Now there is an earlier run, whose list is replaced at the end.
        let planned = migration().plan().await.unwrap();
        let last = planned.commands.last().map(|last| last.purpose);
        assert_eq!(last, Some("remove documents from the list that an earlier run skipped"));
    })
    .await;
}

/// The progress counts all documents, including correct ones, and the findings are the same.
#[tokio::test]
async fn calls_that_read_whole_collections_report_their_progress() {
    testkit::run(async |db| {
        let mut reported: Option<Progress> = None;
        let done = |reported: Option<Progress>| reported.map(|at| (at.done, at.total));

        let books = again(db, 5, 10);
        let long = (0..7).map(|id| doc! { "_id": id, "customers_purchased": users(0..if id < 3 { 9 } else { 2 }) });
        sales(db).insert_many(long).await.unwrap();
        let found = books.verify().on_progress(|at| reported = Some(at)).stream();
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert_eq!((found.len(), done(reported)), (3, Some((3, 3))));
        let repaired = books.repair().dry_run().on_progress(|at| reported = Some(at)).stream();
        let repaired: Vec<_> = repaired.try_collect().await.unwrap();
        assert_eq!((repaired.len(), done(reported)), (3, Some((3, 3))));
        books
            .migrate_existing()
            .on_progress(|at| reported = Some(at))
            .await
            .unwrap();
        assert_eq!(done(reported), Some((3, 3)));

        let products: Products = builder(db.database()).build().unwrap();
        let parents = (1..=2500).map(|id| doc! { "_id": id, "name": "Super Widget" });
        product(db).insert_many(parents).await.unwrap();
        products.ensure_indexes().await.unwrap();
        let children = (0..90).map(|n| review_of(1 + n % 9, n, n.into()));
        db.plain_collection("review").insert_many(children).await.unwrap();
        let without_progress: Vec<_> = products.verify().stream().try_collect().await.unwrap();
        let found = products.verify().on_progress(|at| reported = Some(at)).stream();
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert_eq!((found.len(), done(reported)), (9, Some((2500, 2500))));
        assert_eq!(found, without_progress);
        let repaired = products.repair().on_progress(|at| reported = Some(at)).stream();
        let repaired: Vec<_> = repaired.try_collect().await.unwrap();
        assert_eq!((repaired.len(), done(reported)), (9, Some((2500, 2500))));

        let patrons = EmbeddedRepository::<Document, Document>::builder(db.collection::<Document>("patron"))
            .children_field("addresses")
            .build()
            .unwrap();
        let parents = (0..2500).map(|id| match id % 1000 {
            7 => doc! { "_id": id },
            _ => doc! { "_id": id, "addresses": [{ "_id": 1 }] },
        });
        stored(db).insert_many(parents).await.unwrap();
        let without_progress: Vec<_> = patrons.verify().stream().try_collect().await.unwrap();
        let found = patrons.verify().on_progress(|at| reported = Some(at)).stream();
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert_eq!((found.len(), done(reported)), (3, Some((2500, 2500))));
        assert_eq!(found, without_progress);
        let references = (0..1500).map(|id| referring(id, id + 1005));
        addresses(db).insert_many(references).await.unwrap();
        let source = db.collection::<Document>("address");
        let orphans = patrons
            .orphans(&source, "patron_id")
            .on_progress(|at| reported = Some(at));
        let orphans: Vec<_> = orphans.stream().try_collect().await.unwrap();
        assert_eq!((orphans.len(), done(reported)), (5, Some((1500, 1500))));
    })
    .await;
}
