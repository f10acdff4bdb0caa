//! A follower that is interrupted, fails, or loses the server: the next one resumes, and misses nothing.

use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Followed;
use mongo_patterns_testkit::{self as testkit, FailPoint, ReplicaSet};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, WriteConcern};
use tokio::sync::watch;

use crate::subset::follower_support::*;
use crate::subset::support::*;

/// It can be stopped while it waits for the server.
#[tokio::test]
async fn a_follower_without_a_server_can_be_stopped() {
    testkit::run(async |db| {
        let products = behind(db, 1, 5).await;
        let fault = FailPoint::on(&["aggregate"]).error_code(262).enable(db).await;
        let stop = async {
            // The third attempt to open the stream.
            let aggregates = || db.recorder().names().iter().filter(|name| *name == "aggregate").count();
            while aggregates() < 3 {
                let sent = db.recorder().round_trips();
                db.recorder().sent(sent + 1).await;
            }
        };
        let followed = products.follow(NAME).until(stop).await.unwrap();
        fault.disable().await;
        assert_eq!(followed.changes, 0);
        assert_eq!(products.follow(NAME).run_until_current().await.unwrap().changes, 5);
    })
    .await;
}

/// The primary of three nodes is killed while a program writes and a follower follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn it_survives_the_death_of_the_primary() {
    let mut set = ReplicaSet::start(3).await.unwrap();
    let mut options = ClientOptions::parse(set.uri()).await.unwrap();
    options.write_concern = Some(WriteConcern::majority());
    let database = Client::with_options(options).unwrap().database("test");
    let products: Products = builder(&database).build().unwrap();
    products.ensure_indexes().await.unwrap();
    let (parents, children) = (
        database.collection("product"),
        database.collection::<Document>("review"),
    );
    parents
        .insert_many((1..=10).map(|id| doc! { "_id": id, "name": "Super Widget" }))
        .await
        .unwrap();
    let (up_to, mut reached) = watch::channel(Followed::default());
    let follower = tokio::spawn({
        let products = products.clone();
        async move {
            let report = |at| {
                up_to.send_replace(at);
            };
            products.follow(NAME).enable_pre_images().on_progress(report).await
        }
    });
    if reached.changed().await.is_err() {
        // Older than MongoDB 6.0.
        assert_eq!(follower.await.unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
        return;
    }
    let (next, mut written) = watch::channel(0);
    let writer = tokio::spawn(async move {
        for id in 0..300 {
            let new = mongodb::bson::serialize_to_document(&review_of(id % 10 + 1, id, id.into())).unwrap();
            // A review that is stored although its insert failed is found by its id.
            while let Err(error) = children.insert_one(new.clone()).await {
                if mongo_patterns_core::error::duplicate_key(&error).is_some() {
                    break;
                }
            }
            if id % 3 == 0 {
                let one = doc! { "product_id": id % 10 + 1, "review_id": id };
                while children.delete_many(one.clone()).await.is_err() {}
            }
            next.send_replace(id + 1);
        }
    });
    written.wait_for(|written| *written >= 100).await.unwrap();
    set.kill_primary().await.unwrap();
    writer.await.unwrap();
    let reply = database.run_command(doc! { "ping": 1 }).await.unwrap();
    let last = reply.get_timestamp("operationTime").unwrap();
    let there = reached.wait_for(|at| at.up_to.is_some_and(|up_to| up_to >= last));
    let there = tokio::time::timeout(Duration::from_secs(120), there).await;
    let followed = *there.expect("the follower makes no progress").unwrap();
    assert!(followed.changes >= 400 && followed.repaired == 1, "{followed:?}");
    follower.abort();
    assert_eq!(wrong(&parents, &database.collection("review"), 10).await, []);
}
