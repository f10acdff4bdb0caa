//! Large collections and long histories, against small ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use futures::{FutureExt, TryStreamExt};
use mongo_patterns_bucket::BucketRepository;
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};
use serde::{Deserialize, Serialize};

use super::by_hand;
use super::collection::PAGE_SIZE;
use super::trade::{SECOND, scatter};
use crate::bench::Bench;
use crate::measure::{Operation, Variant, Work, compare, compare_once, in_tasks, operation, settle};
use crate::memory;
use crate::report::{Comparison, Section};

/// How many flat documents are sent at once.
const BATCH: u64 = 50_000;
/// How many calls are measured in a round.
const CALLS: u64 = 2000;
const MIGRATE: &str = "migrate_from_flat";
const VERIFY: &str = "verify";

const TEXT: &str = "\
Ten million items of a million keys, and a million items of one key, each against a hundredth of it. The items are \
migrated from a flat collection and then verified, once. Then one task calls the repository for random keys, items and \
positions. Rows are compared with the same call on the small collection; the rates of the migration and of `verify` are \
items per second. The peak is that of the client's memory during the row.";

/// An item with an id of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Event {
    n: i64,
    qty: i32,
    date: DateTime,
}

/// The same as a document of its own.
#[derive(Serialize)]
struct FlatEvent {
    #[serde(rename = "customerId")]
    customer: i64,
    #[serde(flatten)]
    event: Event,
}

type Events = BucketRepository<i64, Event>;

fn event(n: u64) -> Event {
    Event {
        n: n as i64,
        qty: scatter(n) as u16 as i32,
        date: DateTime::from_millis((SECOND + n as i64) * 1000),
    }
}

/// A collection, by the number of its keys and items. Item `n` is of key `n % keys`.
#[derive(Clone, Copy)]
struct Size {
    keys: u64,
    items: u64,
}

impl Size {
    fn name(self) -> String {
        let number = |count: u64| crate::report::number(count as f64);
        let keys = if self.keys == 1 { "key" } else { "keys" };
        format!("{} {keys}, {} items", number(self.keys), number(self.items))
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("scale", "Scale", TEXT);
    for (title, keys, items) in [
        ("Many keys", bench.pick(1_000_000, 2000), bench.pick(10_000_000, 20_000)),
        ("One key", 1, bench.pick(1_000_000, 20_000)),
    ] {
        let small = Size {
            keys: (keys / 100).max(1),
            items: items / 100,
        };
        let sizes = [small, Size { keys, items }];
        section.add(&migrated(bench, title, sizes).await?);
        section.add(&called(bench, title, sizes).await?);
    }
    Ok(section)
}

fn buckets(bench: &Bench<'_>, size: Size) -> Collection<Document> {
    bench.collection(&format!("scale_{}_{}", size.keys, size.items))
}

fn repository(buckets: &Collection<Document>) -> Result<Events> {
    let builder = Events::builder(buckets.clone())
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .item_id_field("n")
        .page_size(PAGE_SIZE);
    Ok(builder.build()?)
}

/// Creates the flat collection.
async fn fill(flat: &Collection<Document>, size: Size) -> Result<()> {
    by_hand::flat(flat).await?;
    let flat = flat.clone_with_type::<FlatEvent>();
    for first in (0..size.items).step_by(BATCH as usize) {
        let batch = first..(first + BATCH).min(size.items);
        let documents = batch.map(|n| FlatEvent {
            customer: (n % size.keys) as i64,
            event: event(n),
        });
        flat.insert_many(documents).await?;
    }
    settle(flat.client()).await
}

/// Migrates and verifies the collections, once.
async fn migrated(bench: &Bench<'_>, title: &str, sizes: [Size; 2]) -> Result<Comparison> {
    let name = |call: &str, size: Size| format!("{call}, {}", size.name());
    let peaks = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut variants = Vec::new();
    for size in sizes {
        let flat = bench.collection("scale_flat");
        for call in [MIGRATE, VERIFY] {
            let (flat, buckets, peaks) = (flat.clone(), buckets(bench, size), Arc::clone(&peaks));
            let variant = Variant::new(name(call, size), size.items, move || {
                let (flat, buckets, peaks) = (flat.clone(), buckets.clone(), Arc::clone(&peaks));
                async move {
                    if call == MIGRATE {
                        fill(&flat, size).await?;
                        buckets.drop().await?;
                    }
                    let events = repository(&buckets)?;
                    let of_call = name(call, size);
                    let work = async move {
                        memory::reset_peak();
                        let found = match call {
                            MIGRATE => events.migrate_from_flat(&flat).await?.items,
                            _ => {
                                let findings = events.verify().stream().try_fold(0, async |found, _| Ok(found + 1));
                                ensure!(findings.await? == 0, "the migration left findings");
                                size.items
                            }
                        };
                        ensure!(found == size.items, "items are missing");
                        let peak = memory::peak_mib();
                        let mut peaks = peaks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        peaks.extend(peak.map(|peak| (of_call, peak)));
                        Ok(())
                    };
                    Ok(work.boxed() as Work)
                }
                .boxed()
            });
            variants.push(variant.against(name(call, sizes[0])).ours());
        }
    }
    let title = format!("{title}: migrate and verify");
    let entries = compare_once(bench, &title, variants).await?;
    let mut comparison = Comparison::new(title, "item", entries);
    let peaks = peaks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (name, peak) in peaks.iter() {
        comparison.figure(name, "client peak MiB", *peak);
    }
    Ok(comparison)
}

/// A call for a random key.
#[derive(Clone, Copy)]
enum Call {
    Append,
    Newest,
    Page,
    Item,
}

impl Call {
    const ALL: [Self; 4] = [Self::Append, Self::Newest, Self::Page, Self::Item];

