//! Items of all keys: pipelines, views and finds.

use std::collections::BTreeSet;
use std::ops::Range;

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{BucketRepository, FoundItem};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::IndexModel;
use mongodb::bson::{DateTime, Document, doc};

use support::bucket::*;
use support::common::*;
use support::explain::{documents_examined, explained};

/// Three customers with 25 trades each. Trade `n` has the quantity `n`, and the ticker `T{n % 5}`.
async fn filled(db: &TestDatabase) -> BucketRepository<u32, Document> {
    let trades = trades_of_documents(db).await;
    for customer in [1, 2, 12] {
        let items: Vec<Document> = (0..25).map(item).collect();
        trades.append_many(&customer, &items).await.unwrap();
    }
    db.recorder().clear();
    trades
}

fn item(n: i32) -> Document {
    doc! { "ticker": format!("T{}", n % 5), "qty": n, "date": at(SECOND + i64::from(n)) }
}

/// What a filter must find, by customer and quantity.
fn expected(wanted: impl Fn(u32, i32) -> bool) -> BTreeSet<(u32, i32)> {
    let all = [1, 2, 12]
        .into_iter()
        .flat_map(|customer| (0..25).map(move |n| (customer, n)));
    all.filter(|(customer, n)| wanted(*customer, *n)).collect()
}

async fn found(trades: &BucketRepository<u32, Document>, filter: Document) -> BTreeSet<(u32, i32)> {
    let found: Vec<FoundItem<u32, Document>> = collected(trades.find_items(filter).stream()).await;
    let pairs: BTreeSet<_> = found
        .iter()
        .map(|found| (found.key, found.item.get_i32("qty").unwrap()))
        .collect();
    assert_eq!(pairs.len(), found.len(), "each item once");
    pairs
}

/// Finds the items of a key and a range of time by a filter, and compares them.
pub async fn compare(trades: &Trades, key: u32, range: Range<DateTime>, expected: &[Trade]) {
    let filter = doc! { "customerId": key, "date": { "$gte": range.start, "$lt": range.end } };
    let found: Vec<FoundItem<u32, Trade>> = collected(trades.find_items(filter).stream()).await;
    let sorted = |mut trades: Vec<Trade>| {
        trades.sort_by_key(|trade| trade.n);
        trades
    };
    assert!(found.iter().all(|found| found.key == key));
    let found = found.into_iter().map(|found| found.item).collect();
    assert_eq!(sorted(found), sorted(expected.to_vec()));
}

#[tokio::test]
async fn a_filter_applies_to_single_items_and_to_keys_and_takes_values_literally() {
    testkit::run(async |db| {
        let trades = filled(db).await;
        type Wanted = fn(u32, i32) -> bool;
        let cases: [(Document, Wanted); 8] = [
            (doc! {}, |_, _| true),
            (doc! { "ticker": "T3" }, |_, n| n % 5 == 3),
            // Every bucket has items that match one of the two conditions.
            (doc! { "ticker": "T3", "qty": 4 }, |_, _| false),
            (doc! { "ticker": "T3", "customerId": 12 }, |customer, n| customer == 12 && n % 5 == 3),
            (doc! { "qty": { "$gte": 8, "$lt": 12 } }, |_, n| (8..12).contains(&n)),
            (doc! { "qty": { "$not": { "$gte": 3 } } }, |_, n| n < 3),
            (doc! { "$or": [{ "customerId": 1 }, { "qty": 24 }] }, |customer, n| customer == 1 || n == 24),
            (
                doc! { "$and": [{ "qty": { "$gt": 5 } }, { "qty": { "$lt": 8 } }, { "$nor": [{ "customerId": { "$lt": 12 } }] }] },
                |customer, n| customer == 12 && (6..8).contains(&n),
            ),
        ];
        for (filter, wanted) in cases {
            assert_eq!(found(&trades, filter.clone()).await, expected(wanted), "{filter}");
            let mut stages = trades.items_pipeline(filter.clone()).unwrap();
            stages.push(doc! { "$project": { "_id": 0, "customerId": 1, "qty": 1 } });
            let rows: Vec<Document> = plain(db).aggregate(stages).await.unwrap().try_collect().await.unwrap();
            let key = |row: &Document| row.get_i32("customerId").unwrap().unsigned_abs();
            let rows: BTreeSet<_> = rows.iter().map(|row| (key(row), row.get_i32("qty").unwrap())).collect();
            assert_eq!(rows, expected(wanted), "{filter}");
        }
        db.recorder().clear();
        let order = doc! { "qty": -1, "customerId": 1 };
        let sorted = trades.find_items(doc! { "ticker": "T1" }).sort(order).limit(4).stream();
        let sorted = collected(sorted).await.into_iter().map(|found| (found.key, found.item));
        let sorted: Vec<(u32, Document)> = sorted.collect();
        assert_eq!(sorted, [(1, item(21)), (2, item(21)), (12, item(21)), (1, item(16))]);
        assert_eq!(db.recorder().round_trips(), 1);
        let order = doc! { "qty": -1, "customerId": 1 };
        let awaited = trades.find_items(doc! { "ticker": "T1" }).sort(order).limit(4).await.unwrap();
        let awaited: Vec<(u32, Document)> = awaited.into_iter().map(|found| (found.key, found.item)).collect();
        assert_eq!(awaited, sorted);

        // The fields of items are data: names with `$` and dots stay names, and values are not evaluated.
        let mut hostile = item(99);
        hostile.extend(doc! { "customerId": "$history", "note": "$$ROOT", "$set": { "a.b": 1 } });
        trades.append(&1, &hostile).await.unwrap();
        let found = collected(trades.find_items(doc! { "note": "$$ROOT" }).stream()).await;
        assert_eq!((found.len(), found[0].key, &found[0].item), (1, 1, &hostile));
        // The key field is that of the bucket.
        assert!(collected(trades.find_items(doc! { "customerId": "$history" }).stream()).await.is_empty());
        let stages = trades.items_pipeline(doc! { "qty": 99 }).unwrap();
        let row = plain(db).aggregate(stages).await.unwrap().try_next().await.unwrap().unwrap();
        assert_eq!(row.get_i32("customerId").unwrap(), 1);
        assert_eq!(row.get_document("$set").unwrap(), &doc! { "a.b": 1 });
    })
    .await;
}

