//! The items of a key by range of time, skip, limit and token, against a model in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::ItemToken;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, DateTime, Document, doc, serialize_to_bson};
use proptest::prelude::*;

use support::bucket::*;
use support::common::*;
use support::model::check_cases;

const HOUR: i64 = 3600;

/// The lateness of items of these histories, in milliseconds.
const LATE_BY: i64 = 100_000;

#[derive(Clone, Debug)]
enum Step {
    /// Advances the clock, appends an item that is this much late, and gives the size of the page if it opens one.
    Append { advance: i64, late: i64, capacity: usize },
    /// Removes the item of this rank, modulo their number. The later ones move up, or the page stays smaller.
    Remove { rank: usize, move_up: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let advance = prop_oneof![6 => 0..9_000_i64, 1 => 0..400_000_i64];
    let late = prop_oneof![3 => Just(0), 1 => 0..=LATE_BY, 1 => Just(LATE_BY)];
    prop_oneof![
        6 => (advance, late, 1..7_usize)
            .prop_map(|(advance, late, capacity)| Step::Append { advance, late, capacity }),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(rank, move_up)| Step::Remove { rank, move_up }),
    ]
}

/// A history as the pattern stores it, with pages of several sizes: the items of each page, by the tail of its `_id`.
#[derive(Debug, Default)]
struct History {
    pages: BTreeMap<String, (usize, Vec<Trade>)>,
    open: Option<String>,
}

impl History {
    fn of(steps: &[Step]) -> Self {
        let mut history = Self::default();
        let mut clock = SECOND * 1000;
        for (n, step) in (0..).zip(steps) {
            match *step {
                Step::Append {
                    advance,
                    late,
                    capacity,
                } => {
                    clock += advance;
                    let date = DateTime::from_millis(clock - late);
                    history.append(Trade { n, date }, capacity);
                }
                Step::Remove { rank, move_up } => history.remove(rank, move_up),
            }
        }
        history
    }

    fn append(&mut self, trade: Trade, capacity: usize) {
        let tail = self.open.take().unwrap_or_else(|| {
            let second = trade.date.timestamp_millis() / 1000;
            let mut tails = (0..).map(|suffix| match suffix {
                0 => format!("{second}"),
                _ => format!("{second}_{suffix:06}"),
            });
            tails.find(|tail| !self.pages.contains_key(tail)).unwrap()
        });
        let (capacity, items) = self.pages.entry(tail.clone()).or_insert((capacity, Vec::new()));
        items.push(trade);
        self.open = (items.len() < *capacity).then_some(tail);
    }

    fn remove(&mut self, rank: usize, move_up: bool) {
        let total = self.items().len();
        if total == 0 {
            return;
        }
        let mut rank = rank % total;
        if !move_up {
            for (tail, (_, items)) in &mut self.pages {
                if rank < items.len() {
                    if self.open.as_ref() != Some(tail) {
                        items.remove(rank);
                    }
                    return;
                }
                rank -= items.len();
            }
        }
        let mut items = self.items();
        items.remove(rank);
        let mut rest = items.into_iter();
        self.open = None;
        for (tail, (capacity, items)) in &mut self.pages {
            *items = rest.by_ref().take(*capacity).collect();
            if !items.is_empty() {
                self.open = (items.len() < *capacity).then(|| tail.clone());
            }
        }
        self.pages.retain(|_, (_, items)| !items.is_empty());
    }

    fn items(&self) -> Vec<Trade> {
        self.pages.values().flat_map(|(_, items)| items.clone()).collect()
    }

    async fn store(&self, db: &TestDatabase) {
        plain(db).drop().await.unwrap();
        let pages: Vec<Document> = self.pages.iter().map(|(tail, (_, items))| page(tail, items)).collect();
        if !pages.is_empty() {
            plain(db).insert_many(pages).await.unwrap();
        }
        for (key, n) in [(12, -1), (1234, -2)] {
            let mut other = page("1698335223", &[spread(n)]);
            other.insert("_id", format!("{key}_1698335223"));
            other.insert("customerId", key);
            plain(db).insert_one(other).await.unwrap();
        }
    }
}

fn page(tail: &str, items: &[Trade]) -> Document {
    let history: Vec<Bson> = items.iter().map(|item| serialize_to_bson(item).unwrap()).collect();
    let count = i32::try_from(items.len()).unwrap();
    doc! { "_id": format!("123_{tail}"), "customerId": 123, "count": count, "history": history }
}

#[derive(Clone, Debug)]
struct Query {
    newest_first: bool,
    /// The time of an item, by its rank, plus a number of milliseconds.
    from: Option<(usize, i64)>,
    until: Option<(usize, i64)>,
    skip: u64,
    limit: u32,
    by_page: bool,
}

