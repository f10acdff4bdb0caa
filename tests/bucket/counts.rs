//! Counting items and pages.

use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;

use crate::common::support::*;

#[tokio::test]
async fn counts_are_exact_and_one_round_trip() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for n in 0..35 {
            trades.append(&123, &spread(n)).await.unwrap();
        }
        trades.append(&1234, &spread(0)).await.unwrap();
        db.recorder().clear();
        let counts = trades.counts(&123).await.unwrap();
        assert_eq!((counts.items, counts.pages), (35, 4));
        assert_eq!(trades.count_pages(&123).await.unwrap(), 4);
        assert_eq!(db.recorder().round_trips(), 2);
        let counts = trades.counts(&99).await.unwrap();
        assert_eq!((counts.items, counts.pages), (0, 0));
        assert_eq!(trades.count_pages(&99).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn counts_are_exact_for_pages_that_are_not_full_or_overfull() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for (second, items) in [(0, 3_usize), (1, 25), (2, 10)] {
            let mut bucket = full_bucket(SECOND + second);
            bucket.insert("count", i32::try_from(items).unwrap());
            bucket.insert("history", vec![doc! { "n": 1, "date": at(SECOND) }; items]);
            plain(db).insert_one(bucket).await.unwrap();
        }
        let counts = trades.counts(&123).await.unwrap();
        assert_eq!((counts.items, counts.pages), (38, 3));
    })
    .await;
}

#[tokio::test]
async fn counting_pages_reads_the_index_only() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        plain(db)
            .insert_many((0..1000).map(|n| full_bucket(SECOND + n)))
            .await
            .unwrap();
        assert_eq!(trades.count_pages(&123).await.unwrap(), 1000);
        let examined = explain_last(db).await;
        assert_eq!(examined.documents, 0, "{examined:?}");
        assert!(examined.keys <= 1001, "{examined:?}");
    })
    .await;
}
