//! Appends of one writer: the stored buckets, and the number of round trips; also in a transaction of the caller.

use mongo_patterns::bucket::BucketRepository;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria};

use support::bucket::*;
use support::common::*;

/// The manual's form loses every item from the eleventh on: see `naive::the_second_of_a_full_bucket_loses_later_items`.
#[tokio::test]
async fn one_second_has_room_for_any_number_of_buckets() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for n in 0..60 {
            trades.append(&123, &same_second(n)).await.unwrap();
        }
        // The second bucket of the second needs one more round trip. From then on the suffix is cached.
        assert_eq!(db.recorder().round_trips(), 61);
        let stored = all(&plain(db)).await;
        assert_eq!(
            ids(&stored)[..3],
            ["123_1698335223", "123_1698335223_000001", "123_1698335223_000002"]
        );
        assert_eq!(stored.len(), 6);
        for page in 0..6 {
            let items = trades.page(&123, page + 1).await.unwrap().unwrap().items;
            let first = i64::try_from(page).unwrap() * 10;
            let expected: Vec<i64> = (first..first + 10).collect();
            assert_eq!(numbers(&items), expected, "in the order of arrival");
        }
        trades.append(&123, &same_second(60)).await.unwrap();
        // Another program deletes the open bucket.
        plain(db).delete_many(doc! {}).await.unwrap();
        trades.append(&123, &same_second(61)).await.unwrap();
        assert_eq!(trades.counts(&123).await.unwrap().items, 1);
    })
    .await;
}

#[tokio::test]
async fn a_new_process_finds_the_next_suffix_in_a_few_round_trips() {
    testkit::run(async |db| {
        let first = trades(db).await;
        let items: Vec<Trade> = (0..300).map(same_second).collect();
        first.append_many(&123, &items).await.unwrap();
        let second = trades(db).await;
        let appended = second.append(&123, &same_second(300)).await.unwrap();
        assert_eq!(appended.opened.as_deref(), Some("123_1698335223_000030"));
        assert_eq!(db.recorder().names(), ["update", "update", "find", "update"]);
    })
    .await;
}

#[tokio::test]
async fn pages_are_in_the_order_of_the_items_times() {
    testkit::run(async |db| {
        // 1970, 1997 with nine digits, 2023 with ten, 2286; and a late item.
        let (widths, late) = (
            [0, 852_076_800, SECOND, 9_999_999_999],
            [SECOND, SECOND + 60, SECOND - 3600],
        );
        for (seconds, expected) in [(&widths[..], &[0, 1, 2, 3][..]), (&late, &[2, 0, 1])] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(1)).await;
            for (n, second) in (0..).zip(seconds) {
                let appended = trades.append(&123, &Trade { n, date: at(*second) }).await.unwrap();
                assert_eq!(appended.opened, Some(format!("123_{second:010}")));
            }
            let pages = trades.buckets(&123).limit(10).page().await.unwrap().items;
            let firsts: Vec<i64> = pages.iter().map(|page| page.items[0].n).collect();
            assert_eq!(firsts, expected);
        }
    })
    .await;
}

/// A read that decides about a write must see all writes, whatever the read preference of the collection.
#[tokio::test]
async fn an_append_reads_from_the_primary() {
    testkit::run(async |db| {
        let secondary = ReadPreference::SecondaryPreferred { options: None };
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::ReadPreference(secondary))
            .read_concern(ReadConcern::majority())
            .build();
        let collection = db.database().collection_with_options::<Document>("trades", options);
        let trades = Trades::builder(collection)
            .key_field("customerId")
            .items_field("history");
        let trades = trades.build().unwrap();
        trades.ensure_indexes().await.unwrap();
        let has_level = |read: &Document, level: &str| {
            let concern = read.get_document("readConcern").unwrap();
            assert_eq!(concern.get_str("level").unwrap(), level, "{read}");
        };
        let mut session = db.client().start_session().await.unwrap();
        trades.append(&123, &spread(0)).session(&mut session).await.unwrap();
        let commands = db.recorder().commands();
        let read = &commands.iter().find(|command| command.name == "find").unwrap().command;
        has_level(read, "local");
        let preference = read.get_document("$readPreference");
        let mode = preference.and_then(|preference| preference.get_str("mode"));
        assert!(mode.is_err() || mode.is_ok_and(|mode| mode == "primary"), "{read}");
        trades.page(&123, 1).await.unwrap();
        has_level(&db.recorder().commands().pop().unwrap().command, "majority");
    })
    .await;
}

