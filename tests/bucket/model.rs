//! The bucket repository against a model in memory.

use futures::future::join_all;
use futures::{TryStreamExt, stream};
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, deserialize_from_bson, doc};
use proptest::prelude::*;

use crate::bucket::model_reads::{Read, check, reads};
use support::common::*;
use support::model::{Sequence, check_random};

const PAGE: usize = 3;

#[derive(Clone, Debug)]
enum Call {
    /// Appends new items of these seconds, by a call or by concurrent calls.
    Append(Vec<i64>),
    AppendMany(Vec<i64>),
    /// Appends items to either of the keys.
    Stream(Vec<(usize, i64)>),
    /// Appends stored items, and new ones.
    AppendAgain(usize, i64),
    /// Replaces the item, or only updates its date.
    Replace(usize, i64, bool),
    Remove(usize),
    Read(Read),
}

fn call() -> impl Strategy<Value = (usize, Call)> {
    let second = || 0..6_i64;
    let item = || 0..30_usize;
    let call = prop_oneof![
        12 => second().prop_map(|second| Call::Append(vec![second])),
        2 => prop::collection::vec(second(), 1..12).prop_map(Call::Append),
        4 => prop::collection::vec(second(), 0..12).prop_map(Call::AppendMany),
        2 => prop::collection::vec((0..2_usize, second()), 0..12).prop_map(Call::Stream),
        2 => (item(), second()).prop_map(|(item, second)| Call::AppendAgain(item, second)),
        4 => (item(), second(), any::<bool>()).prop_map(|(item, second, part)| Call::Replace(item, second, part)),
        8 => item().prop_map(Call::Remove),
        12 => reads(6).prop_map(Call::Read),
    ];
    (0..2_usize, call)
}

/// The pages of a key, each with its `_id`, which is empty until it is read.
#[derive(Clone, Debug, Default)]
struct History(Vec<(String, Vec<Trade>)>);

impl History {
    fn items(&self) -> Vec<Trade> {
        self.0.iter().flat_map(|(_, items)| items.clone()).collect()
    }

    /// The item of this rank, or one that never existed.
    fn pick(&self, rank: usize) -> i64 {
        let items = self.items();
        match items.len() {
            0 => -1,
            count => items[rank % count].n,
        }
    }

    fn item(&mut self, n: i64) -> Option<&mut Trade> {
        self.0.iter_mut().flat_map(|(_, items)| items).find(|item| item.n == n)
    }

    /// Stores the items that are not stored yet: in the open page, and in new ones. Returns their number.
    fn append(&mut self, items: &[Trade]) -> u64 {
        let mut stored = 0;
        let mut opened: Vec<(String, Vec<Trade>)> = Vec::new();
        for item in items {
            let is_there = |(_, items): &(String, Vec<Trade>)| items.iter().any(|other| other.n == item.n);
            if self.0.iter().chain(&opened).any(is_there) {
                continue;
            }
            stored += 1;
            let mut pages = self.0.iter_mut().chain(&mut opened);
            match pages.find(|(_, items)| items.len() < PAGE) {
                Some((_, items)) => items.push(item.clone()),
                None => opened.push((String::new(), vec![item.clone()])),
            }
        }
        self.0.extend(opened);
        stored
    }

    /// Removes an item. If its page was full, the items after it move up. Pages keep the ids of their first items.
    fn remove(&mut self, n: i64) -> bool {
        let Some(page) = self
            .0
            .iter()
            .position(|(_, items)| items.iter().any(|item| item.n == n))
        else {
            return false;
        };
        if self.0[page].1.len() < PAGE {
            self.0[page].1.retain(|item| item.n != n);
            self.0.retain(|(_, items)| !items.is_empty());
            return true;
        }
        let open = self.0.iter().position(|(_, items)| items.len() < PAGE);
        let moved = self.0.split_off(open.map_or(page, |open| open.min(page)));
        let items = moved
            .into_iter()
            .flat_map(|(id, items)| items.into_iter().map(move |item| (id.clone(), item)));
        let items: Vec<(String, Trade)> = items.filter(|(_, item)| item.n != n).collect();
        for page in items.chunks(PAGE) {
            let items = page.iter().map(|(_, item)| item.clone()).collect();
            self.0.push((page[0].0.clone(), items));
        }
        true
    }

    /// Compares the stored buckets with the model, page by page. Takes over the ids of new pages.
    async fn compare(&mut self, db: &TestDatabase, key: u32) {
        let collection = plain(db);
        let find = collection.find(doc! { "customerId": key }).sort(doc! { "_id": 1 });
        let documents: Vec<Document> = find.await.unwrap().try_collect().await.unwrap();
        let stored: Vec<(String, Vec<Trade>)> = documents.iter().map(page).collect();
        let mut expected = std::mem::take(&mut self.0);
        for (id, items) in &stored {
            let is_this =
                |(stored_id, page): &(String, Vec<Trade>)| (stored_id.is_empty() || stored_id == id) && page == items;
            let at = expected.iter().position(is_this);
            let at = at.unwrap_or_else(|| panic!("{id} has {items:?} instead of one of {expected:?}"));
            let (stored_id, _) = expected.remove(at);
            if stored_id.is_empty() {
                let second = items[0].date.timestamp_millis() / 1000;
                assert!(id.starts_with(&format!("{key}_{second}")), "{id} has {items:?}");
            }
        }
        assert_eq!(expected, [], "pages that are not stored");
        self.0 = stored;
    }
}

