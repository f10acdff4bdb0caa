//! Intervals: pants with three prices, a shirt with one, and a hat that is not sold any more.

use futures::TryStreamExt;
use mongo_patterns::intervals::{Ended, Finding};
use mongo_patterns::{Error, ErrorKind, Repository};
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};

use super::operation::Promise::{Atomic, PrefixOnce, Reads, Steps};
use super::operation::{
    Call, EXISTS, Model, Of, Operations, calls, indexes, number_of, retry_policy, serialized, session_calls,
};
use super::sessions::IN;
use support::common::all;
use support::intervals::{END, Prices, at, builder, by_the_recipe, price, to};

pub(super) struct Shop {
    stored: Collection<Document>,
    prices: Prices,
}

fn fact(document: &Document) -> String {
    let text = |field: &str| document.get(field).map(ToString::to_string).unwrap_or_default();
    format!("{} {}", text("item"), text("price"))
}

/// The prices, and the items that have no valid one.
fn facts(documents: &[Document]) -> Vec<String> {
    let mut facts: Vec<String> = documents.iter().map(fact).collect();
    for item in ["pants", "shirt", "hat", "socks"] {
        let mut of_item = documents.iter().filter(|one| one.get_str("item").unwrap() == item);
        let is_known = of_item.clone().next().is_some();
        if is_known && !of_item.any(|one| *one.get_datetime("validTo").unwrap() == END) {
            facts.push(format!("{item} has ended"));
        }
    }
    facts
}

impl Model for Shop {
    const PATTERN: &'static str = "intervals";
    const COLLECTIONS: &'static [&'static str] = &["prices"];

    fn new(of: Of<'_>) -> Self {
        Self {
            stored: of.collection("prices"),
            prices: builder(of.database).retry(retry_policy()).build().unwrap(),
        }
    }

    async fn fill(&self) {
        self.prices.ensure_indexes().await.unwrap();
        for item in ["pants", "shirt", "hat"] {
            self.prices.insert(&price(item, 1)).await.unwrap();
        }
        self.prices.update("pants", to(2)).await.unwrap();
        self.prices.update("pants", to(3)).await.unwrap();
        self.prices.end("hat").await.unwrap();
        let start = doc! { "$set": { "validFrom": at(1000) } };
        self.stored.update_one(doc! { "item": "shirt" }, start).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let mut facts = facts(&all(&self.stored).await);
        facts.extend(indexes(&self.stored).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        let mut read = Vec::new();
        for item in ["pants", "shirt", "hat", "socks"] {
            let found: Vec<_> = match self.prices.intervals(item).stream().try_collect().await {
                Err(error) if error.is_setup_error() => return None,
                found => found.unwrap(),
            };
            read.extend(found.into_iter().map(|one| one.document));
        }
        Some(facts(&read))
    }

    /// An interval that begins before the one before ends. Otherwise a mark that is not that of an interval that has begun.
    async fn damage(&self) -> Vec<String> {
        let mut stored = all(&self.stored).await;
        stored.sort_by_key(|one| *one.get_datetime("validFrom").unwrap());
        let mut damage = Vec::new();
        for (number, one) in stored.iter().enumerate() {
            let mut earlier = stored[..number].iter();
            let before = earlier.rfind(|other| other.get("item") == one.get("item"));
            let time = |of: &Document, field| *of.get_datetime(field).unwrap();
            if before.is_some_and(|before| time(before, "validTo") > time(one, "validFrom")) {
                damage.push(format!("{} Overlap", one.get_str("item").unwrap()));
            }
        }
        let now = DateTime::now();
        let is_outdated = |one: &&Document| {
            let [from, to] = ["validFrom", "validTo"].map(|field| *one.get_datetime(field).unwrap());
            from <= now && one.get_bool("isValid").unwrap() != (now < to)
        };
        if damage.is_empty() {
            let outdated = stored.iter().filter(is_outdated);
            damage.extend(outdated.map(|one| format!("{} OutdatedMark", one.get_str("item").unwrap())));
        }
        damage
    }

    async fn found(&self) -> Vec<String> {
        let found: Vec<Finding> = self.prices.verify().stream().try_collect().await.unwrap();
        let of = |one: &Finding| {
            let item = one.related_id.as_ref().unwrap().as_str().unwrap();
            format!("{item} {:?}", one.problem)
        };
        found.iter().map(of).collect()
    }

    async fn repair(&self) {
        let repaired: Result<Vec<_>, _> = self.prices.repair().stream().try_collect().await;
        assert!(repaired.unwrap().iter().all(|one| one.unrepaired.is_none()));
    }
}

