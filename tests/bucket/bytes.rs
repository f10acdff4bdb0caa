//! Buckets with a bound of bytes: what each write leaves, and what it costs.

use mongo_patterns::bucket::{Problem, Window};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Binary, Bson, DateTime, Document, doc, spec::BinarySubtype};

use support::bucket::bytes::*;
use support::bucket::figures::{Orders, prepared};
use support::bucket::*;
use support::common::*;

/// A stored bucket in short: the numbers of its items, and its bytes.
pub type Page = (Vec<i64>, i64);

pub fn numbers_in(bucket: &Document) -> Vec<i64> {
    let number = |item: &Bson| item.as_document().unwrap().get_i64("n").unwrap();
    bucket.get_array("history").unwrap().iter().map(number).collect()
}

pub async fn pages(db: &TestDatabase) -> Vec<Page> {
    let page = |bucket: &Document| (numbers_in(bucket), i64::from(bucket.get_i32("bytes").unwrap()));
    all(&plain(db)).await.iter().map(page).collect()
}

pub async fn check(db: &TestDatabase, orders: &Orders) {
    let found = violations_of(&all(&plain(db)).await, BOUND, orders.page_size() as usize);
    assert_eq!(found, [""; 0]);
    assert_eq!(problems(orders).await, []);
}

pub async fn problems(orders: &Orders) -> Vec<Problem> {
    let found = collected(orders.verify().stream()).await;
    found.into_iter().map(|finding| finding.problem).collect()
}

pub async fn repair(orders: &Orders) {
    let repaired = collected(orders.repair().stream()).await;
    let all_are = repaired.iter().all(|repaired| repaired.unrepaired.is_none());
    assert!(all_are, "{repaired:?}");
}

/// Returns the names of the commands since the last call.
pub fn sent(db: &TestDatabase) -> Vec<String> {
    let names = db.recorder().names();
    db.recorder().clear();
    names
}

#[tokio::test]
async fn an_append_that_does_not_fit_closes_the_bucket() {
    testkit::run(async |db| {
        let orders = untimed::<u32, Document>(db).time_field("date").max_bucket_bytes(BOUND);
        let orders = prepared(db, orders).await;
        for n in 0..3 {
            orders.append(&123, &sized(n, 300)).await.unwrap();
            assert_eq!(sent(db), ["update"]);
        }
        let open = doc! {
            "_id": format!("123_{SECOND}"), "customerId": 123, "count": 3, "bytes": 900,
            "history": [sized(0, 300), sized(1, 300), sized(2, 300)],
        };
        assert_eq!(all(&plain(db)).await, [open]);
        let appended = orders.append(&123, &sized(3, 101)).await.unwrap();
        assert_eq!(appended.opened, Some(format!("123_{}", SECOND + 3)));
        assert_eq!(sent(db), ["update", "findAndModify", "update"]);
        assert_eq!(pages(db).await, [(vec![0, 1, 2], 1000), (vec![3], 101)]);
        // A closed bucket takes no item that would fit.
        orders.append(&123, &sized(4, 100)).await.unwrap();
        // One that fits exactly makes the bucket full.
        orders.append(&123, &sized(5, 799)).await.unwrap();
        assert_eq!(sent(db), ["update", "update"]);
        orders.append(&123, &sized(6, 100)).await.unwrap();
        assert_eq!(sent(db), ["update"]);
        let expected = [(vec![0, 1, 2], 1000), (vec![3, 4, 5], 1000), (vec![6], 100)];
        assert_eq!(pages(db).await, expected);
        check(db, &orders).await;
    })
    .await;
}

#[tokio::test]
async fn an_item_as_large_as_the_bound_has_a_bucket_of_its_own() {
    testkit::run(async |db| {
        for policy in POLICIES {
            plain(db).drop().await.unwrap();
            let orders = prepared(db, bounded(db).id_policy(policy)).await;
            for (n, bytes) in [(0, 100), (1, 5000), (2, 100), (3, 1000), (4, 1001), (5, 100)] {
                let appended = orders.append(&123, &sized(n, bytes)).await.unwrap();
                assert!(appended.opened.is_some(), "{n}");
            }
            let bytes = [1000, 5000, 1000, 1000, 1001, 100];
            let expected: Vec<Page> = (0..).zip(bytes).map(|(n, bytes)| (vec![n], bytes)).collect();
            assert_eq!(pages(db).await, expected);
            check(db, &orders).await;
        }
    })
    .await;
}