#[tokio::test]
async fn an_items_time_comes_from_the_call_the_item_or_the_clock() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(1)).await;
        let opened = trades.append(&1, &spread(0)).at(at(SECOND + 5)).await.unwrap().opened;
        assert_eq!(opened.as_deref(), Some("1_1698335228"));

        let untimed = BucketRepository::<u32, i32>::builder(db.collection::<Document>("untimed"))
            .key_field("customerId")
            .items_field("history")
            .build()
            .unwrap();
        untimed.ensure_indexes().await.unwrap();
        let before = DateTime::now().timestamp_millis() / 1000;
        let opened = untimed.append(&1, &7).await.unwrap().opened.unwrap();
        let after = DateTime::now().timestamp_millis() / 1000;
        let second: i64 = opened.strip_prefix("1_").unwrap().parse().unwrap();
        assert!((before..=after).contains(&second));
        let page = untimed.page(&1, 1).await.unwrap().unwrap();
        assert_eq!(page.items, [7], "scalars are items too");
    })
    .await;
}

#[tokio::test]
async fn items_with_any_content_are_stored_and_read_unchanged() {
    testkit::run(async |db| {
        let trades = untimed::<u32, Bson>(db).build().unwrap();
        trades.ensure_indexes().await.unwrap();
        let hostile = [
            Bson::Document(doc! { "$each": [1, 2, 3] }),
            Bson::Document(doc! { "a": 1, "$slice": 0 }),
            Bson::Document(doc! { "a.b": "$count", "c": "$$ROOT" }),
            Bson::Array(vec![Bson::Int32(1), Bson::Document(doc! { "$each": [2] })]),
            Bson::Document(doc! { "a": "$history", "b": [{ "c": "$$NOW" }] }),
            Bson::String("$count".into()),
            Bson::String("$$ROOT".into()),
            Bson::Double(f64::INFINITY),
            Bson::Null,
            Bson::Document(doc! {}),
        ];
        for item in &hostile {
            trades.append(&123, item).await.unwrap();
        }
        trades.append_many(&123, &hostile).await.unwrap();
        let items: Vec<Bson> = collected(trades.items(&123).stream()).await;
        assert_eq!(items, [hostile.clone(), hostile].concat());
        assert_eq!(violations(&plain(db), 10).await, []);

        // The type that the documentation of the bucket pattern recommends for items of any fields.
        let raw = untimed::<u32, RawDocumentBuf>(db).build().unwrap();
        let item = RawDocumentBuf::try_from(&doc! { "$date": 5, "in": { "$oid": "none" } }).unwrap();
        raw.append(&124, &item).await.unwrap();
        raw.append_many(&124, &[item.clone(), item.clone()]).await.unwrap();
        assert_eq!(raw.page(&124, 1).await.unwrap().unwrap().items, vec![item; 3]);
    })
    .await;
}

#[tokio::test]
async fn an_append_examines_one_document_at_any_length_of_the_history() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let other_keys = (1000..1020).map(|customer| {
            let mut bucket = full_bucket(SECOND);
            bucket.insert("_id", format!("{customer}_{SECOND}"));
            bucket.insert("customerId", customer);
            bucket
        });
        plain(db).insert_many(other_keys).await.unwrap();
        for buckets in [1, 300] {
            plain(db).delete_many(doc! { "customerId": 123 }).await.unwrap();
            plain(db)
                .insert_many((0..buckets).map(|n| full_bucket(SECOND + n)))
                .await
                .unwrap();
            for open in [false, true] {
                let appended = trades.append(&123, &spread(buckets)).await.unwrap();
                assert_eq!(appended.opened.is_none(), open);
                let examined = explain_last(db).await;
                assert!(examined.documents <= 2 && examined.keys <= 2, "{buckets}: {examined:?}");
                assert_eq!(examined.index, "customerId_1_count_lt_10");
            }
        }
    })
    .await;
}

/// A collision would abort the transaction, and would be met again in the next one. So in a session a free `_id` of a
/// new bucket is read, and not tried.
#[tokio::test]
async fn a_taken_second_does_not_abort_a_transaction() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db)).await;
        let mut session = transaction(db).await;
        for n in 0..15 {
            let appended = trades.append(&123, &same_second(n)).session(&mut session).await;
            appended.unwrap();
        }
        let batch = |numbers: std::ops::Range<i64>| numbers.map(same_second).collect::<Vec<_>>();
        let of_batch = trades.append_many(&123, &batch(15..35)).session(&mut session).await;
        assert_eq!(of_batch.unwrap().items, 20);
        session.commit_transaction().await.unwrap();
        session.start_transaction().await.unwrap();
        let of_batch = trades.append_many(&123, &batch(35..60)).session(&mut session).await;
        assert_eq!(of_batch.unwrap().items, 25);
        session.abort_transaction().await.unwrap();
        let read = collected(trades.items(&123).stream()).await;
        assert_eq!(read, batch(0..35));
        let suffixes = ["", "_000001", "_000002", "_000003"].map(|suffix| format!("123_{SECOND}{suffix}"));
        assert_eq!(ids(&all(&plain(db)).await), suffixes);
    })
    .await;
}
