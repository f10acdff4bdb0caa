//! Tasks that append to few keys and read them, and record every call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::bucket::{BucketRepositoryBuilder, Finding};
use mongodb::bson::{DateTime, Document};
use mongodb::options::{CollectionOptions, ReadConcern, SessionOptions};
use mongodb::{ClientSession, Database};

use super::calls::{Fate, Fates, Load, Outcome, lock};
use super::history::{Append, End, Read, Shown, check};
use support::common::{Trade, Trades, violations};

/// How many keys are written concurrently, and how many items each gets before the next keys.
const KEYS: i64 = 2;
const OF_A_KEY: i64 = 200;
/// Slows the readers, so that most calls are writes.
const PACE: Duration = Duration::from_millis(80);
/// How many of the newest items are read.
const NEWEST: u32 = 15;

/// The read concern and the client of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The default, by the client that writes.
    Default,
    /// The default, by another client.
    OtherClient,
    /// With the read concern `majority`, by another client.
    Majority,
    /// With the read concern `linearizable`, by another client.
    Linearizable,
    /// In a causally consistent session that writes too, with the read concern `majority`.
    Session,
}

impl Level {
    pub const ALL: [Self; 5] = [
        Self::Default,
        Self::OtherClient,
        Self::Majority,
        Self::Linearizable,
        Self::Session,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default, by the client that writes",
            Self::OtherClient => "default, by another client",
            Self::Majority => "`majority`, by another client",
            Self::Linearizable => "`linearizable`, by another client",
            Self::Session => "`majority`, in a session that writes too",
        }
    }

    /// Returns whether reads of this level may have this anomaly when the primary changes.
    pub fn allows(self, wrong: &str) -> bool {
        let allowed: &[&str] = match self {
            // The read may return an item that is not acknowledged yet, and that is rolled back later.
            Self::Default => &["vanished", "backwards"],
            // In addition, this client may still use the old primary while others use the new one.
            Self::OtherClient => &["vanished", "backwards", "missing"],
            // A new primary learns the majority commit point only after a moment.
            Self::Majority => &["backwards", "missing"],
            Self::Linearizable | Self::Session => &[],
        };
        allowed.contains(&wrong)
    }

    fn read_concern(self) -> Option<ReadConcern> {
        match self {
            Self::Default | Self::OtherClient => None,
            Self::Majority | Self::Session => Some(ReadConcern::majority()),
            Self::Linearizable => Some(ReadConcern::linearizable()),
        }
    }
}

/// One collection of buckets, with or without item ids, and the calls to it.
#[derive(Debug)]
pub struct Ledger {
    name: &'static str,
    has_ids: bool,
    load: Arc<Load>,
    next: AtomicI64,
    chains: AtomicI64,
    appends: Mutex<Vec<Append>>,
    reads: Mutex<Vec<(u32, Level, Read)>>,
}

impl Ledger {
    pub fn new(name: &'static str, has_ids: bool, load: &Arc<Load>) -> Arc<Self> {
        Arc::new(Self {
            name,
            has_ids,
            load: Arc::clone(load),
            next: AtomicI64::new(0),
            chains: AtomicI64::new(0),
            appends: Mutex::default(),
            reads: Mutex::default(),
        })
    }

    /// Returns a repository of the collection.
    pub fn repository(&self, database: &Database, level: Level) -> Trades {
        let options = CollectionOptions::builder().read_concern(level.read_concern());
        let collection = database.collection_with_options::<Document>(self.name, options.build());
        let builder: BucketRepositoryBuilder<u32, Trade> = Trades::builder(collection)
            .key_field("customerId")
            .items_field("history")
            .time_field("date");
        match self.has_ids {
            true => builder.item_id_field("n").build().unwrap(),
            false => builder.build().unwrap(),
        }
    }

