//! Buckets of orders with figures.

use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::Document;

use crate::common::*;

pub type Orders = BucketRepository<u32, Document>;

pub fn plain_builder(db: &TestDatabase) -> BucketRepositoryBuilder<u32, Document> {
    Orders::builder(db.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .item_id_field("n")
}

pub async fn prepared(db: &TestDatabase, builder: BucketRepositoryBuilder<u32, Document>) -> Orders {
    let orders = builder.build().unwrap();
    on_shards(db, orders.ensure_sharded()).await;
    orders.ensure_indexes().replace_settings().await.unwrap();
    db.recorder().clear();
    orders
}
