//! The repository against a model in memory, under random calls.

use std::collections::BTreeMap;

use mongo_patterns::bucket::IdPolicy;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Handle;

use crate::support::*;

#[derive(Clone, Debug)]
enum Call {
    Append { key: u32, second: i64 },
    Page { key: u32, number: u64 },
    Walk { key: u32, limit: u32, newest_first: bool },
    WalkBack { key: u32, limit: u32 },
    Newest { key: u32, count: u32 },
    Counts { key: u32 },
}

fn call() -> impl Strategy<Value = Call> {
    let key = || prop_oneof![Just(1_u32), Just(12), Just(123)];
    prop_oneof![
        8 => (key(), 0..4_i64).prop_map(|(key, second)| Call::Append { key, second }),
        1 => (key(), 1..8_u64).prop_map(|(key, number)| Call::Page { key, number }),
        1 => (key(), 1..4_u32, any::<bool>())
            .prop_map(|(key, limit, newest_first)| Call::Walk { key, limit, newest_first }),
        1 => (key(), 1..4_u32).prop_map(|(key, limit)| Call::WalkBack { key, limit }),
        1 => (key(), 1..12_u32).prop_map(|(key, count)| Call::Newest { key, count }),
        1 => key().prop_map(|key| Call::Counts { key }),
    ]
}

/// With one writer and monotonic ids the history of a key is what was appended, in order, in pages of three.
async fn check(db: &TestDatabase, calls: Vec<Call>) {
    plain(db).drop().await.unwrap();
    let trades = ready(db, builder(db).page_size(3).id_policy(IdPolicy::Monotonic)).await;
    let mut model: BTreeMap<u32, Vec<Trade>> = BTreeMap::new();
    for (n, call) in (0..).zip(calls) {
        match call {
            Call::Append { key, second } => {
                let trade = Trade {
                    n,
                    date: at(SECOND + second),
                };
                trades.append(&key, &trade).await.unwrap();
                model.entry(key).or_default().push(trade);
            }
            Call::Page { key, number } => {
                let history = model.entry(key).or_default();
                let expected = history.chunks(3).nth(usize::try_from(number).unwrap() - 1);
                let page = trades.page(&key, number).await.unwrap();
                assert_eq!(page.map(|page| page.items).as_deref(), expected);
            }
            Call::Walk {
                key,
                limit,
                newest_first,
            } => {
                let mut expected: Vec<Vec<Trade>> =
                    model.entry(key).or_default().chunks(3).map(<[Trade]>::to_vec).collect();
                if newest_first {
                    expected.reverse();
                }
                let mut walked = Vec::new();
                let mut token = None;
                loop {
                    let mut action = trades.pages(&key).limit(limit).after(token);
                    if newest_first {
                        action = action.newest_first();
                    }
                    let slice = action.await.unwrap();
                    walked.extend(slice.pages.into_iter().map(|page| page.items));
                    token = slice.next;
                    if token.is_none() {
                        break;
                    }
                }
                assert_eq!(walked, expected);
            }
            Call::WalkBack { key, limit } => {
                let expected = model.entry(key).or_default().clone();
                let mut walked: Vec<Trade> = Vec::new();
                let mut slice = trades.pages(&key).newest_first().await.unwrap();
                let mut token = slice.next.take();
                let mut tail: Vec<Trade> = slice.pages.into_iter().flat_map(|page| page.items).collect();
                while let Some(place) = token {
                    let slice = trades.pages(&key).before(place).limit(limit).await.unwrap();
                    let mut items: Vec<Trade> = slice.pages.into_iter().flat_map(|page| page.items).collect();
                    items.append(&mut walked);
                    walked = items;
                    token = slice.previous;
                }
                walked.append(&mut tail);
                assert_eq!(walked, expected);
            }
            Call::Newest { key, count } => {
                let expected: Vec<Trade> = model
                    .entry(key)
                    .or_default()
                    .iter()
                    .rev()
                    .take(count as usize)
                    .cloned()
                    .collect();
                assert_eq!(trades.newest(&key, count).await.unwrap(), expected);
            }
            Call::Counts { key } => {
                let items = model.entry(key).or_default().len();
                let counts = trades.counts(&key).await.unwrap();
                assert_eq!((counts.items, counts.pages), (items as u64, items.div_ceil(3) as u64));
            }
        }
    }
    assert_eq!(violations(&plain(db), 3).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls() {
    testkit::run(async |db| {
        let runtime = Handle::current();
        let mut runner = TestRunner::new(Config {
            cases: 32,
            failure_persistence: None,
            ..Config::default()
        });
        let calls = prop::collection::vec(call(), 1..60);
        let ran = tokio::task::block_in_place(|| {
            runner.run(&calls, |calls| {
                runtime.block_on(check(db, calls));
                Ok(())
            })
        });
        ran.unwrap_or_else(|failure| panic!("{failure}"));
    })
    .await;
}