fn page(document: &Document) -> (String, Vec<Trade>) {
    let items = document.get_array("history").unwrap().iter();
    let items: Vec<Trade> = items.map(|item| deserialize_from_bson(item.clone()).unwrap()).collect();
    assert_eq!(document.get_i32("count").unwrap(), i32::try_from(items.len()).unwrap());
    assert!(items.len() <= PAGE);
    (document.get_str("_id").unwrap().to_owned(), items)
}

/// A repository, and the expected pages of two keys.
struct Model<'a> {
    db: &'a TestDatabase,
    trades: &'a Trades,
    keys: [u32; 2],
    histories: [History; 2],
    next: i64,
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

    async fn run(&mut self, of: usize, call: Call) {
        let (trades, key) = (self.trades, self.keys[of]);
        let is_of_both = matches!(call, Call::Stream(_));
        match call {
            Call::Append(seconds) => {
                let items = self.new_items(seconds);
                let appends = items.iter().map(|item| trades.append(&key, item).into_future());
                for (item, appended) in items.iter().zip(join_all(appends).await) {
                    let pages = self.histories[of].0.len();
                    self.histories[of].append(std::slice::from_ref(item));
                    let appended = appended.unwrap();
                    assert_eq!(appended.opened.is_some(), self.histories[of].0.len() > pages);
                    assert!(!appended.already_there);
                }
            }
            Call::AppendMany(seconds) => {
                let items = self.new_items(seconds);
                let appended = trades.append_many(&key, &items).await.unwrap();
                let pages = self.histories[of].0.len();
                assert_eq!(appended.items, self.histories[of].append(&items));
                assert_eq!(appended.opened, (self.histories[of].0.len() - pages) as u64);
            }
            Call::Stream(seconds) => {
                let items = self.new_items(seconds.iter().map(|(_, second)| *second));
                let keys = seconds.iter().map(|(of, _)| *of);
                let items: Vec<(usize, Trade)> = keys.zip(items).collect();
                let keyed = items.iter().map(|(of, item)| (self.keys[*of], item.clone()));
                let appended = trades
                    .append_stream(stream::iter(keyed.collect::<Vec<_>>()))
                    .await
                    .unwrap();
                assert_eq!(appended.items, items.len() as u64);
                for (of, item) in items {
                    self.histories[of].append(&[item]);
                }
            }
            Call::AppendAgain(rank, second) => {
                let n = self.histories[of].pick(rank);
                let again = Trade {
                    n,
                    date: at(SECOND + second),
                };
                let is_there = n >= 0;
                if is_there {
                    assert!(trades.append(&key, &again).await.unwrap().already_there);
                }
                let mut items = self.new_items([second, second]);
                if is_there {
                    items.insert(1, again);
                }
                let appended = trades.append_many(&key, &items).await.unwrap();
                assert_eq!(appended.items, self.histories[of].append(&items));
                assert_eq!(appended.already_there, u64::from(is_there));
            }
            Call::Replace(rank, second, is_update) => {
                let n = self.histories[of].pick(rank);
                let date = at(SECOND + second);
                let item = Trade { n, date };
                let stored = self.histories[of].item(n);
                let set = doc! { "$set": { "date": date } };
                let replaced = match is_update {
                    true => trades.update_item(&key, n, set).await,
                    false => trades.replace_item(&key, &item).await,
                };
                match stored {
                    Some(stored) => {
                        assert_eq!(replaced.unwrap().modified, *stored != item);
                        *stored = item.clone();
                    }
                    None => assert_eq!(replaced.unwrap_err().kind(), ErrorKind::NotFound),
                }
            }
            Call::Remove(rank) => {
                let n = self.histories[of].pick(rank);
                let removed = trades.remove_item(&key, n).await.unwrap();
                assert_eq!(removed.found, self.histories[of].remove(n));
                assert!(!trades.remove_item(&key, n).await.unwrap().found);
            }
            Call::Read(read) => return check(trades, key, &self.histories[of].0, read).await,
        }
        match is_of_both {
            true => self.compare().await,
            false => self.histories[of].compare(self.db, key).await,
        }
    }

    async fn compare(&mut self) {
        for (key, history) in self.keys.into_iter().zip(&mut self.histories) {
            history.compare(self.db, key).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_calls() {
    testkit::run(async |db| {
        let trades = Trades::builder(plain(db))
            .key_field("customerId")
            .items_field("history");
        let trades = trades.time_field("date").item_id_field("n").page_size(PAGE as u32);
        let trades = &ready(db, trades).await;
        check_random(db, call(), async |Sequence { number, calls, .. }| {
            let mut model = Model {
                db,
                trades,
                keys: [number * 2, number * 2 + 1],
                histories: Default::default(),
                next: 0,
            };
            for (of, call) in calls {
                model.run(of, call).await;
            }
            model.compare().await;
        })
        .await;
        assert_eq!(violations(&plain(db), PAGE as i32).await, Vec::<Document>::new());
    })
    .await;
}
