//! Single items: found, changed and removed by their ids.

use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::BucketRepositoryBuilder;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::bucket::*;
use support::common::*;

fn identified(db: &TestDatabase) -> BucketRepositoryBuilder<u32, Trade> {
    builder(db).item_id_field("n")
}

/// Trades 0 to `count` of customer 123.
async fn filled(db: &TestDatabase, page_size: u32, count: i64) -> Trades {
    let trades = ready(db, identified(db).page_size(page_size)).await;
    let items = trades_of(0..count);
    trades.append_many(&123, &items).await.unwrap();
    db.recorder().clear();
    trades
}

/// The ids of the items of customer 123, page by page.
async fn pages(trades: &Trades) -> Vec<Vec<i64>> {
    let page = trades.buckets(&123).limit(10_000).page().await.unwrap();
    page.items.iter().map(|page| numbers(&page.items)).collect()
}

fn chunks(items: &[i64], page_size: u32) -> Vec<Vec<i64>> {
    items.chunks(page_size as usize).map(<[i64]>::to_vec).collect()
}

#[tokio::test]
async fn an_item_is_found_by_its_id_in_one_round_trip() {
    testkit::run(async |db| {
        let trades = filled(db, 10, 305).await;
        trades.append(&12, &same_second(5000)).await.unwrap();
        for n in [0, 9, 10, 177, 304] {
            db.recorder().clear();
            assert_eq!(trades.item(&123, n).await.unwrap(), Some(spread(n)));
            assert_eq!(db.recorder().names(), ["find"]);
            assert_eq!(explain_last(db).await.documents, 1);
        }
        let of_another = trades.item(&123, 5000).await.unwrap();
        assert_eq!(of_another, None, "the item is of another customer");
        let of_string = trades.item(&123, "0").await.unwrap();
        assert_eq!(of_string, None, "a string is not equal to a number");
        assert_eq!(trades.item(&4, 0).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_replaced_item_keeps_its_position() {
    testkit::run(async |db| {
        let trades = filled(db, 10, 25).await;
        for n in [0, 9, 10, 24] {
            db.recorder().clear();
            let changed = Trade {
                n,
                date: at(SECOND + 900),
            };
            assert!(trades.replace_item(&123, &changed).await.unwrap().modified);
            assert_eq!(db.recorder().names(), ["update"]);
            assert!(!trades.replace_item(&123, &changed).await.unwrap().modified);
            assert_eq!(trades.item(&123, n).await.unwrap(), Some(changed));
        }
        for (customer, n) in [(123, 25), (12, 0)] {
            db.recorder().clear();
            assert_refused(trades.replace_item(&customer, &spread(n)).await, ErrorKind::NotFound);
            assert_eq!(db.recorder().names(), ["update", "find"]);
        }
        assert_eq!(pages(&trades).await, chunks(&(0..25).collect::<Vec<_>>(), 10));
    })
    .await;
}

/// Every page but the last is full, and a removed item can be appended again.
#[tokio::test]
async fn all_items_can_be_removed_from_either_end() {
    testkit::run(async |db| {
        for (page_size, count) in [(1, 3), (3, 7)] {
            for from_the_end in [false, true] {
                plain(db).drop().await.unwrap();
                let trades = filled(db, page_size, count).await;
                for round in 0..count {
                    let n = if from_the_end { count - 1 - round } else { round };
                    assert!(trades.remove_item(&123, n).await.unwrap().found);
                    assert!(!trades.remove_item(&123, n).await.unwrap().found);
                    assert_eq!(trades.item(&123, n).await.unwrap(), None);
                    let left: Vec<i64> = match from_the_end {
                        true => (0..n).collect(),
                        false => (n + 1..count).collect(),
                    };
                    assert_eq!(pages(&trades).await, chunks(&left, page_size));
                }
                assert_eq!(all(&plain(db)).await, Vec::<Document>::new());
                assert!(!trades.append(&123, &spread(0)).await.unwrap().already_there);
                assert_eq!(pages(&trades).await, [[0]]);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_open_bucket_in_the_middle_is_filled_by_a_later_removal() {
    testkit::run(async |db| {
        // A late item opened the bucket in the middle, and it is the open one.
        let bucket = |second: i64, items: &[i64]| {
            let history: Vec<Document> = items.iter().map(|n| doc! { "n": n, "date": at(second) }).collect();
            let count = i32::try_from(items.len()).unwrap();
            doc! { "_id": format!("123_{second:010}"), "customerId": 123, "count": count, "history": history }
        };
        let trades = ready(db, identified(db).page_size(3)).await;
        let buckets = [
            bucket(100, &[0, 1, 2]),
            bucket(200, &[3]),
            bucket(300, &[4, 5, 6]),
            bucket(400, &[7, 8, 9]),
        ];
        plain(db).insert_many(buckets).await.unwrap();
        assert!(trades.remove_item(&123, 8).await.unwrap().found);
        assert_eq!(pages(&trades).await, [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 9]]);
        assert!(trades.remove_item(&123, 9).await.unwrap().found);
        assert_eq!(pages(&trades).await, [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
    })
    .await;
}

#[tokio::test]
async fn a_removal_that_fails_at_any_command_is_complete_or_has_no_effect() {
    testkit::run(async |db| {
        for command in ["find", "delete", "insert", "commitTransaction"] {
            for (code, labels) in [(96, &[][..]), (112, &["TransientTransactionError"][..])] {
                plain(db).drop().await.unwrap();
                let trades = filled(db, 3, 10).await;
                let skip = u32::from(command == "find");
                let fault = if skip > 0 {
                    FailPoint::on(&[command]).skip(skip)
                } else {
                    FailPoint::on(&[command]).times(1)
                };
                // After a failed commit the server ends the transaction, after a minute.
                if skip > 0 && code == 112 || command == "commitTransaction" && code == 96 {
                    continue;
                }
                let fault = fault.error_code(code).error_labels(labels).enable(db).await;
                let removed = trades.remove_item(&123, 4).await;
                fault.disable().await;
                let whole: Vec<i64> = (0..10).collect();
                let without: Vec<i64> = (0..10).filter(|n| *n != 4).collect();
                match removed {
                    Ok(removed) => {
                        assert!(removed.found && code == 112, "{command} {code}");
                        assert_eq!(pages(&trades).await, chunks(&without, 3));
                    }
                    Err(error) => {
                        assert_eq!(code, 96, "{command}: {error}");
                        assert_eq!(pages(&trades).await, chunks(&whole, 3), "{command}");
                        assert!(trades.remove_item(&123, 4).await.unwrap().found);
                        assert_eq!(pages(&trades).await, chunks(&without, 3));
                    }
                }
            }
        }
    })
    .await;
}

/// As when the process is killed: nothing is sent after the running command.
#[tokio::test]
async fn a_removal_that_is_dropped_at_any_command_is_complete_or_has_no_effect() {
    testkit::run(async |db| {
        let mut dropped = 0;
        for skip in 0.. {
            plain(db).drop().await.unwrap();
            let trades = filled(db, 3, 10).await;
            db.recorder().clear();
            let block = FailPoint::on(&[]).times(1).block(Duration::from_millis(30));
            let fault = block.plan(db, skip);
            let sent = db.recorder().sent(skip + 1);
            let done = tokio::select! {
                biased;
                () = sent => false,
                removed = trades.remove_item(&123, 4) => removed.unwrap().found,
            };
            dropped += u32::from(!done);
            fault.end();
            end_transactions(db).await;
            let there = trades.item(&123, 4).await.unwrap().is_some();
            let left: Vec<i64> = (0..10).filter(|n| *n != 4 || there).collect();
            assert_eq!(pages(&trades).await, chunks(&left, 3), "after {skip} commands");
            assert_eq!(trades.remove_item(&123, 4).await.unwrap().found, there);
            let left: Vec<i64> = (0..10).filter(|n| *n != 4).collect();
            assert_eq!(pages(&trades).await, chunks(&left, 3));
            if done {
                break;
            }
        }
        assert!(dropped >= 5, "{dropped}");
    })
    .await;
}

fn set(field: &str) -> Document {
    doc! { "$set": { field: 1 } }
}

#[tokio::test]
async fn errors_of_invalid_input_and_setup_say_what_to_do() {
    testkit::run(async |db| {
        let without = trades(db).await;
        for error in [
            without.item(&123, 1).await.unwrap_err(),
            without.remove_item(&123, 1).await.unwrap_err(),
            without.replace_item(&123, &spread(1)).await.unwrap_err(),
            without.update_item(&123, 1, set("a")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains("item_id_field"));
        }
        let trades = identified(db).build().unwrap();
        for error in [
            trades.item(&123, 1).await.unwrap_err(),
            trades.remove_item(&123, 1).await.unwrap_err(),
            trades.replace_item(&123, &spread(1)).await.unwrap_err(),
            trades.update_item(&123, 1, set("a")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error}");
            assert!(error.to_string().contains("customerId_1_history.n_1"), "{error}");
        }
        trades.ensure_indexes().replace_settings().await.unwrap();
        for id in [Bson::Null, 1.5.into(), doc! { "$gt": 0 }.into()] {
            let item = trades.item(&123, id.clone()).await.unwrap_err();
            let remove = trades.remove_item(&123, id).await.unwrap_err();
            assert_eq!([item.kind(), remove.kind()], [ErrorKind::InvalidItemId; 2]);
        }
    })
    .await;
}

/// As for an append of an item that cannot be stored.
#[tokio::test]
async fn the_error_of_an_invalid_item_or_id_names_the_key() {
    testkit::run(async |db| {
        let items = untimed::<u32, Document>(db).time_field("date").item_id_field("n");
        let items = items.build().unwrap();
        items.ensure_indexes().await.unwrap();
        let (bad_id, timeless) = (doc! { "n": 1.5, "date": at(SECOND) }, doc! { "n": 1 });
        let good = doc! { "n": 1, "date": at(SECOND) };
        let (two, other_two) = ([good.clone(), bad_id.clone()], [good.clone(), timeless.clone()]);
        let stream = futures::stream::iter([(123, bad_id.clone())]);
        let errors = [
            items.append(&123, &bad_id).await.unwrap_err(),
            items.append(&123, &timeless).await.unwrap_err(),
            items.append(&123, &doc! { "date": at(SECOND) }).await.unwrap_err(),
            items.append(&123, &good).at(at(-1)).await.unwrap_err(),
            items.append_many(&123, &two).await.unwrap_err(),
            items.append_many(&123, &other_two).await.unwrap_err(),
            items.append_stream(stream).await.unwrap_err(),
            items.item(&123, 1.5).await.unwrap_err(),
            items.remove_item(&123, 1.5).await.unwrap_err(),
            items.replace_item(&123, &bad_id).await.unwrap_err(),
            items.replace_item(&123, &timeless).await.unwrap_err(),
            items.update_item(&123, 1.5, set("qty")).await.unwrap_err(),
            items.update_item(&123, 1, set("date")).await.unwrap_err(),
            items.update_item(&123, 1, set("n")).await.unwrap_err(),
        ];
        let times: [Bson; 4] = [
            "2023-10-26T15:47:03Z".into(),
            Bson::Null,
            at(-1).into(),
            at(10_000_000_000).into(),
        ];
        db.recorder().clear();
        for time in times {
            let error = items
                .append(&123, &doc! { "n": 2, "date": time.clone() })
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind(), error.is_invalid_input()),
                (ErrorKind::InvalidTime, true),
                "{time}"
            );
        }
        assert_eq!(db.recorder().round_trips(), 0);
        for (number, error) in errors.iter().enumerate() {
            assert!(error.is_invalid_input(), "{number}: {error:?}");
            assert_eq!(error.key(), Some("123"), "{number}: {error:?}");
        }
        assert!(all(&plain(db)).await.is_empty());
    })
    .await;
}