    fn kind(&self) -> &'static str {
        match self.has_ids {
            true => "bucket append, with ids",
            false => "bucket append",
        }
    }

    /// Appends until the load stops.
    pub async fn write(self: Arc<Self>, trades: Trades) {
        while self.load.continues().await {
            self.append(&trades, None).await;
        }
    }

    /// Appends one item. With ids, it retries until the append is known to be stored, as the documentation says.
    /// Returns whether the first attempt succeeded.
    async fn append(&self, trades: &Trades, mut session: Option<(&mut ClientSession, u64)>) -> bool {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let date = DateTime::now();
        let (key, item) = (key_of(n), Trade { n, date });
        let begun = self.load.now();
        let chain = session.as_ref().map(|(_, chain)| *chain);
        let (mut attempt, mut may_be_stored) = (n, false);
        let outcome = loop {
            let append = trades.append(&key, &item);
            let append = match &mut session {
                Some((session, _)) => append.session(&mut **session),
                None => append,
            };
            let outcome = self.load.call(self.kind(), attempt, append).await;
            let is_there = matches!(&outcome, Outcome::Done(appended) if appended.already_there);
            assert!(
                may_be_stored || !is_there,
                "{n} is stored although an append reported that it is not"
            );
            may_be_stored |= matches!(outcome, Outcome::Unknown);
            // A session whose call was dropped cannot be used again.
            if outcome.is_done() || !self.has_ids {
                break outcome;
            }
            session = None;
            attempt += 1;
            self.load.continues().await;
        };
        let end = match outcome {
            Outcome::Done(_) => End::Acknowledged(self.load.now()),
            Outcome::Unknown => End::Unknown,
            Outcome::Refused(_) => End::Refused,
        };
        let at_once = attempt == n && matches!(end, End::Acknowledged(_));
        lock(&self.appends).push(Append {
            item: n,
            begun,
            end,
            chain: chain.filter(|_| at_once),
        });
        at_once
    }

    /// Reads until the load stops.
    pub async fn read(self: Arc<Self>, trades: Trades, level: Level) {
        while self.load.continues().await {
            self.read_once(&trades, level, None).await;
            tokio::time::sleep(PACE).await;
        }
    }

    /// Appends and reads in sessions, a new one after each failed call.
    pub async fn read_in_sessions(self: Arc<Self>, trades: Trades) {
        let client = trades.collection().client().clone();
        while self.load.continues().await {
            let options = SessionOptions::builder().causal_consistency(true).build();
            let Ok(mut session) = client.start_session().with_options(options).await else {
                continue;
            };
            let chain = self.chains.fetch_add(1, Ordering::Relaxed) as u64;
            while self.load.continues().await {
                let appended = self.append(&trades, Some((&mut session, chain))).await;
                let of_session = Some((&mut session, chain));
                if !appended || !self.read_once(&trades, Level::Session, of_session).await {
                    break;
                }
            }
        }
    }

    /// Reads a recent key by one of three calls. Returns whether it succeeded.
    async fn read_once(&self, trades: &Trades, level: Level, session: Option<(&mut ClientSession, u64)>) -> bool {
        let latest = self.next.load(Ordering::Relaxed) - 1;
        let key = key_of((latest - fastrand::i64(0..OF_A_KEY)).max(0));
        let (session, chain) = session.unzip();
        let call = fastrand::u8(..3);
        let begun = self.load.now();
        let n = |items: Vec<Trade>| items.iter().map(|trade| trade.n).collect::<Vec<i64>>();
        let read = async {
            Ok::<_, mongo_patterns::Error>(match call {
                0 => {
                    let slice = trades.buckets(&key).limit(1000).session(session).page().await?;
                    Shown::Pages(slice.items.into_iter().map(|page| n(page.items)).collect())
                }
                1 => Shown::Items(n(trades.items(&key).session(session).stream().try_collect().await?)),
                _ => {
                    let mut newest = n(trades.newest(&key, NEWEST).session(session).await?);
                    newest.reverse();
                    Shown::Newest(NEWEST as usize, newest)
                }
            })
        };
        let Outcome::Done(shown) = self.load.read("bucket read", read).await else {
            return false;
        };
        let ended = self.load.now();
        let read = Read {
            begun,
            ended,
            shown,
            chain,
        };
        lock(&self.reads).push((key, level, read));
        true
    }

    /// Compares the stored items with the outcomes of the writers, and all reads with all appends. Returns the counts
    /// of the writers, and for each level the number of reads and their anomalies.
    pub async fn judge(&self, trades: &Trades) -> ((usize, usize, usize), BTreeMap<Level, Judged>) {
        let mut appends: BTreeMap<u32, Vec<Append>> = BTreeMap::new();
        let fates = Fates::default();
        for append in lock(&self.appends).drain(..) {
            let fate = match append.end {
                End::Acknowledged(_) => Fate::Acknowledged,
                End::Unknown => Fate::Unknown,
                End::Refused => Fate::Refused,
            };
            fates.note(append.item, fate);
            appends.entry(key_of(append.item)).or_default().push(append);
        }
        let mut reads: BTreeMap<(u32, Level), Vec<Read>> = BTreeMap::new();
        for (key, level, read) in lock(&self.reads).drain(..) {
            reads.entry((key, level)).or_default().push(read);
        }
        let mut stored = Vec::new();
        let mut judged: BTreeMap<Level, Judged> = BTreeMap::new();
        let last = key_of(self.next.load(Ordering::Relaxed));
        for key in 0..last + KEYS as u32 {
            let slice = trades.buckets(&key).limit(100_000).page().await.unwrap();
            let pages = slice
                .items
                .iter()
                .map(|page| page.items.iter().map(|trade| trade.n).collect());
            let pages: Vec<Vec<i64>> = pages.collect();
            let appends = appends.remove(&key).unwrap_or_default();
            for level in Level::ALL {
                let reads = reads.remove(&(key, level)).unwrap_or_default();
                let judged = judged.entry(level).or_default();
                judged.reads += reads.len();
                for (index, wrong) in check(&appends, &reads, &pages) {
                    *judged.wrong.entry(wrong.name()).or_default() += 1;
                    judged.first.entry(wrong.name()).or_insert_with(|| {
                        format!(
                            "{} key {key}: {wrong:?}, {:?}, at the end {pages:?}",
                            self.name, reads[index]
                        )
                    });
                }
            }
            stored.extend(pages.concat());
        }
        let counts = fates.judge(self.name, stored);
        if self.has_ids {
            assert_eq!(counts.1, 0, "every append was retried until its outcome was known");
        }
        let collection = trades.collection().clone_with_type();
        assert_eq!(violations(&collection, 10).await, [], "{}", self.name);
        let findings: Vec<Finding> = trades.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, [], "{}", self.name);
        (counts, judged)
    }
}

/// The reads of one level.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    pub reads: usize,
    /// The number of each anomaly.
    pub wrong: BTreeMap<&'static str, u64>,
    /// The first of each anomaly.
    pub first: BTreeMap<&'static str, String>,
}

impl Judged {
    pub fn add(&mut self, other: Self) {
        self.reads += other.reads;
        for (wrong, times) in other.wrong {
            *self.wrong.entry(wrong).or_default() += times;
        }
        self.first.extend(other.first);
    }
}

fn key_of(n: i64) -> u32 {
    let generation = n / (KEYS * OF_A_KEY);
    u32::try_from(generation * KEYS + n % KEYS).unwrap()
}
