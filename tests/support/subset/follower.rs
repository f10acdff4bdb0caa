//! Programs that write reviews without the repository.

use futures::TryStreamExt;
use mongo_patterns::subset::{Finding, Followed};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, Timestamp, doc};

use crate::common::all;
use crate::subset::*;

pub const NAME: &str = "reviews";

/// Returns a repository over products from 1 to a number, with a clear recorder.
pub async fn followed(db: &TestDatabase, parents: i32) -> Products {
    let products = products(db).await;
    for id in 2..=parents {
        add_product(db, id).await;
    }
    products
}

/// Runs a follower that stores pre-images until it has caught up.
pub async fn catch_up(products: &Products) -> Followed {
    let follow = products.follow(NAME).enable_pre_images();
    follow.run_until_current().await.unwrap()
}

/// Does what [`followed`] does, then runs a follower, and then this number of writes without the repository.
pub async fn behind(db: &TestDatabase, parents: i32, writes: u64) -> Products {
    let products = followed(db, parents).await;
    catch_up(&products).await;
    write_plainly(&reviews(db), parents, 0, writes).await;
    db.recorder().clear();
    products
}

/// Inserts reviews, updates the fields of the order, deletes reviews, and moves them to other parents, by the driver.
pub async fn write_plainly(reviews: &Collection<Document>, parents: i32, writer: i32, writes: u64) {
    let mut random = Random(20_261_121 + writer as u64);
    let mut mine: Vec<(i32, i32)> = Vec::new();
    for n in 0..writes as i32 {
        let what = random.below(10);
        let parent = random.below(parents as u64) as i32 + 1;
        let day = day(random.below(60) as i64);
        if what < 5 || mine.is_empty() {
            let id = writer * 1_000_000 + n;
            let new = doc! { "review_id": id, "product_id": parent, "review_author": "Pablo", "published_date": day };
            reviews.insert_one(new).await.unwrap();
            mine.push((parent, id));
            continue;
        }
        let position = random.below(mine.len() as u64) as usize;
        let one = doc! { "product_id": mine[position].0, "review_id": mine[position].1 };
        if what < 7 {
            let edit = doc! { "$set": { "published_date": day, "review_author": format!("w{writer}-{n}") } };
            assert_eq!(reviews.update_one(one, edit).await.unwrap().modified_count, 1);
        } else if what < 8 {
            assert_eq!(reviews.delete_one(one).await.unwrap().deleted_count, 1);
            mine.swap_remove(position);
        } else {
            let moved = doc! { "$set": { "product_id": parent, "review_author": format!("w{writer}-{n}") } };
            assert_eq!(reviews.update_one(one, moved).await.unwrap().modified_count, 1);
            mine[position].0 = parent;
        }
    }
}

/// Returns the time of the server's last write.
pub async fn operation_time(db: &TestDatabase) -> Timestamp {
    let find = doc! { "find": "review", "limit": 1, "singleBatch": true };
    let database = db.plain_client().database(db.database().name());
    match database.run_command(find).await.unwrap().get("operationTime") {
        Some(Bson::Timestamp(time)) => *time,
        other => panic!("{other:?}"),
    }
}

/// Checks each subset by the test's own computation, and by `verify`.
pub async fn assert_right(db: &TestDatabase, products: &Products, context: &str) {
    assert_eq!(wrong(&product(db), &reviews(db), 10).await, [], "{context}");
    let found: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
    assert_eq!(found, [], "{context}");
}

/// Returns the number of stale products.
pub async fn count_wrong(db: &TestDatabase) -> usize {
    wrong(&product(db), &reviews(db), 10).await.len()
}

/// Returns the catalog.
pub fn catalog(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("mongo_patterns")
}

/// Returns the records of the followers.
pub async fn records(db: &TestDatabase) -> Vec<Document> {
    let mut records = all(&catalog(db)).await;
    records.retain(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "follower");
    records
}