#[tokio::test]
async fn a_filter_reads_the_buckets_of_an_index_only() {
    testkit::run(async |db| {
        let trades = filled(db).await;
        let filter = doc! { "qty": { "$gte": 23 }, "ticker": "T3" };
        let scan = trades.find_items(filter.clone()).explain().await.unwrap();
        assert_eq!((scan.indexes.as_slice(), scan.documents_examined), (&[][..], 9));
        let advice = scan.advice.unwrap();
        assert_eq!(advice, doc! { "history.ticker": 1, "history.qty": 1 });
        let index = IndexModel::builder().keys(advice).build();
        let name = plain(db).create_index(index).await.unwrap().index_name;

        let plan = trades.find_items(filter.clone()).explain().await.unwrap();
        assert_eq!(
            (plan.indexes.clone(), plan.documents_examined, plan.advice.clone()),
            (vec![name], 3, None)
        );
        assert!(
            (3..=4).contains(&plan.keys_examined),
            "one entry an item, and an end: {plan:?}"
        );
        assert_eq!(found(&trades, filter.clone()).await, expected(|_, n| n == 23));
        let sent = db.recorder().commands().pop().unwrap();
        assert_eq!(documents_examined(&explained(db, &sent).await), 3);
        // The user's own aggregation uses it as well.
        let aggregate =
            doc! { "aggregate": "trades", "pipeline": trades.items_pipeline(filter).unwrap(), "cursor": {} };
        let explain = doc! { "explain": aggregate, "verbosity": "executionStats" };
        let database = db.plain_client().database(db.database().name());
        assert_eq!(documents_examined(&database.run_command(explain).await.unwrap()), 3);

        // No index helps.
        let absent = doc! { "note": { "$exists": false } };
        let plan = trades.find_items(absent).explain().await.unwrap();
        assert_eq!((plan.indexes.len(), plan.advice), (0, None));
    })
    .await;
}

#[tokio::test]
async fn invalid_input_and_other_types_are_errors() {
    testkit::run(async |db| {
        let trades = filled(db).await;
        let filter = doc! { "$expr": { "$eq": ["$qty", 1] } };
        assert_refused(trades.items_pipeline(filter.clone()), ErrorKind::InvalidArgument);
        let mut session = db.client().start_session().await.unwrap();
        let zero = || trades.find_items(doc! {}).limit(0);
        let errors = [
            trades.find_items(filter).stream().try_next().await.unwrap_err(),
            zero().stream().try_next().await.unwrap_err(),
            zero().await.unwrap_err(),
            zero().explain().await.unwrap_err(),
            trades
                .find_items(doc! {})
                .session(&mut session)
                .explain()
                .await
                .unwrap_err(),
            trades
                .find_items(doc! {})
                .session(&mut session)
                .stream()
                .try_next()
                .await
                .unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                (error.kind(), error.operation()),
                (ErrorKind::InvalidArgument, Some("find_items"))
            );
        }
        assert_eq!(db.recorder().round_trips(), 0);

        let mistyped = builder(db).build().unwrap();
        let error = mistyped.find_items(doc! {}).stream().try_next().await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Decode, Some("history.n")));
        let of_text = doc! { "_id": "x_1698335223", "customerId": "x", "count": 1, "history": [item(77)] };
        plain(db).insert_one(of_text).await.unwrap();
        let mut found = trades.find_items(doc! { "qty": 77 }).stream();
        let error = found.try_next().await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Corrupt, Some("customerId")));
    })
    .await;
}
