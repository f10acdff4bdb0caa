//! The stored form is that of MongoDB's manual: buckets of its shell commands are read and appended to, and this crate
//! stores what they would have stored.

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, Regex, cstr, doc};

use support::common::*;

fn date(text: &str) -> DateTime {
    DateTime::parse_rfc3339_str(text).unwrap()
}

/// The documents of the manual's `insertMany`, with their ids.
fn manuals_documents() -> [Document; 2] {
    [
        doc! {
            "_id": "123_1698349623",
            "customerId": 123,
            "count": 2,
            "history": [
                { "type": "buy", "ticker": "MDB", "qty": 419, "date": date("2023-10-26T15:47:03.434Z") },
                { "type": "sell", "ticker": "MDB", "qty": 29, "date": date("2023-10-30T09:32:57.765Z") },
            ],
        },
        doc! {
            "_id": "456_1698765362",
            "customerId": 456,
            "count": 1,
            "history": [
                { "type": "buy", "ticker": "GOOG", "quantity": 50, "date": date("2023-10-31T11:16:02.120Z") },
            ],
        },
    ]
}

fn msft() -> Document {
    doc! { "type": "buy", "ticker": "MSFT", "qty": 42, "date": date("2023-11-02T11:43:10Z") }
}

/// The manual's `updateOne`.
fn manuals_update() -> (Document, Document) {
    let pattern = Regex {
        pattern: cstr!("^123_").into(),
        options: cstr!("").into(),
    };
    (
        doc! { "_id": pattern, "count": { "$lt": 10 } },
        doc! {
            "$push": { "history": msft() },
            "$inc": { "count": 1 },
            "$setOnInsert": { "_id": "123_1698939791", "customerId": 123 },
        },
    )
}

#[tokio::test]
async fn documents_of_the_manual_are_read_and_appended_to() {
    testkit::run(async |db| {
        let trades = trades_of_documents(db).await;
        plain(db).insert_many(manuals_documents()).await.unwrap();
        let page = trades.page(&456, 1).await.unwrap().unwrap();
        assert_eq!((page.id.as_str(), page.items.len()), ("456_1698765362", 1));

        let appended = trades.append(&123, &msft()).await.unwrap();
        assert_eq!(appended.opened, None);
        let [mut expected, _] = manuals_documents();
        expected.insert("count", 3);
        expected.get_array_mut("history").unwrap().push(Bson::Document(msft()));
        assert_eq!(all(&plain(db)).await[0], expected, "the manual's own result");

        for _ in 0..8 {
            trades.append(&123, &msft()).await.unwrap();
        }
        assert_eq!(trades.counts(&123).await.unwrap().pages, 2);
        let slice = trades.buckets(&123).limit(1).page().await.unwrap();
        assert_eq!(slice.items[0].id, "123_1698349623");
        assert_eq!(
            trades.buckets(&123).after(slice.next).page().await.unwrap().items[0].items,
            [msft()]
        );
    })
    .await;
}

#[tokio::test]
async fn the_manuals_commands_and_ours_work_on_the_same_buckets() {
    testkit::run(async |db| {
        let trades = trades_of_documents(db).await;
        let [first, _] = manuals_documents();
        for item in first.get_array("history").unwrap() {
            trades.append(&123, item.as_document().unwrap()).await.unwrap();
        }
        let mut ours = first.clone();
        ours.insert("_id", "123_1698335223");
        let stored = all(&plain(db)).await;
        assert_eq!(stored, [ours], "the manual's form, and the id of its rule");
        let fields: Vec<&str> = stored[0].keys().map(String::as_str).collect();
        assert_eq!(fields, ["_id", "customerId", "count", "history"]);

        for number in 3..=12 {
            let (filter, update) = manuals_update();
            plain(db).update_one(filter, update).upsert(true).await.unwrap();
            let counts = trades.counts(&123).await.unwrap();
            assert_eq!(counts.items, number);
        }
        trades.append(&123, &msft()).await.unwrap();
        assert_eq!(trades.counts(&123).await.unwrap().pages, 2);
        assert_eq!(trades.newest(&123, 3).await.unwrap(), [msft(), msft(), msft()]);
        assert_eq!(violations(&plain(db), 10).await, []);
    })
    .await;
}

/// Shells write numbers as doubles, and drivers as 64-bit integers.
#[tokio::test]
async fn numbers_of_any_type_are_read_and_appended_to() {
    testkit::run(async |db| {
        let trades = trades_of_documents(db).await;
        plain(db)
            .insert_many([
                doc! { "_id": "123_1698349623", "customerId": 123.0, "count": 1.0, "history": [msft()] },
                doc! { "_id": "456_1698349623", "customerId": 456_i64, "count": 1_i64, "history": [msft()] },
            ])
            .await
            .unwrap();
        for key in [123, 456] {
            assert_eq!(trades.append(&key, &msft()).await.unwrap().opened, None);
            let page = trades.page(&key, 1).await.unwrap().unwrap();
            assert_eq!((page.key, page.items.len()), (key, 2));
        }
    })
    .await;
}
