//! Buckets with a bound of bytes against a model in memory: the items of two keys, after each call.

use futures::future::try_join_all;
use futures::stream;
use mongo_patterns::bucket::IdPolicy;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};
use proptest::prelude::*;

use crate::bucket::bytes::{numbers_in, problems};
use support::bucket::bytes::{BOUND, bounded, bytes_of, sized, violations_of};
use support::bucket::figures::{Orders, prepared};
use support::bucket::*;
use support::common::*;
use support::model::{Sequence, check_random};

#[derive(Clone, Debug)]
enum Call {
    /// Appends items of these sizes, alone or in a transaction.
    Append(Vec<usize>, bool),
    AppendTogether(Vec<usize>),
    Stream(Vec<usize>),
    /// Appends a stored item again, with another size.
    AppendAgain(usize, usize),
    /// Gives a stored item a size.
    Replace(usize, usize),
    Update(usize, usize),
    Remove(usize),
    RemoveBefore(usize),
    Repair,
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let size = || prop_oneof![8 => 60..600_usize, 1 => 600..1001_usize, 1 => 1001..2000_usize];
    let sizes = || prop::collection::vec(size(), 1..10);
    let item = || 0..30_usize;
    let call = prop_oneof![
        10 => (size(), any::<bool>()).prop_map(|(size, within)| Call::Append(vec![size], within)),
        4 => (sizes(), any::<bool>()).prop_map(|(sizes, within)| Call::Append(sizes, within)),
        2 => sizes().prop_map(Call::AppendTogether),
        2 => sizes().prop_map(Call::Stream),
        2 => (item(), size()).prop_map(|(item, size)| Call::AppendAgain(item, size)),
        2 => (item(), size()).prop_map(|(item, size)| Call::Replace(item, size)),
        2 => (item(), size()).prop_map(|(item, size)| Call::Update(item, size)),
        5 => item().prop_map(Call::Remove),
        1 => item().prop_map(Call::RemoveBefore),
        1 => Just(Call::Repair),
    ];
    (0..2_usize, call)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| {
        let by_time = prepared(db, bounded(db)).await;
        let monotonic = bounded(db).id_policy(IdPolicy::Monotonic).build().unwrap();
        let counted = bounded(db).sum("n").count_by("n").first_and_last();
        check_calls(db, &[by_time, monotonic]).await;
        plain(db).drop().await.unwrap();
        check_calls(db, &[prepared(db, counted).await]).await;
    })
    .await;
}

async fn check_calls(db: &TestDatabase, repositories: &[Orders]) {
    check_random(db, call(), async |Sequence { number, variant, calls }| {
        let orders = &repositories[variant % repositories.len()];
        let mut items: [Vec<Document>; 2] = Default::default();
        let mut next = 0;
        // Whether an update may have exceeded the bound.
        let mut has_grown = false;
        for (of, call) in calls {
            let key = number * 2 + u32::try_from(of).unwrap();
            let stored = &mut items[of];
            let mut new = |sizes: Vec<usize>| -> Vec<Document> {
                let new = sizes.into_iter().map(|size| {
                    next += 1;
                    sized(next, size)
                });
                new.collect()
            };
            let pick = |rank: usize, items: &[Document]| (!items.is_empty()).then(|| rank % items.len());
            let id = |item: &Document| item.get_i64("n").unwrap();
            match call {
                Call::Append(sizes, within) => {
                    let new = new(sizes);
                    let mut session = None;
                    if within {
                        session = Some(transaction(db).await);
                    }
                    match (new.as_slice(), &mut session) {
                        ([item], None) => drop(orders.append(&key, item).await.unwrap()),
                        ([item], Some(session)) => drop(orders.append(&key, item).session(session).await.unwrap()),
                        (several, None) => drop(orders.append_many(&key, several).await.unwrap()),
                        (several, Some(session)) => {
                            let _ = orders.append_many(&key, several).session(session).await.unwrap();
                        }
                    }
                    if let Some(mut session) = session {
                        session.commit_transaction().await.unwrap();
                    }
                    stored.extend(new);
                }
                Call::AppendTogether(sizes) => {
                    let new = new(sizes);
                    let appends = new.iter().map(async |item| orders.append(&key, item).await);
                    try_join_all(appends).await.unwrap();
                    stored.extend(new);
                }
                Call::Stream(sizes) => {
                    let new = new(sizes);
                    let keyed: Vec<_> = new.iter().map(|item| (key, item.clone())).collect();
                    orders.append_stream(stream::iter(keyed)).await.unwrap();
                    stored.extend(new);
                }
                Call::AppendAgain(rank, size) => {
                    let Some(at) = pick(rank, stored) else { continue };
                    let again = sized(id(&stored[at]), size);
                    assert!(orders.append(&key, &again).await.unwrap().already_there);
                }
                Call::Replace(rank, size) => {
                    let Some(at) = pick(rank, stored) else { continue };
                    has_grown |= size > bytes_of(&stored[at]);
                    stored[at] = sized(id(&stored[at]), size);
                    orders.replace_item(&key, &stored[at]).await.unwrap();
                }
                Call::Update(rank, size) => {
                    let Some(at) = pick(rank, stored) else { continue };
                    has_grown |= size > bytes_of(&stored[at]);
                    stored[at] = sized(id(&stored[at]), size);
                    let text = stored[at].get_str("text").unwrap();
                    let update = doc! { "$set": { "text": text } };
                    orders.update_item(&key, id(&stored[at]), update).await.unwrap();
                }
                Call::Remove(rank) => {
                    let Some(at) = pick(rank, stored) else { continue };
                    let item = stored.remove(at);
                    assert!(orders.remove_item(&key, id(&item)).await.unwrap().found);
                }
                Call::RemoveBefore(rank) => {
                    let Some(at) = pick(rank, stored) else { continue };
                    let time = *stored[at].get_datetime("date").unwrap();
                    stored.retain(|item| *item.get_datetime("date").unwrap() >= time);
                    orders.remove_before(&key, time).exact().await.unwrap();
                }
                Call::Repair => {
                    let repaired = collected(orders.repair().stream()).await;
                    assert!(
                        repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
                        "{repaired:?}"
                    );
                    assert_eq!(problems(orders).await, []);
                    has_grown = false;
                }
            }
            let buckets = all(&plain(db)).await;
            if !has_grown {
                assert_eq!(violations_of(&buckets, BOUND, 5), [""; 0]);
            }
            let of_key = |bucket: &&Document| bucket.get("customerId") == Some(&i32::try_from(key).unwrap().into());
            let mut found: Vec<i64> = buckets.iter().filter(of_key).flat_map(numbers_in).collect();
            found.sort_unstable();
            let mut expected: Vec<i64> = items[of].iter().map(id).collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
        for (of, items) in items.iter_mut().enumerate() {
            let key = number * 2 + u32::try_from(of).unwrap();
            let mut found: Vec<Document> = collected(orders.items(&key).stream()).await;
            let id = |item: &Document| item.get_i64("n").unwrap();
            found.sort_by_key(id);
            items.sort_by_key(id);
            assert!(found == *items);
        }
        let found = problems(orders).await;
        let is_size = |problem: &mongo_patterns::bucket::Problem| {
            matches!(problem, mongo_patterns::bucket::Problem::TooManyBytes { .. })
        };
        assert!(found.iter().all(|problem| has_grown && is_size(problem)), "{found:?}");
        plain(db).delete_many(doc! {}).await.unwrap();
    })
    .await;
}
