//! Migrations from flat collections to buckets, one after the other, each retried until it is finished.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use mongo_patterns::bucket::{BucketRepository, Migrated};
use mongo_patterns::{Error, ErrorKind};
use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;
use mongodb::{Collection, Database, IndexModel};

use super::calls::{Load, Outcome};
use support::common::{SECOND, at};

const ITEMS: i64 = 300;
const CUSTOMERS: i64 = 6;
/// Each chunk is one key, so a migration is many commands.
const CHUNK: u64 = 50;

/// Migrates until the load stops. Returns how many migrations were finished, and how many of them were resumed.
pub async fn migrate_repeatedly(load: Arc<Load>, database: Database) -> (u64, u64) {
    let (mut done, mut resumed) = (0, 0);
    while load.continues().await {
        let [flat, buckets] =
            ["flat", "migrated"].map(|name| database.collection::<Document>(&format!("{name}_{done}")));
        fill(&load, &flat).await;
        let trades = BucketRepository::<i64, Document>::builder(buckets.clone())
            .key_field("customerId")
            .items_field("history")
            .time_field("date")
            .build()
            .unwrap();
        let mut attempt = 1;
        let migrated: Migrated = loop {
            let migrate = trades.migrate_from_flat(&flat).chunk(CHUNK);
            match load.call("bucket migrate_from_flat", attempt, migrate).await {
                Outcome::Done(migrated) => break migrated,
                Outcome::Refused(ErrorKind::Driver | ErrorKind::ServerSelection | ErrorKind::Contention)
                | Outcome::Unknown => {}
                Outcome::Refused(kind) => panic!("{kind:?}"),
            }
            attempt += 1;
            load.continues().await;
        };
        assert_eq!((migrated.items, migrated.keys), (ITEMS as u64, CUSTOMERS as u64));
        check(&load, &buckets).await;
        done += 1;
        resumed += u64::from(attempt > 1);
        for collection in [flat, buckets] {
            // A collection that remains does no harm.
            drop(collection.drop().await);
        }
    }
    (done, resumed)
}

/// Inserts the flat documents, with the read concern `majority`.
async fn fill(load: &Load, flat: &Collection<Document>) {
    let documents: Vec<Document> = (0..ITEMS)
        .map(|n| doc! { "_id": n, "customerId": n % CUSTOMERS, "n": n, "date": at(SECOND + n / 60) })
        .collect();
    let index = IndexModel::builder().keys(doc! { "customerId": 1, "date": 1 }).build();
    loop {
        let filled = async {
            flat.create_index(index.clone()).await?;
            // Documents that exist are refused.
            drop(flat.insert_many(&documents).ordered(false).await);
            let count = flat.count_documents(doc! {}).read_concern(ReadConcern::majority());
            Ok::<_, Error>(count.await? == ITEMS as u64)
        };
        if let Outcome::Done(true) = load.read("plain insert_many", filled).await {
            return;
        }
        load.continues().await;
    }
}

/// Checks that each item is in the buckets once.
async fn check(load: &Load, buckets: &Collection<Document>) {
    let stored = loop {
        let read = async { Ok::<Vec<Document>, Error>(buckets.find(doc! {}).await?.try_collect().await?) };
        if let Outcome::Done(stored) = load.read("plain find", read).await {
            break stored;
        }
        load.continues().await;
    };
    let items = stored.iter().flat_map(|bucket| bucket.get_array("history").unwrap());
    let items = items.map(|item| item.as_document().unwrap().get_i64("n").unwrap());
    let items: Vec<i64> = items.collect();
    assert_eq!(items.len(), ITEMS as usize);
    assert_eq!(items.into_iter().collect::<BTreeSet<i64>>().len(), ITEMS as usize);
}