fn query() -> impl Strategy<Value = Query> {
    // At `LATE_BY` after an item that opened a page, the pages that can have items of the range start there.
    let more = || prop_oneof![Just(0), Just(LATE_BY), -200_000..200_000_i64];
    let time = || prop::option::weighted(0.6, (any::<usize>(), more()));
    let skip = prop_oneof![1 => Just(0), 1 => 0..60_u64];
    (any::<bool>(), time(), time(), skip, 1..40_u32, any::<bool>()).prop_map(
        |(newest_first, from, until, skip, limit, by_page)| Query {
            newest_first,
            from,
            until,
            skip,
            limit,
            by_page,
        },
    )
}

async fn check(db: &TestDatabase, steps: &[Step], queries: &[Query], page_size: u32) {
    let history = History::of(steps);
    history.store(db).await;
    let all = history.items();
    let trades = builder(db).page_size(page_size).build().unwrap();
    for query in queries {
        let time = |bound: Option<(usize, i64)>| {
            let (rank, more) = bound?;
            let item = all.get(rank % all.len().max(1))?;
            Some(DateTime::from_millis(item.date.timestamp_millis() + more))
        };
        let (from, until) = (time(query.from), time(query.until));
        if from.zip(until).is_some_and(|(from, until)| from >= until) {
            continue;
        }
        let mut expected: Vec<Trade> = all.clone();
        expected.retain(|item| from.is_none_or(|from| item.date >= from));
        expected.retain(|item| until.is_none_or(|until| item.date < until));
        if query.newest_first {
            expected.reverse();
        }
        expected.drain(..expected.len().min(usize::try_from(query.skip).unwrap()));

        let asked = || {
            let mut items = trades
                .items(&123)
                .limit(query.limit)
                .allowed_lateness(allowed_lateness());
            if let Some(from) = from {
                items = items.from(from);
            }
            if let Some(until) = until {
                items = items.until(until);
            }
            if query.newest_first {
                items.newest_first()
            } else {
                items
            }
        };
        if !query.by_page {
            let read: Vec<Trade> = collected(asked().skip(query.skip).stream()).await;
            assert_eq!(read, expected, "{query:?} of {history:?}");
            continue;
        }
        let mut read = Vec::new();
        let mut items = asked().skip(query.skip);
        loop {
            let slice = items.page().await.unwrap();
            read.extend(slice.items);
            let Some(next) = slice.next else { break };
            assert!(
                read.len() < expected.len(),
                "there is a next page only where there are items"
            );
            items = asked().after(next.to_string().parse::<ItemToken>().unwrap());
        }
        assert_eq!(read, expected, "{query:?} of {history:?}");
    }
}

fn allowed_lateness() -> Duration {
    Duration::from_millis(LATE_BY.unsigned_abs())
}

/// `cargo xtask long ranges` checks some thousand histories.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn random_histories_and_queries() {
    let is_long = std::env::var_os("MONGO_PATTERNS_LONG").is_some_and(|value| value == "1");
    let histories = (
        prop::collection::vec(step(), 0..150),
        prop::collection::vec(query(), 12),
        prop::sample::select(vec![1_u32, 3, 10]),
    );
    testkit::run(async |db| {
        let cases = if is_long { 3000 } else { 48 };
        check_cases(cases, &histories, async |(steps, queries, page_size)| {
            check(db, &steps, &queries, page_size).await;
        });
    })
    .await;
}

/// The pages of the range start with the page of the token.
#[tokio::test]
async fn a_token_in_the_first_page_of_a_range_reads_nothing_twice() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let items: Vec<Trade> = (0..10)
            .map(|n| Trade {
                n,
                date: at(SECOND + if n == 0 { 0 } else { 2 * HOUR + n }),
            })
            .collect();
        trades.append_many(&123, &items).await.unwrap();
        let asked = || trades.items(&123).newest_first().from(at(SECOND + HOUR)).limit(4);
        let (mut read, mut next) = (Vec::new(), None);
        for _ in 0..3 {
            let slice = asked().after(next).page().await.unwrap();
            read.push(numbers(&slice.items));
            next = slice.next;
        }
        assert_eq!(read, [vec![9, 8, 7, 6], vec![5, 4, 3, 2], vec![1]]);
        assert_eq!(next, None);
    })
    .await;
}

