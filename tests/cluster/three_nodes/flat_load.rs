//! Moves from flat collections to buckets, one after the other, each started again until it is done.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use mongo_patterns::bucket::{BucketRepository, Migrated};
use mongo_patterns::{Error, ErrorKind};
use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;
use mongodb::{Collection, Database, IndexModel};

use super::calls::{Load, Told};
use super::stage::ask;
use crate::common::support::{SECOND, at};

const ITEMS: i64 = 300;
const CUSTOMERS: i64 = 6;
/// Each chunk is one key, so a move is many commands.
const CHUNK: u64 = 50;

/// Moves until the load stops. Returns how many moves were done, and how many of them had to be gone on with. None on a
/// server that cannot move; `crate::bucket::migration` has its error.
pub async fn move_again_and_again(load: Arc<Load>, database: Database) -> (u64, u64) {
    let (mut done, mut resumed) = (0, 0);
    let server = ask(&database.client().database("admin"), doc! { "buildInfo": 1 }).await;
    if !can_move(server.get_str("version").unwrap()) {
        return (done, resumed);
    }
    while load.goes_on().await {
        let (flat, buckets) = (
            database.collection::<Document>(&format!("flat_{done}")),
            database.collection::<Document>(&format!("moved_{done}")),
        );
        fill(&load, &flat).await;
        let trades = BucketRepository::<i64, Document>::builder(buckets.clone())
            .key_field("customerId")
            .items_field("history")
            .time_field("date")
            .build()
            .unwrap();
        let mut attempt = 1;
        let moved: Migrated = loop {
            let told = load
                .call(
                    "bucket migrate_from_flat",
                    attempt,
                    trades.migrate_from_flat(&flat).chunk_items(CHUNK),
                )
                .await;
            match told {
                Told::Done(moved) => break moved,
                Told::Refused(kind) => assert!(
                    matches!(
                        kind,
                        ErrorKind::Driver | ErrorKind::ServerSelection | ErrorKind::Contention
                    ),
                    "{kind:?}"
                ),
                Told::Unknown => {}
            }
            attempt += 1;
            load.goes_on().await;
        };
        assert_eq!((moved.items, moved.keys), (ITEMS as u64, CUSTOMERS as u64));
        check(&load, &buckets).await;
        done += 1;
        resumed += u64::from(attempt > 1);
        for collection in [flat, buckets] {
            // One that is left disturbs nobody.
            drop(collection.drop().await);
        }
    }
    (done, resumed)
}

/// MongoDB 4.4 cannot.
pub fn can_move(version: &str) -> bool {
    !version.starts_with("4.")
}

/// The flat documents, as a majority has them.
async fn fill(load: &Load, flat: &Collection<Document>) {
    let documents: Vec<Document> = (0..ITEMS)
        .map(|n| doc! { "_id": n, "customerId": n % CUSTOMERS, "n": n, "date": at(SECOND + n / 60) })
        .collect();
    let index = IndexModel::builder().keys(doc! { "customerId": 1, "date": 1 }).build();
    loop {
        let filled = async {
            flat.create_index(index.clone()).await?;
            // Those that are there are refused.
            drop(flat.insert_many(&documents).ordered(false).await);
            let count = flat.count_documents(doc! {}).read_concern(ReadConcern::majority());
            Ok::<_, Error>(count.await? == ITEMS as u64)
        };
        if let Told::Done(true) = load.read("plain insert_many", filled).await {
            return;
        }
        load.goes_on().await;
    }
}

/// Each item is in the buckets once.
async fn check(load: &Load, buckets: &Collection<Document>) {
    let stored = loop {
        let read = async { Ok::<Vec<Document>, Error>(buckets.find(doc! {}).await?.try_collect().await?) };
        if let Told::Done(stored) = load.read("plain find", read).await {
            break stored;
        }
        load.goes_on().await;
    };
    let items = stored.iter().flat_map(|bucket| bucket.get_array("history").unwrap());
    let items: Vec<i64> = items
        .map(|item| item.as_document().unwrap().get_i64("n").unwrap())
        .collect();
    assert_eq!(items.len(), ITEMS as usize);
    assert_eq!(items.into_iter().collect::<BTreeSet<i64>>().len(), ITEMS as usize);
}