impl Operations for Shop {
    fn operations() -> Vec<Call<Self>> {
        let mut operations = writes();
        operations.extend(reads());
        operations.extend(whole());
        operations.extend(in_a_transaction());
        operations
    }
}

/// 2100-01-01.
const LATER: DateTime = DateTime::from_millis(4_102_444_800_000);

impl Shop {
    /// Stores what a price of the shirt that was scheduled leaves when it begins: the mark is on the earlier one.
    async fn begin_scheduled(&self) {
        self.prices.update("shirt", to(2)).from(LATER).await.unwrap();
        let times = [("validFrom", doc! { "price": 2 }), ("validTo", doc! { "price": 1 })];
        for (field, of) in times {
            let mut filter = doc! { "item": "shirt" };
            filter.extend(of);
            self.stored
                .update_one(filter, doc! { "$set": { field: at(2000) } })
                .await
                .unwrap();
        }
    }
}

/// The errors by which a retry reports that the first call took effect.
const CHANGED: &[ErrorKind] = &[ErrorKind::RevisionMismatch];

/// A repeated end finds nothing: that is no retry of a transaction.
fn found(ended: Ended) -> Result<String, Error> {
    match ended.found {
        true => Ok("ended".to_owned()),
        false => Err(Error::new(ErrorKind::NotFound, "nothing has ended")),
    }
}

fn writes() -> Vec<Call<Shop>> {
    calls! { Shop;
        Atomic, "IntervalRepository::insert", "", |m|
            m.prices.insert(&price("socks", 1)).await.map(drop) => retry_errors(EXISTS);
        Atomic, "IntervalRepository::insert", "after an end", |m|
            m.prices.insert(&price("hat", 2)).await.map(drop) => retry_errors(EXISTS);
        PrefixOnce, "IntervalRepository::update", "", |m| m.prices.update("pants", to(4)).await.map(drop);
        Atomic, "IntervalRepository::update", "at a start", |m|
            m.prices.update("shirt", to(4)).expecting(at(1000)).await.map(drop) => retry_errors(CHANGED);
        PrefixOnce, "IntervalRepository::update", "by a clock that is behind", |m|
            m.prices.update("shirt", to(4)).await.map(drop)
            => prepare(|m| {
                let ahead = at(DateTime::now().timestamp_millis() + 50_000);
                m.stored.update_one(doc! { "item": "shirt" }, doc! { "$set": { "validFrom": ahead } }).await.unwrap()
            });
        Atomic, "IntervalRepository::update", "in the past", |m|
            m.prices.update("shirt", to(4)).from(at(2000)).await.map(drop) => retry_errors(EXISTS);
        Atomic, "IntervalRepository::update", "in the future", |m|
            m.prices.update("shirt", to(4)).from(LATER).await.map(drop) => retry_errors(EXISTS);
        Atomic, "IntervalRepository::update", "after a scheduled start", |m|
            m.prices.update("shirt", to(4)).expecting(at(2000)).await.map(drop)
            => prepare(|m| m.begin_scheduled().await), retry_errors(CHANGED);
        Atomic, "IntervalRepository::insert", "with a start", |m|
            m.prices.insert(&price("socks", 1)).from(at(5)).await.map(drop) => retry_errors(EXISTS);
        Atomic, "IntervalRepository::insert", "between", |m|
            m.prices.insert(&price("hat", 2)).from(at(5)).await.map(drop) => retry_errors(EXISTS);
        Atomic, "IntervalRepository::end", "after a scheduled start", |m|
            m.prices.end("shirt").await.and_then(found)
            => prepare(|m| m.begin_scheduled().await), retry_errors(&[ErrorKind::NotFound]);
        Atomic, "IntervalRepository::replace", "", |m|
            m.prices.replace("shirt", &price("shirt", 4)).expecting(at(1000)).await.map(drop) => retry_errors(CHANGED);
        Atomic, "IntervalRepository::end", "", |m|
            m.prices.end("pants").await.and_then(found) => retry_errors(&[ErrorKind::NotFound]);
    }
}

