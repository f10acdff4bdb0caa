//! The server ends the plan of a command, for example because its index was dropped.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, FailPoint, Mongod, MongodOptions};
use mongodb::Client;
use mongodb::bson::{Document, doc};

use super::router::assert_unknown;
use support::bucket::trades_of;
use support::common::*;

/// The plan of a write was killed, by a failover or by another index, perhaps after the write of its document. With a full
/// cache it was not.
#[tokio::test]
async fn the_outcome_of_a_killed_plan_is_unknown_and_a_full_cache_is_transient_for_one_document() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for code in [175, 365] {
            let fault = FailPoint::on(&["update", "delete"]).error_code(code).enable(db).await;
            let one = trades.append(&123, &spread(0)).await.unwrap_err();
            let many = trades.delete_key(&123).await.unwrap_err();
            fault.disable().await;
            match code {
                175 => assert_unknown(&one, "append"),
                _ => {
                    assert_eq!(one.kind(), ErrorKind::Contention);
                    assert!(one.is_transient() && !one.is_outcome_unknown(), "{one:?}");
                }
            }
            assert_unknown(&many, "delete_key");
        }
    })
    .await;
}

/// A plan yields its locks after the write of its document, and the index is dropped there. The reply is that no document was
/// written.
#[tokio::test]
async fn a_write_whose_index_is_dropped_after_it_was_stored_has_an_unknown_outcome() {
    const YIELD: &str = "setYieldAllLocksHang";
    let options = MongodOptions::new()
        .standalone()
        .argument("--setParameter=internalQueryExecYieldIterations=1");
    let mongod = Mongod::start(options).await.unwrap();
    let client = Client::with_uri_str(mongod.uri()).await.unwrap();
    let admin = client.database("admin");
    let collection = client.database("killed").collection::<Document>("trades");
    let trades = Trades::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .item_id_field("n")
        .build()
        .unwrap();
    let index = trades.indexes()[0].indexes()[0].name.clone();
    // At the yield before the write, and at the one after it.
    for (n, (skip, is_stored)) in (0..).zip([(0, false), (1, true)]) {
        trades.ensure_indexes().await.unwrap();
        trades.append(&123, &spread(2 * n)).await.unwrap();
        let namespace = collection.namespace().to_string();
        let hang = doc! { "configureFailPoint": YIELD, "mode": { "skip": skip }, "data": { "namespace": namespace } };
        let before = admin.run_command(hang).await.unwrap();
        let entered = integer(before.get("count").unwrap()) + 1;
        let wait = doc! { "waitForFailPoint": YIELD, "timesEntered": entered, "maxTimeMS": 60_000 };
        let item = spread(2 * n + 1);
        let drop_index = async {
            admin.run_command(wait).await.unwrap();
            collection.drop_index(index.as_str()).await.unwrap();
            let ran = admin.run_command(doc! { "configureFailPoint": YIELD, "mode": "off" });
            ran.await.unwrap();
        };
        let (refused, ()) = futures::join!(trades.append(&123, &item).into_future(), drop_index);
        assert_unknown(&refused.unwrap_err(), "append");

        let error = trades.append(&123, &item).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
        trades.ensure_indexes().await.unwrap();
        assert_eq!(trades.append(&123, &item).await.unwrap().already_there, is_stored);
    }
    assert_eq!(trades.newest(&123, 10).await.unwrap().len(), 4);
    assert_eq!(trades.page(&123, 1).await.unwrap().unwrap().items, trades_of(0..4));
}
