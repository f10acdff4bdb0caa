//! Windows of time: the stored buckets, the cost of appends and reads, and what is refused, with nothing stored.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{BucketRepositoryBuilder, Window};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{ReadConcern, TransactionOptions};

use support::bucket::*;
use support::common::*;

/// 2023-10-26T15:00:00Z.
pub const HOUR: i64 = 1_698_332_400;

/// Returns trade `n`, in a second of an hour.
pub fn in_hour(n: i64, hour: i64, second: i64) -> Trade {
    let date = at(HOUR + hour * 3600 + second);
    Trade { n, date }
}

pub fn windowed(db: &TestDatabase) -> BucketRepositoryBuilder<u32, Trade> {
    builder(db).page_size(3).window(Window::Hour)
}

/// Returns a bucket of key 123 with trades of an hour, which were appended at these seconds.
pub fn bucket_of(hour: i64, seconds: &[i64]) -> Document {
    let trade =
        |second: &i64| -> Bson { doc! { "n": hour * 3600 + second, "date": at(HOUR + hour * 3600 + second) }.into() };
    let history: Vec<Bson> = seconds.iter().map(trade).collect();
    doc! {
        "_id": format!("123_{}", HOUR + hour * 3600 + seconds[0]),
        "customerId": 123,
        "window": at(HOUR + hour * 3600),
        "count": i32::try_from(seconds.len()).unwrap(),
        "history": history,
    }
}

/// Returns the buckets of a snapshot.
pub async fn snapshot(collection: &Collection<Document>) -> Vec<Document> {
    let mut session = collection.client().start_session().await.unwrap();
    let options = TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .build();
    session.start_transaction().with_options(options).await.unwrap();
    let mut cursor = collection.find(doc! {}).session(&mut session).await.unwrap();
    let found = cursor.stream(&mut session).try_collect().await.unwrap();
    session.commit_transaction().await.unwrap();
    found
}

/// Returns the violations in buckets with windows of this many seconds.
pub fn violations_of(buckets: &[Document], page_size: usize, seconds: i64) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = std::collections::BTreeSet::new();
    let start = |second: i64| at(second - second % seconds);
    for bucket in buckets {
        let id = bucket.get_str("_id").unwrap();
        let items = bucket.get_array("history").unwrap();
        let window = *bucket.get_datetime("window").unwrap();
        let key = bucket.get_i32("customerId").unwrap();
        if usize::try_from(bucket.get_i32("count").unwrap()).unwrap() != items.len() {
            found.push(format!("{id} counts"));
        }
        if items.is_empty() || items.len() > page_size {
            found.push(format!("{id} has {} items", items.len()));
        }
        if items.len() < page_size && !open.insert((key, window)) {
            found.push(format!("{id} is open too"));
        }
        let second: i64 = id.split('_').nth(1).unwrap().parse().unwrap();
        if start(second) != window {
            found.push(format!("{id} is in {window}"));
        }
        for item in items {
            let date = item.as_document().unwrap().get_datetime("date").unwrap();
            if start(date.timestamp_millis() / 1000) != window {
                found.push(format!("{id} has an item of {date}"));
            }
        }
    }
    found
}

#[tokio::test]
async fn an_item_goes_to_the_bucket_of_its_window() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db)).await;
        let times = [(0, 5), (0, 9), (1, 0), (0, 7), (0, 1), (2, 3)];
        for (n, (hour, second)) in (0..).zip(times) {
            let appended = trades.append(&123, &in_hour(n, hour, second)).await.unwrap();
            let opens = [0, 2, 4, 5].contains(&n);
            let id = format!("123_{}", HOUR + hour * 3600 + second);
            assert_eq!(appended.opened, opens.then_some(id));
            assert!(explain_last(db).await.documents <= 1);
        }
        assert_eq!(db.recorder().names(), vec!["update"; 6]);
        let trade = |n: i64, hour: i64, second: i64| doc! { "n": n, "date": at(HOUR + hour * 3600 + second) };
        let expected = [
            doc! {
                "_id": "123_1698332401", "customerId": 123, "window": at(HOUR), "count": 1, "history": [trade(4, 0, 1)],
            },
            doc! {
                "_id": "123_1698332405", "customerId": 123, "window": at(HOUR), "count": 3,
                "history": [trade(0, 0, 5), trade(1, 0, 9), trade(3, 0, 7)],
            },
            doc! {
                "_id": "123_1698336000", "customerId": 123, "window": at(HOUR + 3600), "count": 1,
                "history": [trade(2, 1, 0)],
            },
            doc! {
                "_id": "123_1698339603", "customerId": 123, "window": at(HOUR + 7200), "count": 1,
                "history": [trade(5, 2, 3)],
            },
        ];
        // In any order of fields: since 7.0, an upsert takes those of its filter in a random one.
        assert_eq!(all(&plain(db)).await, expected);

        let command = db.recorder().commands().pop().unwrap().essence();
        let update = command.get_array("updates").unwrap()[0].as_document().unwrap();
        let filter = doc! {
            "_id": { "$gte": "123_1698339600", "$lt": "123_1698343199`" },
            "customerId": 123,
            "window": at(HOUR + 7200),
            "count": { "$lt": 3 },
        };
        assert_eq!(update.get_document("q").unwrap(), &filter);
        assert_eq!(update.get_str("hint").unwrap(), "customerId_1_count_lt_3_window_3600s");

        let newest = trades.newest(&123, 4).await.unwrap();
        assert_eq!(numbers(&newest), [5, 2, 3, 1]);
    })
    .await;
}

