//! Kills the primary of three nodes under load.

use std::collections::BTreeSet;
use std::time::Duration;

use mongo_patterns_testkit::ReplicaSet;
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, WriteConcern};
use tokio::sync::watch;

use crate::common::pace::Pace;
use crate::common::support::*;

const TASKS: i64 = 16;
const KEYS: i64 = 4;

/// The outcomes that the writers received.
#[derive(Default)]
struct Outcomes {
    acknowledged: Vec<i64>,
    refused: Vec<i64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn nothing_acknowledged_is_lost_or_duplicated_when_the_primary_is_killed() {
    let mut set = ReplicaSet::start(3).await.unwrap();
    let mut options = ClientOptions::parse(set.uri()).await.unwrap();
    options.write_concern = Some(WriteConcern::majority());
    let collection = Client::with_options(options)
        .unwrap()
        .database("test")
        .collection::<Document>("trades");
    let trades = Trades::builder(collection.clone())
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .build()
        .unwrap();
    trades.ensure_indexes().await.unwrap();

    let (next, pace) = (watch::Sender::new(0_i64), Pace::of(2000));
    let writers: Vec<_> = (0..TASKS)
        .map(|_| {
            let (trades, next, pace) = (trades.clone(), next.clone(), pace.clone());
            tokio::spawn(async move {
                let mut outcomes = Outcomes::default();
                while pace.next().await {
                    let mut n = 0;
                    next.send_modify(|next| {
                        n = *next;
                        *next += 1;
                    });
                    match trades.append(&u32::try_from(n % KEYS).unwrap(), &same_second(n)).await {
                        Ok(_) => outcomes.acknowledged.push(n),
                        Err(error) if error.is_outcome_unknown() => {}
                        Err(_) => outcomes.refused.push(n),
                    }
                }
                outcomes
            })
        })
        .collect();

    wait_for(&next, 300).await;
    set.kill_primary().await.unwrap();
    pace.add(1000);
    let before = *next.borrow();
    wait_for(&next, before + 300).await;
    pace.end();
    let mut outcomes = Outcomes::default();
    for writer in writers {
        let of_writer = writer.await.unwrap();
        outcomes.acknowledged.extend(of_writer.acknowledged);
        outcomes.refused.extend(of_writer.refused);
    }
    assert!(
        outcomes.acknowledged.len() >= 500,
        "{} were acknowledged",
        outcomes.acknowledged.len()
    );

    let mut stored = BTreeSet::new();
    for key in 0..u32::try_from(KEYS).unwrap() {
        let pages = trades.pages(&key).limit(100_000).await.unwrap().pages;
        assert!(
            pages.iter().filter(|page| page.items.len() < 10).count() <= 1,
            "all pages except one are full"
        );
        for trade in pages.iter().flat_map(|page| &page.items) {
            assert!(stored.insert(trade.n), "item {} is stored twice", trade.n);
        }
    }
    assert!(
        outcomes.acknowledged.iter().all(|n| stored.contains(n)),
        "an acknowledged item is lost"
    );
    assert!(
        outcomes.refused.iter().all(|n| !stored.contains(n)),
        "an item is stored although its append reported that it is not"
    );
    assert_eq!(violations(&collection, 10).await, []);
    assert_eq!(
        collection
            .count_documents(doc! { "count": { "$gt": 10 } })
            .await
            .unwrap(),
        0
    );
}

/// Waits until the writers have begun that number of appends.
async fn wait_for(next: &watch::Sender<i64>, appends: i64) {
    let mut begun = next.subscribe();
    let enough = begun.wait_for(|begun| *begun >= appends);
    tokio::time::timeout(Duration::from_secs(120), enough)
        .await
        .expect("the writers make no progress")
        .unwrap();
}
