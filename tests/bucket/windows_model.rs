//! Buckets of windows against a model in memory: the items of two keys. The pages are those that are stored, which must
//! be valid, and all reads must agree with them.

use futures::future::try_join_all;
use futures::{TryStreamExt, stream};
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::Window;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, deserialize_from_bson, doc};
use proptest::prelude::*;

use crate::bucket::model_reads::{Read, check, reads};
use crate::bucket::windows::violations_of;
use support::bucket::*;
use support::common::*;
use support::model::{Sequence, check_random};

const PAGE: u32 = 3;
/// The length of a window, in seconds.
const LENGTH: i64 = 10;

#[derive(Clone, Debug)]
enum Call {
    /// Appends new items of these seconds.
    Append(Vec<i64>),
    /// Appends new items of these seconds by concurrent calls.
    AppendTogether(Vec<i64>),
    /// Appends items to either of the keys.
    Stream(Vec<(usize, i64)>),
    /// Appends a stored item among new ones, in a transaction or without one.
    AppendAgain(usize, i64, bool),
    /// Replaces the item, or only updates its date.
    Replace(usize, i64, bool),
    Remove(usize),
    DeleteKeyBefore(i64, bool),
    /// Another program changes the time of an item, and may remove the window of its bucket. Then the key is repaired.
    Damage(usize, i64, bool),
    Totals(i64, i64),
    Read(Read),
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let second = || 0..38_i64;
    let item = || 0..30_usize;
    let call = prop_oneof![
        10 => second().prop_map(|second| Call::Append(vec![second])),
        2 => prop::collection::vec(second(), 1..15).prop_map(Call::AppendTogether),
        5 => prop::collection::vec(second(), 0..15).prop_map(Call::Append),
        2 => prop::collection::vec((0..2_usize, second()), 0..15).prop_map(Call::Stream),
        2 => (item(), second(), any::<bool>()).prop_map(|(item, second, within)| Call::AppendAgain(item, second, within)),
        4 => (item(), second(), any::<bool>()).prop_map(|(item, second, part)| Call::Replace(item, second, part)),
        8 => item().prop_map(Call::Remove),
        1 => (second(), any::<bool>()).prop_map(|(second, exact)| Call::DeleteKeyBefore(second, exact)),
        1 => (item(), second(), any::<bool>()).prop_map(|(item, second, unset)| Call::Damage(item, second, unset)),
        2 => (second(), 1..20_i64).prop_map(|(from, length)| Call::Totals(from, length)),
        10 => reads(38).prop_map(Call::Read),
    ];
    (0..2_usize, call)
}

/// A repository, and the expected items of two keys.
struct Model<'a> {
    db: &'a TestDatabase,
    trades: &'a Trades,
    keys: [u32; 2],
    items: [Vec<Trade>; 2],
    next: i64,
}

fn window(trade: &Trade) -> i64 {
    trade.date.timestamp_millis() / 1000 / LENGTH
}

fn before(trade: &Trade, time: DateTime) -> bool {
    trade.date < time
}