/// 1,000 full buckets of one key, and an open one in each of its 250 windows.
async fn long_history(db: &TestDatabase) {
    let buckets = (0..250).flat_map(|hour| {
        let full = [0, 10, 20, 30].map(|first| bucket_of(hour, &[first, first + 1, first + 2]));
        full.into_iter().chain([bucket_of(hour, &[40])])
    });
    plain(db).insert_many(buckets).await.unwrap();
}

#[tokio::test]
async fn costs_do_not_depend_on_the_length_of_the_history() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db)).await;
        long_history(db).await;
        // Into open buckets of old and new windows, and into new windows before and after all others.
        for (n, hour) in (0..).zip([249, 0, 120, 120, 120, 250, -5]) {
            db.recorder().clear();
            trades.append(&123, &in_hour(n, hour, 50 + n)).await.unwrap();
            assert_eq!(db.recorder().names(), ["update"], "hour {hour}");
            let examined = explain_last(db).await;
            assert!(examined.documents <= 1 && examined.keys <= 2, "{examined:?}");
            assert_eq!(examined.index, "customerId_1_count_lt_3_window_3600s");
        }

        for newest_first in [false, true] {
            db.recorder().clear();
            let items = trades.items(&123).from(at(HOUR + 360_000)).until(at(HOUR + 367_200));
            let items = if newest_first { items.newest_first() } else { items };
            let read: Vec<Trade> = collected(items.stream()).await;
            assert_eq!(read.len(), 26);
            assert_eq!(db.recorder().names(), ["find"]);
            let examined = explain_last(db).await;
            assert_eq!((examined.documents, examined.index.as_str()), (10, "_id_"));
        }
        // A range inside a window, of which only some items are.
        db.recorder().clear();
        let items = trades.items(&123).from(at(HOUR + 360_011)).until(at(HOUR + 360_021));
        let read: Vec<i64> = items.stream().map_ok(|trade| trade.n).try_collect().await.unwrap();
        assert_eq!(read, [360_011, 360_012, 360_020]);
        assert_eq!(explain_last(db).await.documents, 5);
    })
    .await;
}

#[tokio::test]
async fn totals_and_removals_read_the_windows_of_their_range() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db).sum("n").first_and_last()).await;
        for n in 0..100 {
            trades.append(&123, &in_hour(n, n / 5, n % 5)).await.unwrap();
        }
        db.recorder().clear();
        let totals = trades.totals(&123).from(at(HOUR + 7201)).until(at(HOUR + 10_802));
        let totals = totals.await.unwrap();
        let expected: Vec<i64> = (0..100).filter(|n| (11..17).contains(n)).collect();
        assert_eq!(totals.items, expected.len() as u64);
        assert_eq!(totals.sum("n"), Some(&Bson::Int64(expected.iter().sum())));
        assert_eq!(db.recorder().names(), ["aggregate"]);
        assert_eq!(explain_last(db).await.documents, 4);

        let removed = trades.delete_key_before(&123, at(HOUR + 3603)).await.unwrap();
        assert_eq!((removed.documents, removed.items), (3, 0));
        let removed = trades.delete_key_before(&123, at(HOUR + 7204)).exact().await.unwrap();
        assert_eq!((removed.documents, removed.items), (2, 1));
        let left = collected(trades.items(&123).stream()).await;
        assert_eq!(numbers(&left), (14..100).collect::<Vec<_>>());
        assert_eq!(violations_of(&all(&plain(db)).await, 3, 3600), Vec::<String>::new());
        let findings = collected(trades.verify().stream()).await;
        assert_eq!(findings, []);
    })
    .await;
}