/// Pages keep their ids when items move up, as when most of a history was removed.
#[tokio::test]
async fn ids_with_old_seconds_hide_no_item() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let pages = (0..400).map(|page| {
            let mut bucket = full_bucket(SECOND + page);
            let items: Vec<Document> = (0..10)
                .map(|n| doc! { "n": page * 10 + n, "date": at(SECOND + 500 * HOUR + (page * 10 + n) * 60) })
                .collect();
            bucket.insert("history", items);
            bucket
        });
        plain(db).insert_many(pages).await.unwrap();
        let asked = || {
            let start = SECOND + 500 * HOUR;
            trades
                .items(&123)
                .from(at(start + 3000 * 60))
                .until(at(start + 3100 * 60))
        };
        let read: Vec<Trade> = collected(asked().stream()).await;
        assert_eq!(numbers(&read), (3000..3100).collect::<Vec<_>>());
        let round_trips = db.recorder().round_trips();
        assert!(round_trips <= 7, "{round_trips}");
        let read: Vec<Trade> = collected(asked().newest_first().stream()).await;
        assert_eq!(numbers(&read), (3000..3100).rev().collect::<Vec<_>>());
    })
    .await;
}

/// A late item opened a page among older ones, new items were appended to it, and moved up when others were removed.
#[tokio::test]
async fn items_that_moved_up_from_a_late_page_are_found() {
    testkit::run(async |db| {
        let trades = ready(db, builder(db).page_size(3)).await;
        // Ten items of the page of second 0 were removed. The page of the late item was opened in second 6000.
        let pages = [
            (0, [0, 20 * HOUR, 30 * HOUR]),
            (6000, [6010, 6020, 6030]),
            (6010, [6040, 6050, 9000]),
            (31 * HOUR, [31 * HOUR, 32 * HOUR, 33 * HOUR]),
        ];
        for (name, seconds) in pages {
            let mut bucket = full_bucket(SECOND + name);
            let items: Vec<Document> = seconds.map(|n| doc! { "n": n, "date": at(SECOND + n) }).into();
            bucket.insert("count", 3);
            bucket.insert("history", items);
            plain(db).insert_one(bucket).await.unwrap();
        }
        let of_days = || {
            trades
                .items(&123)
                .from(at(SECOND + 10 * HOUR))
                .until(at(SECOND + 31 * HOUR))
        };
        let read: Vec<Trade> = collected(of_days().stream()).await;
        assert_eq!(numbers(&read), [20 * HOUR, 30 * HOUR]);
        let read: Vec<Trade> = collected(of_days().newest_first().stream()).await;
        assert_eq!(numbers(&read), [30 * HOUR, 20 * HOUR]);
    })
    .await;
}

/// A document that violates the invariants is an error also where the server filters or counts the items.
#[tokio::test]
async fn a_corrupt_document_is_an_error() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let sound = |_: &mut Document| {};
        let of_other = |bucket: &mut Document| drop(bucket.insert("_id", format!("123_{}_1", SECOND + 1)));
        let no_array = |bucket: &mut Document| drop(bucket.insert("history", "none"));
        let no_items = |bucket: &mut Document| drop(bucket.remove("history"));
        let too_few = |bucket: &mut Document| drop(bucket.insert("count", 9));
        let no_count = |bucket: &mut Document| drop(bucket.remove("count"));
        let no_trade = |bucket: &mut Document| {
            let items = bucket.get_array_mut("history").unwrap();
            items[3] = doc! { "n": "three", "date": at(SECOND + 1) }.into();
        };
        let no_date = |bucket: &mut Document| {
            let items = bucket.get_array_mut("history").unwrap();
            items[3] = doc! { "n": 3_i64, "date": "today" }.into();
        };
        type Damage<'a> = &'a dyn Fn(&mut Document);
        let (corrupt, decode) = (Some(ErrorKind::Corrupt), Some(ErrorKind::Decode));
        let cases: [(Damage<'_>, _, _); 8] = [
            (&sound, None, None),
            (&of_other, corrupt, None),
            (&no_array, corrupt, corrupt),
            (&no_items, corrupt, corrupt),
            (&too_few, corrupt, corrupt),
            (&no_count, corrupt, corrupt),
            (&no_trade, decode, None),
            (&no_date, None, None),
        ];
        for (number, (damage, read, skipped)) in cases.into_iter().enumerate() {
            plain(db).delete_many(doc! {}).await.unwrap();
            let mut bucket = full_bucket(SECOND + 1);
            damage(&mut bucket);
            plain(db).insert_many([full_bucket(SECOND), bucket]).await.unwrap();
            let asked = || trades.items(&123).from(at(SECOND)).limit(100);
            let kind =
                |result: mongo_patterns::Result<_>| result.err().map(|error: mongo_patterns::Error| error.kind());
            assert_eq!(kind(asked().page().await), read, "case {number}, read");
            assert_eq!(kind(asked().skip(100).page().await), skipped, "case {number}, skipped");
        }
    })
    .await;
}