impl Model<'_> {
    fn new_items(&mut self, seconds: impl IntoIterator<Item = i64>) -> Vec<Trade> {
        let items = seconds.into_iter().map(|second| {
            self.next += 1;
            Trade {
                n: self.next,
                date: at(SECOND + second),
            }
        });
        items.collect()
    }

    /// Returns the stored pages of a key. Checks them.
    async fn pages(&self, of: usize) -> Vec<(String, Vec<Trade>)> {
        let collection = plain(self.db);
        let find = collection
            .find(doc! { "customerId": self.keys[of] })
            .sort(doc! { "_id": 1 });
        let documents: Vec<Document> = find.await.unwrap().try_collect().await.unwrap();
        assert_eq!(violations_of(&documents, PAGE as usize, LENGTH), Vec::<String>::new());
        let page = |document: &Document| {
            let items = document.get_array("history").unwrap().iter();
            let items = items.map(|item| deserialize_from_bson(item.clone()).unwrap());
            (document.get_str("_id").unwrap().to_owned(), items.collect())
        };
        documents.iter().map(page).collect()
    }

    async fn compare(&self) {
        for (of, items) in self.items.iter().enumerate() {
            let pages = self.pages(of).await;
            let mut stored: Vec<&Trade> = pages.iter().flat_map(|(_, items)| items).collect();
            stored.sort_by_key(|trade| trade.n);
            let mut expected: Vec<&Trade> = items.iter().collect();
            expected.sort_by_key(|trade| trade.n);
            assert_eq!(stored, expected);
        }
    }

    async fn run(&mut self, of: usize, call: Call) {
        let (trades, key) = (self.trades, self.keys[of]);
        match call {
            Call::Append(seconds) => {
                let items = self.new_items(seconds);
                match items.as_slice() {
                    [item] => drop(trades.append(&key, item).await.unwrap()),
                    items => {
                        let appended = trades.append_many(&key, items).await.unwrap();
                        assert_eq!(appended.items, items.len() as u64);
                    }
                }
                self.items[of].extend(items);
            }
            Call::AppendTogether(seconds) => {
                let items = self.new_items(seconds);
                let appends = items.iter().map(|item| trades.append(&key, item).into_future());
                try_join_all(appends).await.unwrap();
                self.items[of].extend(items);
            }
            Call::Stream(seconds) => {
                let items = self.new_items(seconds.iter().map(|(_, second)| *second));
                let keyed: Vec<(u32, Trade)> = seconds
                    .iter()
                    .map(|(of, _)| self.keys[*of])
                    .zip(items.clone())
                    .collect();
                trades.append_stream(stream::iter(keyed)).await.unwrap();
                for ((of, _), item) in seconds.iter().zip(items) {
                    self.items[*of].push(item);
                }
            }
            Call::AppendAgain(rank, second, in_transaction) => {
                let stored = self.pick(of, rank).cloned();
                let mut items = self.new_items([second, second + LENGTH, second]);
                let new = items.clone();
                items.splice(1..1, stored.clone());
                let appended = match in_transaction {
                    false => trades.append_many(&key, &items).await.unwrap(),
                    true => {
                        let mut session = transaction(self.db).await;
                        let appended = trades.append_many(&key, &items).session(&mut session).await.unwrap();
                        session.commit_transaction().await.unwrap();
                        appended
                    }
                };
                assert_eq!(
                    (appended.items, appended.already_there),
                    (3, u64::from(stored.is_some()))
                );
                self.items[of].extend(new);
            }
            Call::Replace(rank, second, is_update) => {
                let Some(stored) = self.pick(of, rank).cloned() else {
                    return;
                };
                let date = at(SECOND + second);
                let item = Trade { n: stored.n, date };
                let replaced = match is_update {
                    true => {
                        trades
                            .update_item(&key, item.n, doc! { "$set": { "date": date } })
                            .await
                    }
                    false => trades.replace_item(&key, &item).await,
                };
                if window(&item) == window(&stored) {
                    assert_eq!(replaced.unwrap().modified, item != stored);
                    let place = self.items[of].iter_mut().find(|other| other.n == item.n);
                    *place.unwrap() = item;
                } else {
                    assert_eq!(replaced.unwrap_err().kind(), ErrorKind::InvalidTime);
                }
            }
            Call::Remove(rank) => {
                let Some(n) = self.pick(of, rank).map(|trade| trade.n) else {
                    return;
                };
                assert!(trades.remove_item(&key, n).await.unwrap().found);
                assert!(!trades.remove_item(&key, n).await.unwrap().found);
                self.items[of].retain(|trade| trade.n != n);
            }
            Call::DeleteKeyBefore(second, exact) => {
                let time = at(SECOND + second);
                let pages = self.pages(of).await;
                let is_old = |page: &&(String, Vec<Trade>)| page.1.iter().all(|trade| before(trade, time));
                let old: Vec<i64> = pages
                    .iter()
                    .filter(is_old)
                    .flat_map(|page| &page.1)
                    .map(|trade| trade.n)
                    .collect();
                let removal = trades.delete_key_before(&key, time);
                let removed = if exact { removal.exact().await } else { removal.await }.unwrap();
                assert_eq!(removed.documents, pages.iter().filter(is_old).count() as u64);
                let items = self.items[of].len();
                self.items[of].retain(|trade| {
                    let is_removed = old.contains(&trade.n) || exact && before(trade, time);
                    !is_removed
                });
                assert_eq!(removed.items, (items - old.len() - self.items[of].len()) as u64);
            }
            Call::Damage(rank, second, unset) => {
                let Some(n) = self.pick(of, rank).map(|trade| trade.n) else {
                    return;
                };
                let date = at(SECOND + second);
                let mut damage = doc! { "$set": { "history.$.date": date } };
                if unset {
                    damage.insert("$unset", doc! { "window": "" });
                }
                let of_item = doc! { "customerId": key, "history.n": n };
                plain(self.db).update_one(of_item, damage).await.unwrap();
                let place = self.items[of].iter_mut().find(|other| other.n == n);
                place.unwrap().date = date;
                let repaired = collected(trades.repair_key(&key).stream()).await;
                assert!(repaired.iter().all(|key| key.unrepaired.is_none()), "{repaired:?}");
            }
            Call::Totals(from, length) => {
                let (from, until) = (at(SECOND + from), at(SECOND + from + length));
                let totals = trades.totals(&key).from(from).until(until).await.unwrap();
                let within = || self.items[of].iter().filter(|item| (from..until).contains(&item.date));
                assert_eq!(totals.items, within().count() as u64);
                let sum: i64 = within().map(|item| item.n).sum();
                assert_eq!(totals.sum("n").cloned(), (totals.items > 0).then_some(Bson::Int64(sum)));
                return;
            }
            Call::Read(read) => return check(trades, key, &self.pages(of).await, read).await,
        }
        self.compare().await;
    }

    fn pick(&self, of: usize, rank: usize) -> Option<&Trade> {
        let items = &self.items[of];
        items.get(rank.checked_rem(items.len())?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| {
        let trades = builder(db).item_id_field("n").page_size(PAGE).sum("n").first_and_last();
        let trades = trades.window(Window::every(std::time::Duration::from_secs(10)));
        let trades = &ready(db, trades).await;
        check_random(db, call(), async |Sequence { number, calls, .. }| {
            let mut model = Model {
                db,
                trades,
                keys: [number * 2, number * 2 + 1],
                items: Default::default(),
                next: 0,
            };
            for (of, call) in calls {
                model.run(of, call).await;
            }
            model.compare().await;
        })
        .await;
    })
    .await;
}