#[tokio::test]
async fn an_item_stays_in_its_window() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db).item_id_field("n")).await;
        for n in 0..6 {
            trades.append(&123, &in_hour(n, n / 3, n)).await.unwrap();
        }
        let before = all(&plain(db)).await;
        let set = |operator: &str, date: DateTime| doc! { operator: { "date": date } };
        let (earlier, later) = (at(HOUR - 1), at(HOUR + 3600));
        for update in [
            set("$set", earlier),
            set("$set", later),
            set("$min", earlier),
            set("$max", later),
        ] {
            let error = trades.update_item(&123, 1, update.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidTime, "{update}");
        }
        let error = trades.replace_item(&123, &in_hour(1, 1, 0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTime);
        let clock = doc! { "$currentDate": { "date": true } };
        assert_refused(trades.update_item(&123, 1, clock).await, ErrorKind::InvalidTime);
        let missing = trades.update_item(&123, 99, set("$set", later)).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        // These leave the time as it is.
        for update in [set("$min", later), set("$max", earlier)] {
            assert!(!trades.update_item(&123, 1, update).await.unwrap().modified);
        }
        assert_eq!(all(&plain(db)).await, before);

        for update in [
            set("$set", at(HOUR + 3599)),
            set("$min", at(HOUR)),
            set("$max", at(HOUR + 9)),
        ] {
            db.recorder().clear();
            assert!(trades.update_item(&123, 1, update).await.unwrap().modified);
            assert_eq!(db.recorder().names(), ["update"]);
            assert_eq!(explain_last(db).await.documents, 1);
        }
        assert!(trades.replace_item(&123, &in_hour(1, 0, 77)).await.unwrap().modified);
        assert_eq!(trades.item(&123, 1).await.unwrap(), Some(in_hour(1, 0, 77)));
    })
    .await;
}

#[tokio::test]
async fn a_time_of_another_window_or_none_is_refused() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db)).await;
        let within = trades.append(&123, &in_hour(1, 0, 5)).at(at(HOUR + 3599));
        assert_eq!(within.await.unwrap().opened.as_deref(), Some("123_1698335999"));
        db.recorder().clear();
        let refused = trades.append(&123, &in_hour(1, 0, 5)).at(at(HOUR + 3600)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidTime);
        let items = [in_hour(2, 0, 5), in_hour(3, 1, 5)];
        let refused = trades.append_many(&123, &items).at(at(HOUR)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidTime);
        let before = Trade {
            n: 1,
            date: DateTime::from_millis(-1),
        };
        let refused = trades.append(&123, &before).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidTime);
        assert_eq!(db.recorder().names(), Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn settings_of_other_windows_are_refused() {
    testkit::run(async |db| {
        let plain_settings = || builder(db).page_size(3);
        let trades = ready(db, windowed(db)).await;
        trades.append(&123, &in_hour(1, 0, 5)).await.unwrap();
        let others = [
            plain_settings(),
            plain_settings().window(Window::Day),
            windowed(db).window_field("start"),
        ];
        let before = all(&plain(db)).await;
        for other in others {
            let other = other.build().unwrap();
            assert_refused(other.ensure_indexes().await, ErrorKind::SettingsMismatch);
            assert_refused(other.append(&123, &in_hour(2, 0, 6)).await, ErrorKind::IndexMissing);
            let verified: Result<Vec<_>, _> = other.verify().stream().try_collect().await;
            assert_eq!(verified.unwrap_err().kind(), ErrorKind::SettingsMismatch);
        }
        // Without an entry in the catalog, the index shows the windows.
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        catalog.delete_many(doc! {}).await.unwrap();
        let other = plain_settings().build().unwrap();
        assert_refused(other.ensure_indexes().await, ErrorKind::SettingsMismatch);
        assert_eq!(all(&plain(db)).await, before);
        windowed(db).build().unwrap().ensure_indexes().await.unwrap();
    })
    .await;
}