    fn name(self, size: Size) -> String {
        let call = match self {
            Self::Append => "append",
            Self::Newest => "newest",
            Self::Page => "pages, by token",
            Self::Item => "item",
        };
        format!("{call}, {}", size.name())
    }
}

async fn called(bench: &Bench<'_>, title: &str, sizes: [Size; 2]) -> Result<Comparison> {
    let mut variants = Vec::new();
    let calls = bench.pick(CALLS, 50);
    for call in Call::ALL {
        for size in sizes {
            let operation = prepare(call, &repository(&buckets(bench, size))?, size);
            let variant = Variant::new(call.name(size), calls, move || {
                let operation = Arc::clone(&operation);
                async move { Ok(in_tasks(1, calls, operation)) }
            });
            variants.push(variant.against(call.name(sizes[0])).ours());
        }
    }
    let title = format!("{title}: calls");
    Ok(Comparison::new(
        title.clone(),
        "call",
        compare(bench, &title, variants).await?,
    ))
}

/// Returns a call for the key of a random item.
fn prepare(call: Call, events: &Events, size: Size) -> Operation {
    let events = events.clone();
    // All calls of the run, so that each appends new items.
    let calls = Arc::new(AtomicU64::new(0));
    operation(move |_| {
        let (events, number) = (events.clone(), calls.fetch_add(1, Ordering::Relaxed));
        async move {
            let n = scatter(number) % size.items;
            let key = (n % size.keys) as i64;
            match call {
                Call::Append => {
                    let appended = events.append(&key, &event(size.items + number)).await?;
                    ensure!(!appended.already_there, "the item was stored before");
                }
                Call::Newest => ensure!(
                    !events.newest(&key, PAGE_SIZE).await?.is_empty(),
                    "the key has no items"
                ),
                Call::Page => {
                    // Before the page of the item, whose name is the second of its first item.
                    let after = (SECOND + n as i64 - 1).to_string().parse()?;
                    let slice = events.pages(&key).newest_first().before(Some(after)).await?;
                    let of_key = slice.pages.iter().all(|page| page.key == key);
                    ensure!(of_key, "the page is of another key");
                }
                Call::Item => ensure!(events.item(&key, n as i64).await?.is_some(), "the item is not stored"),
            }
            Ok(())
        }
    })
}