#[tokio::test]
async fn other_values_than_documents_have_the_bytes_that_the_server_counts() {
    testkit::run(async |db| {
        let values = untimed::<u32, Bson>(db).page_size(50).max_bucket_bytes(30);
        let values = values.build().unwrap();
        values.ensure_indexes().await.unwrap();
        let (subtype, bytes) = (BinarySubtype::Generic, vec![1, 2, 3]);
        let binary = Bson::Binary(Binary { subtype, bytes });
        let given = [
            Bson::Int32(1),
            Bson::Null,
            Bson::Int64(2),
            "text".into(),
            Bson::Null,
            Bson::Double(0.5),
            binary,
            true.into(),
            Bson::Array(vec![1.into(), "a".into()]),
            doc! { "$a": 1 }.into(),
            DateTime::now().into(),
            "x".repeat(40).into(),
            Bson::Null,
        ];
        let mut time = SECOND;
        for value in &given {
            time += 1;
            values.append(&1, value).at(at(time)).await.unwrap();
        }
        values.append_many(&2, &given).at(at(SECOND)).await.unwrap();
        for key in [1, 2] {
            let stored: Vec<Bson> = collected(values.items(&key).stream()).await;
            assert_eq!(stored, given);
        }
        let found = collected(values.verify().stream()).await;
        let is_null = |problem| matches!(problem, Problem::ItemNull { .. });
        assert!(found.iter().all(|finding| is_null(finding.problem)), "{found:?}");
        let sums = all(&plain(db)).await.into_iter();
        let sums: Vec<i32> = sums.map(|bucket| bucket.get_i32("bytes").unwrap()).collect();
        assert!(sums.len() > 6 && sums.contains(&45), "{sums:?}");
    })
    .await;
}

#[tokio::test]
async fn a_batch_is_cut_by_items_and_by_bytes() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db)).await;
        let sizes = [
            300, 300, 300, 200, 200, 200, 200, 200, 50, 50, 50, 50, 50, 700, 300, 1, 2000, 100,
        ];
        let items: Vec<Document> = (0..).zip(sizes).map(|(n, bytes)| sized(n, bytes.max(60))).collect();
        let appended = orders.append_many(&123, &items).await.unwrap();
        assert_eq!(sent(db).last().map(String::as_str), Some("insert"));
        let expected: [Page; 7] = [
            (vec![0, 1, 2], 1000),
            (vec![3, 4, 5, 6, 7], 1000),
            (vec![8, 9, 10, 11, 12], 300),
            (vec![13, 14], 1000),
            (vec![15], 1000),
            (vec![16], 2000),
            (vec![17], 100),
        ];
        assert_eq!((pages(db).await, appended.opened), (expected.to_vec(), 7));
        check(db, &orders).await;
        // The open bucket takes what fits, and is closed by the same command.
        db.recorder().clear();
        let items = [(18, 500), (19, 500), (20, 600)].map(|(n, bytes)| sized(n, bytes));
        let appended = orders.append_many(&123, &items).await.unwrap();
        assert_eq!(appended.opened, 2);
        assert_eq!(sent(db), ["findAndModify", "insert"]);
        let expected = [(vec![17, 18], 1000), (vec![19], 1000), (vec![20], 600)];
        assert_eq!(pages(db).await[6..], expected);
        // It is closed also if the items fit, and the next one does not.
        let items = [sized(21, 200), sized(22, 900)];
        orders.append_many(&123, &items).await.unwrap();
        assert_eq!(pages(db).await[8..], [(vec![20, 21], 1000), (vec![22], 900)]);
        // None fits.
        let items = [sized(23, 200), sized(24, 200)];
        orders.append_many(&123, &items).await.unwrap();
        assert_eq!(pages(db).await[9..], [(vec![22], 1000), (vec![23, 24], 400)]);
        let stored: Vec<Document> = collected(orders.items(&123).stream()).await;
        assert_eq!(stored.len(), 25);
        assert!(stored.is_sorted_by_key(|item| item.get_i64("n").unwrap()));
        check(db, &orders).await;
    })
    .await;
}

#[tokio::test]
async fn each_window_has_an_open_bucket_of_its_own() {
    testkit::run(async |db| {
        let window = Window::every(std::time::Duration::from_secs(10));
        let orders = prepared(db, bounded(db).window(window)).await;
        let second = SECOND - SECOND % 10;
        let item = |n: i64, of: i64, bytes| {
            let mut item = sized(n, bytes);
            item.insert("date", at(second + of));
            item
        };
        for (n, of) in [(0, 1), (1, 11), (2, 2), (3, 12), (4, 3), (5, 13)] {
            orders.append(&123, &item(n, of, 400)).await.unwrap();
        }
        let expected = [(vec![0, 2], 1000), (vec![4], 400), (vec![1, 3], 1000), (vec![5], 400)];
        assert_eq!(pages(db).await, expected);
        let batch: Vec<Document> = (6..16).map(|n| item(n, n * 2, 400)).collect();
        orders.append_many(&123, &batch).await.unwrap();
        assert!(orders.remove_item(&123, 0_i64).await.unwrap().found);
        check(db, &orders).await;
        let stored: Vec<Document> = collected(orders.items(&123).stream()).await;
        assert_eq!(stored.len(), 15);
    })
    .await;
}

#[tokio::test]
async fn an_item_that_is_stored_is_not_appended_again() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db)).await;
        for n in 0..4 {
            orders.append(&123, &sized(n, 400)).await.unwrap();
        }
        // In a closed bucket, and in the open one, which has no room for another such item.
        orders.append(&123, &sized(4, 400)).await.unwrap();
        for n in [0, 2, 3, 4] {
            assert!(orders.append(&123, &sized(n, 700)).await.unwrap().already_there, "{n}");
        }
        let before = pages(db).await;
        let batch: Vec<Document> = (0..6).map(|n| sized(n, 400)).collect();
        let appended = orders.append_many(&123, &batch).await.unwrap();
        assert_eq!((appended.items, appended.already_there), (1, 5));
        assert_eq!(pages(db).await[..2], before[..2]);
        check(db, &orders).await;
    })
    .await;
}
