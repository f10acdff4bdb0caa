//! The figures of buckets against a model in memory: the items of two keys.

use futures::{TryStreamExt, stream};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use proptest::prelude::*;

use crate::bucket::figures::*;
use support::bucket::figures::*;
use support::bucket::*;
use support::common::*;
use support::model::{Sequence, check_random};

#[derive(Clone, Debug)]
enum Call {
    /// Appends new items of these seconds.
    Append(Vec<i64>),
    Stream(Vec<i64>),
    /// Sets the number of a stored item.
    Replace(usize, i32),
    Update(usize, i32),
    Remove(usize),
    /// Another program changes the open bucket, or marks figures that it changes.
    Foreign(bool),
    Totals(i64, i64),
    Repair,
    Refresh,
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let seconds = || prop::collection::vec(0..9_i64, 1..9);
    let item = || 0..30_usize;
    let call = prop_oneof![
        8 => (0..9_i64).prop_map(|second| Call::Append(vec![second])),
        3 => seconds().prop_map(Call::Append),
        2 => seconds().prop_map(Call::Stream),
        3 => (item(), -9..9_i32).prop_map(|(item, qty)| Call::Replace(item, qty)),
        3 => (item(), -9..9_i32).prop_map(|(item, qty)| Call::Update(item, qty)),
        6 => item().prop_map(Call::Remove),
        1 => any::<bool>().prop_map(Call::Foreign),
        4 => (0..9_i64, 0..9_i64).prop_map(|(from, length)| Call::Totals(from, from + length)),
        1 => Just(Call::Repair),
        1 => Just(Call::Refresh),
    ];
    (0..2_usize, call)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db).page_size(3)).await;
        check_calls(db, &orders).await;
    })
    .await;
}

/// Pipelines update counts of values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls_with_counts() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db).count_by("ticker").page_size(3)).await;
        check_calls(db, &orders).await;
    })
    .await;
}

async fn check_calls(db: &TestDatabase, orders: &Orders) {
    check_random(db, call(), async |Sequence { number, calls, .. }| {
        // A refresh reads the buckets of all keys.
        plain(db).delete_many(doc! {}).await.unwrap();
        let mut items: [Vec<Document>; 2] = Default::default();
        let mut next = 0;
        for (of, call) in calls {
            let key = number * 2 + u32::try_from(of).unwrap();
            let mut new = |seconds: Vec<i64>| -> Vec<Document> {
                let items = seconds.into_iter().map(|second| {
                    next += 1;
                    let mut item = order(next);
                    item.insert("date", at(SECOND + second));
                    item
                });
                items.collect()
            };
            let of_key = &mut items[of];
            let pick = |rank: usize, items: &[Document]| (!items.is_empty()).then(|| rank % items.len());
            let id = |item: &Document| item.get_i64("n").unwrap();
            match call {
                Call::Append(seconds) => {
                    let new = new(seconds);
                    match new.as_slice() {
                        [item] => drop(orders.append(&key, item).await.unwrap()),
                        several => drop(orders.append_many(&key, several).await.unwrap()),
                    }
                    of_key.extend(new);
                }
                Call::Stream(seconds) => {
                    let new = new(seconds);
                    let keyed: Vec<_> = new.iter().map(|item| (key, item.clone())).collect();
                    orders.append_stream(stream::iter(keyed)).await.unwrap();
                    of_key.extend(new);
                }
                Call::Replace(rank, qty) => {
                    let Some(at) = pick(rank, of_key) else { continue };
                    of_key[at].insert("qty", qty);
                    orders.replace_item(&key, &of_key[at]).await.unwrap();
                }
                Call::Update(rank, qty) => {
                    let Some(at) = pick(rank, of_key) else { continue };
                    let modified = of_key[at].get_i32("qty").unwrap() != qty;
                    of_key[at].insert("qty", qty);
                    let set = update(doc! { "qty": qty });
                    let updated = orders.update_item(&key, id(&of_key[at]), set).await.unwrap();
                    assert_eq!(updated.modified, modified);
                }
                Call::Remove(rank) => {
                    let Some(at) = pick(rank, of_key) else { continue };
                    let item = of_key.remove(at);
                    assert!(orders.remove_item(&key, id(&item)).await.unwrap().found);
                }
                Call::Foreign(marks) if marks => {
                    let mark = doc! { "$set": { "figures.qty.count": -1, "figures.qty.sum": 12345 } };
                    plain(db).update_one(doc! { "customerId": key }, mark).await.unwrap();
                }
                Call::Foreign(_) => {
                    let open = doc! { "customerId": key, "count": { "$lt": 3 } };
                    let item = new(vec![4]).remove(0);
                    let push = doc! { "$push": { "history": &item }, "$inc": { "count": 1 } };
                    let pushed = plain(db).update_one(open, push).await.unwrap();
                    of_key.extend((pushed.matched_count > 0).then_some(item));
                }
                Call::Totals(from, until) => {
                    check_totals(&orders.totals(&key).await.unwrap(), of_key);
                    let (from, until) = (at(SECOND + from), at(SECOND + until));
                    if from < until {
                        let within = |item: &&Document| (from..until).contains(item.get_datetime("date").unwrap());
                        let expected: Vec<Document> = of_key.iter().filter(within).cloned().collect();
                        check_totals(&orders.totals(&key).from(from).until(until).await.unwrap(), &expected);
                    }
                }
                Call::Repair => {
                    let repaired = collected(orders.repair_key(&key).stream()).await;
                    assert!(
                        repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
                        "{repaired:?}"
                    );
                    let findings = collected(orders.verify_key(&key).stream()).await;
                    assert_eq!(findings, []);
                }
                Call::Refresh => drop(orders.refresh_figures().await.unwrap()),
            }
        }
        for (of, items) in items.iter().enumerate() {
            let key = number * 2 + u32::try_from(of).unwrap();
            check_totals(&orders.totals(&key).await.unwrap(), items);
            orders.repair_key(&key).stream().try_collect::<Vec<_>>().await.unwrap();
            check_totals(&orders.totals(&key).await.unwrap(), items);
        }
        check(db, orders).await;
    })
    .await;
}
