//! Appends of one writer: the stored buckets, and the number of round trips.

use std::sync::{Arc, Mutex};

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{BucketRepository, IdPolicy};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria};

use support::bucket::*;
use support::common::*;

#[tokio::test]
async fn an_append_is_one_round_trip() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for n in 0..25 {
            let appended = trades.append(&123, &spread(n)).await.unwrap();
            let expected = (n % 10 == 0).then(|| format!("123_{}", SECOND + n));
            assert_eq!(appended.opened, expected);
        }
        assert_eq!(db.recorder().names(), vec!["update"; 25]);
        let stored = all(&plain(db)).await;
        assert_eq!(ids(&stored), ["123_1698335223", "123_1698335233", "123_1698335243"]);
        assert!(violations(&plain(db), 10).await.is_empty());
    })
    .await;
}

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
async fn seconds_of_any_width_are_in_order() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(1)).await;
        // 1970, 1997 with nine digits, 2023 with ten, 2286
        let seconds = [0, 852_076_800, SECOND, 9_999_999_999];
        for (n, second) in (0..).zip(seconds) {
            trades.append(&123, &Trade { n, date: at(second) }).await.unwrap();
        }
        let pages = trades.pages(&123).limit(10).await.unwrap().pages;
        assert_eq!(
            pages.iter().map(|page| page.items[0].n).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        assert_eq!(pages[1].id, "123_0852076800");
    })
    .await;
}

#[tokio::test]
async fn a_late_item_opens_a_page_by_its_time_or_at_the_end() {
    testkit::run(async |db| {
        for (policy, expected) in [(IdPolicy::ItemTime, [2, 0, 1]), (IdPolicy::Monotonic, [0, 1, 2])] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(1).id_policy(policy)).await;
            for (n, second) in [(0, SECOND), (1, SECOND + 60), (2, SECOND - 3600)] {
                trades.append(&123, &Trade { n, date: at(second) }).await.unwrap();
            }
            let pages = trades.pages(&123).limit(10).await.unwrap().pages;
            let firsts: Vec<i64> = pages.iter().map(|page| page.items[0].n).collect();
            assert_eq!(firsts, expected, "{policy:?}");
        }
    })
    .await;
}

/// The guarantee of the policy under concurrency: a page that existed when an append was called stays before its page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monotonic_pages_open_after_all_existing_ones() {
    testkit::run(async |db| {
        for page_size in [1, 10] {
            plain(db).drop().await.unwrap();
            let trades = ready(db, builder(db).page_size(page_size).id_policy(IdPolicy::Monotonic)).await;
            let newest = Arc::new(Mutex::new(String::new()));
            let writers = (0..16_i64).map(|writer| {
                let (trades, newest) = (trades.clone(), Arc::clone(&newest));
                tokio::spawn(async move {
                    for n in 0..20 {
                        let existed = newest.lock().unwrap().clone();
                        // times that are not in order
                        let second = SECOND + (writer * 31 + n * 17) % 50;
                        let appended = trades.append(&123, &Trade { n, date: at(second) }).await.unwrap();
                        if let Some(opened) = appended.opened {
                            assert!(opened > existed, "{opened} was opened when {existed} existed");
                            let mut newest = newest.lock().unwrap();
                            *newest = opened.max(newest.clone());
                        }
                    }
                })
            });
            for written in futures::future::join_all(writers).await {
                written.unwrap();
            }
            assert_eq!(trades.counts(&123).await.unwrap().items, 320);
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
        let trades = trades.id_policy(IdPolicy::Monotonic).build().unwrap();
        trades.ensure_indexes().await.unwrap();
        let has_level = |read: &Document, level: &str| {
            let concern = read.get_document("readConcern").unwrap();
            assert_eq!(concern.get_str("level").unwrap(), level, "{read}");
        };
        trades.append(&123, &spread(0)).await.unwrap();
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
async fn a_monotonic_append_reads_only_when_it_opens() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).id_policy(IdPolicy::Monotonic)).await;
        trades.append(&123, &spread(0)).await.unwrap();
        assert_eq!(db.recorder().names(), ["update", "find", "update"]);
        db.recorder().clear();
        for n in 1..10 {
            trades.append(&123, &spread(n)).await.unwrap();
        }
        assert_eq!(db.recorder().names(), vec!["update"; 9]);
    })
    .await;
}

/// Ids of nine digits, as the manual's commands make them for 1997, sort after those of ten.
#[tokio::test]
async fn a_monotonic_append_comes_after_ids_of_any_form() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).id_policy(IdPolicy::Monotonic)).await;
        let mut old = full_bucket(852_076_800);
        old.insert("_id", "123_852076800");
        plain(db).insert_one(old).await.unwrap();
        let appended = trades.append(&123, &spread(0)).await.unwrap();
        assert_eq!(appended.opened.as_deref(), Some("123_852076800_000001"));
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
async fn an_item_without_a_valid_time_is_refused() {
    testkit::run(async |db| {
        let trades = trades_of_documents(db).await;
        let unusable = [
            doc! {},
            doc! { "date": "2023-10-26T15:47:03Z" },
            doc! { "date": Bson::Null },
            doc! { "date": at(-1) },
            doc! { "date": at(10_000_000_000) },
        ];
        for item in unusable {
            let error = trades.append(&123, &item).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidTime, "{item}");
            assert!(error.is_invalid_input());
        }
        assert_eq!(db.recorder().round_trips(), 0);
        assert!(all(&plain(db)).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn items_with_any_content_are_stored_unchanged() {
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
        for buckets in [1, 1_000] {
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

/// The type that the documentation of the bucket pattern recommends.
#[tokio::test]
async fn items_of_any_fields_are_read_as_raw_documents() {
    testkit::run(async |db| {
        let items = untimed::<u32, RawDocumentBuf>(db).build().unwrap();
        items.ensure_indexes().await.unwrap();
        let item = RawDocumentBuf::try_from(&doc! { "$date": 5, "in": { "$oid": "none" } }).unwrap();
        items.append(&123, &item).await.unwrap();
        items.append_many(&123, &[item.clone(), item.clone()]).await.unwrap();
        assert_eq!(items.page(&123, 1).await.unwrap().unwrap().items, vec![item; 3]);
    })
    .await;
}
