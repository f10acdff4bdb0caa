//! Pages beside writers that insert, change and delete documents of the same ranks.

use futures::future::try_join_all;
use mongo_patterns::pages::Pages;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::support::*;
use support::pace::Pace;
use support::random::random;

const STAY: i32 = 300;
const WRITERS: i32 = 4;
const LIMIT: u32 = 13;
/// The writes that begin beside each page.
const WRITES: usize = 6;

fn rank(n: i32) -> Bson {
    match n % 5 {
        0 => Bson::Null,
        1 => format!("s{}", n % 3).into(),
        _ => (n % 7).into(),
    }
}

/// Inserts documents among those that stay, changes their ranks, and deletes them.
async fn write(db: &TestDatabase, writer: i32, pace: &Pace) -> mongodb::error::Result<()> {
    let orders = stored(db);
    let (mut n, mut random) = (0, random(writer));
    while pace.next().await {
        // Between the `_id`s of those that stay.
        let id = f64::from(random.i32(0..STAY)) + f64::from(writer + 1) / 10.0;
        let (id, rank) = (doc! { "_id": id }, rank(random.i32(..)));
        if n % 3 == 2 {
            orders.delete_one(id).await?;
        } else {
            let set = doc! { "$set": { "tenant": 1, "rank": rank } };
            orders.update_one(id, set).upsert(true).await?;
        }
        n += 1;
    }
    Ok(())
}

/// Reads all pages forward, and then backward from the last one. Returns the `_id`s of the documents that stay.
async fn walk(pages: &Pages<Document>, pace: &Pace) -> [Vec<Bson>; 2] {
    let (mut forward, mut backward, mut after) = (Vec::new(), Vec::new(), None);
    let mut before = loop {
        pace.keep(WRITES).await;
        let page = pages.list().limit(LIMIT).after(after).page().await.unwrap();
        forward.extend(staying(&page.items));
        after = page.next;
        if after.is_none() {
            backward.extend(staying(&page.items));
            break page.previous;
        }
    };
    while before.is_some() {
        pace.keep(WRITES).await;
        let page = pages.list().limit(LIMIT).before(before).page().await.unwrap();
        backward.splice(0..0, staying(&page.items));
        before = page.previous;
    }
    [forward, backward]
}

fn staying(documents: &[Document]) -> Vec<Bson> {
    let ids = ids(documents).into_iter();
    ids.filter(|id| matches!(id, Bson::Int32(_))).collect()
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_document_that_does_not_change_is_on_one_page() {
    testkit::run(async |db| {
        plant(db, (0..STAY).map(|n| doc! { "_id": n, "tenant": 1, "rank": rank(n) })).await;
        let pages = ready(db, doc! { "tenant": 1 }, doc! { "rank": -1 }).await;
        let expected = sorted(db, doc! { "tenant": 1 }, doc! { "rank": -1 }).await;
        let pace = Pace::of(WRITES);
        let writers = try_join_all((0..WRITERS).map(|writer| write(db, writer, &pace)));
        let readers = async {
            for _ in 0..3 {
                for found in walk(&pages, &pace).await {
                    assert!(found == expected, "{} of {}", found.len(), expected.len());
                }
            }
            pace.end();
        };
        let (written, ()) = tokio::join!(writers, readers);
        written.unwrap();
        assert!(stored(db).count_documents(doc! {}).await.unwrap() > u64::try_from(STAY).unwrap());
    })
    .await;
}
