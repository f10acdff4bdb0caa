//! The hazards of the manual's commands: each test runs them into one, and then shows that this crate avoids it.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, Regex, cstr, doc};
use mongodb::{ClientSession, Collection};

use crate::common::support::*;

/// The manual's `updateOne`, with the key unescaped in the regular expression and the `_id`.
async fn naive_append(
    collection: &Collection<Document>,
    key: &str,
    trade: &Trade,
    session: Option<&mut ClientSession>,
) -> mongodb::error::Result<()> {
    let pattern = Regex {
        pattern: format!("^{key}_").try_into().unwrap(),
        options: cstr!("").into(),
    };
    let second = trade.date.timestamp_millis().div_euclid(1000);
    let update = doc! {
        "$push": { "history": { "n": trade.n, "date": trade.date } },
        "$inc": { "count": 1 },
        "$setOnInsert": { "_id": format!("{key}_{second}"), "customerId": key },
    };
    let mut action = collection
        .update_one(doc! { "_id": pattern, "count": { "$lt": 10 } }, update)
        .upsert(true);
    if let Some(session) = session {
        action = action.session(session);
    }
    action.await.map(|_| ())
}

fn by_name(db: &TestDatabase) -> BucketRepository<String, Trade> {
    BucketRepository::<String, Trade>::builder(db.collection::<Document>("ours"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .build()
        .unwrap()
}

async fn ours(db: &TestDatabase) -> BucketRepository<String, Trade> {
    let trades = by_name(db);
    trades.ensure_indexes().await.unwrap();
    trades
}

#[tokio::test]
async fn the_second_of_a_full_bucket_loses_later_items() {
    testkit::run(async |db| {
        let mut lost = 0;
        for n in 0..200 {
            if naive_append(&plain(db), "123", &same_second(n), None).await.is_err() {
                lost += 1;
            }
        }
        assert_eq!(lost, 190, "the manual's form");

        let trades = ours(db).await;
        for n in 0..200 {
            trades.append("123", &same_second(n)).await.unwrap();
        }
        assert_eq!(trades.counts("123").await.unwrap().items, 200);
    })
    .await;
}

#[tokio::test]
async fn two_writers_open_two_buckets() {
    testkit::run(async |db| {
        if !db.server().has_transactions() {
            panic!("this test needs transactions: run it against a replica set, such as that of docker-compose.yml");
        }
        // Transactions force the race: both read before either has written.
        let naive = plain(db);
        naive.insert_one(full_bucket(1)).await.unwrap();
        let mut sessions = Vec::new();
        for n in 0..2 {
            let mut session = naive.client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            naive_append(&naive, "123", &spread(n), Some(&mut session))
                .await
                .unwrap();
            sessions.push(session);
        }
        for session in &mut sessions {
            session.commit_transaction().await.unwrap();
        }
        let open = naive.count_documents(doc! { "count": { "$lt": 10 } }).await.unwrap();
        assert_eq!(open, 2, "the manual's form");

        let trades = ours(db).await;
        let collection = db.plain_collection::<Document>("ours");
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        trades.append("123", &spread(0)).session(&mut session).await.unwrap();
        let mut other = db.client().start_session().await.unwrap();
        other.start_transaction().await.unwrap();
        let error = trades.append("123", &spread(1)).session(&mut other).await.unwrap_err();
        assert!(error.is_contention(), "{error:?}");
        session.commit_transaction().await.unwrap();
        assert_eq!(
            collection
                .count_documents(doc! { "count": { "$lt": 10 } })
                .await
                .unwrap(),
            1
        );
    })
    .await;
}

#[tokio::test]
async fn one_key_is_a_prefix_of_another() {
    testkit::run(async |db| {
        let naive = plain(db);
        naive_append(&naive, "12_3", &spread(0), None).await.unwrap();
        naive_append(&naive, "12", &spread(1), None).await.unwrap();
        let stored = all(&naive).await;
        assert_eq!(
            stored.len(),
            1,
            "the manual's form stores customer 12's item in the bucket of 12_3"
        );

        let trades = ours(db).await;
        trades.append("12_3", &spread(0)).await.unwrap();
        trades.append("12", &spread(1)).await.unwrap();
        assert_eq!(trades.page("12_3", 1).await.unwrap().unwrap().items, [spread(0)]);
        assert_eq!(trades.page("12", 1).await.unwrap().unwrap().items, [spread(1)]);
    })
    .await;
}

#[tokio::test]
async fn a_key_is_a_regular_expression() {
    testkit::run(async |db| {
        let naive = plain(db);
        naive_append(&naive, "axb", &spread(0), None).await.unwrap();
        naive_append(&naive, "a.b", &spread(1), None).await.unwrap();
        assert_eq!(
            all(&naive).await.len(),
            1,
            "the manual's form stores a.b's item in the bucket of axb"
        );
        assert!(naive_append(&naive, "a(b", &spread(2), None).await.is_err());
        for n in 0..3 {
            naive_append(&naive, "a+b", &spread(n), None).await.unwrap();
        }
        assert_eq!(
            naive.count_documents(doc! { "customerId": "a+b" }).await.unwrap(),
            3,
            "one bucket an item"
        );

        let trades = ours(db).await;
        for key in ["axb", "a.b", "a(b", "a+b", "a|b", "a*b"] {
            for n in 0..3 {
                trades.append(key, &spread(n)).await.unwrap();
            }
        }
        for key in ["axb", "a.b", "a(b", "a+b", "a|b", "a*b"] {
            let counts = trades.counts(key).await.unwrap();
            assert_eq!((counts.items, counts.pages), (3, 1), "{key}");
        }
    })
    .await;
}

#[tokio::test]
async fn seconds_of_nine_digits_sort_after_those_of_ten() {
    testkit::run(async |db| {
        let naive = plain(db);
        for (second, n) in [(852_076_800, 0), (SECOND, 10)] {
            for n in n..n + 10 {
                naive_append(&naive, "123", &Trade { n, date: at(second) }, None)
                    .await
                    .unwrap();
            }
        }
        assert_eq!(
            ids(&all(&naive).await),
            ["123_1698335223", "123_852076800"],
            "the manual's form"
        );

        let trades = ours(db).await;
        for (second, n) in [(852_076_800, 0), (SECOND, 10)] {
            for n in n..n + 10 {
                trades.append("123", &Trade { n, date: at(second) }).await.unwrap();
            }
        }
        assert_eq!(trades.page("123", 1).await.unwrap().unwrap().items[0].n, 0);
    })
    .await;
}

/// For a key with an underscore, the manual's command writes an `_id` that this crate does not give such a key. It must
/// neither be read as one of another key, nor be ignored silently.
#[tokio::test]
async fn an_open_bucket_with_a_naive_id_is_reported() {
    testkit::run(async |db| {
        let trades = ours(db).await;
        let collection = db.plain_collection::<Document>("ours");
        naive_append(&collection, "12_3", &spread(0), None).await.unwrap();
        let error = trades.append("12_3", &spread(1)).await.unwrap_err();
        assert!(error.is_corrupt(), "{error:?}");
        assert_eq!(error.document_id().and_then(|id| id.as_str()), Some("12_3_1698335223"));
        let error = trades.page("12", 1).await.unwrap_err();
        assert!(error.is_corrupt(), "{error:?}");
        assert_eq!(
            trades.newest("12", 5).await.unwrap(),
            [],
            "and is not read as one of another key"
        );
        assert_eq!(all(&collection).await.len(), 1);
    })
    .await;
}