fn reads() -> Vec<Call<Shop>> {
    calls! { Shop;
        Reads, "IntervalRepository::get", "", |m| m.prices.get("pants").await.map(|now| fact(&now.unwrap().document));
        Reads, "IntervalRepository::as_of", "", |m|
            m.prices.as_of("pants", DateTime::MAX).await.map(|found| fact(&found.unwrap().document));
        Reads, "IntervalRepository::intervals", "", |m|
            m.prices.intervals("pants").limit(2).page().await.map(|page| (page.items.len(), page.next.is_some()));
        Reads, "IntervalRepository::intervals", "stream", |m|
            number_of(m.prices.intervals("pants").limit(2).stream()).await;
    }
}

/// Calls for all prices.
fn whole() -> Vec<Call<Shop>> {
    calls! { Shop;
        Steps, "IntervalRepository::ensure_indexes", "", |m|
            m.prices.ensure_indexes().await.map(drop)
            => prepare(|m| m.stored.drop_indexes().await.unwrap());
        Reads, "IntervalRepository::verify", "", |m| serialized(m.prices.verify().stream()).await;
        Steps, "IntervalRepository::repair", "", |m|
            m.prices.repair().stream().try_collect::<Vec<_>>().await.map(drop)
            => prepare(|m| {
                let late = doc! { "$set": { "validTo": END } };
                m.stored.update_one(doc! { "item": "pants", "price": 1 }, late).await.unwrap()
            });
        Reads, "IntervalRepository::ensure_sharded", "plan", |m|
            m.prices.ensure_sharded().plan().await.map(|plan| plan.len());
        Reads, "IntervalRepository::verify_shard_keys", "", |m| m.prices.verify_shard_keys().await;
    }
}

fn in_a_transaction() -> Vec<Call<Shop>> {
    session_calls! { Shop, stored;
        Atomic, "IntervalRepository::insert", IN, |m, s|
            m.prices.insert(&price("socks", 1)).session(s).await.map(drop) => retry_errors(EXISTS);
        Atomic, "IntervalRepository::update", IN, |m, s|
            m.prices.update("shirt", to(4)).expecting(at(1000)).session(s).await.map(drop) => retry_errors(CHANGED);
        Atomic, "IntervalRepository::replace", IN, |m, s| {
            let replaced = m.prices.replace("shirt", &price("shirt", 4)).expecting(at(1000));
            replaced.session(s).await.map(drop)
        } => retry_errors(CHANGED);
        Atomic, "IntervalRepository::end", IN, |m, s| m.prices.end("pants").session(s).await.map(drop);
        Reads, "IntervalRepository::get", IN, |m, s| m.prices.get("pants").session(s).await.map(|now| now.is_some());
        Reads, "IntervalRepository::as_of", IN, |m, s|
            m.prices.as_of("pants", DateTime::MAX).session(s).await.map(|found| found.is_some());
        Reads, "IntervalRepository::intervals", IN, |m, s|
            m.prices.intervals("pants").session(s).page().await.map(|page| page.items.len());
    }
}

/// What the manual's recipe leaves.
pub(super) struct Migrations(Shop);

impl Model for Migrations {
    const PATTERN: &'static str = "intervals";
    const COLLECTIONS: &'static [&'static str] = &["prices"];

    fn new(of: Of<'_>) -> Self {
        Self(Shop::new(of))
    }

    async fn fill(&self) {
        // A collection that does not exist has no indexes.
        let _ = self.0.stored.drop_indexes().await;
        by_the_recipe(&self.0.stored, "pants", 3).await;
        self.0.stored.insert_one(price("shirt", 4)).await.unwrap();
    }

    /// With the intervals, which the recipe sets.
    async fn facts(&self) -> Vec<String> {
        let stored = all(&self.0.stored).await;
        let interval = |one: &Document| ["validFrom", "validTo", "isValid"].map(|field| one.get(field).cloned());
        let mut facts: Vec<String> = stored
            .iter()
            .map(|one| format!("{} {:?}", fact(one), interval(one)))
            .collect();
        facts.extend(indexes(&self.0.stored).await);
        facts
    }

    /// The repository refuses to read without its indexes.
    async fn read(&self) -> Option<Vec<String>> {
        None
    }
}

impl Operations for Migrations {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Steps, "IntervalRepository::migrate_existing", "", |m|
                m.0.prices.migrate_existing().chunk(2).await.map(drop);
            Reads, "IntervalRepository::migrate_existing + MigrateExisting::plan", "", |m|
                m.0.prices.migrate_existing().plan().await.map(drop);
        }
    }
}
