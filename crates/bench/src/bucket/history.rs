//! An append to a key with a long history.

use std::sync::Arc;

use anyhow::Result;
use futures::FutureExt;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::by_hand;
use super::trade::Trade;
use crate::bench::Bench;
use crate::counts::examined;
use crate::measure::{Operation, Variant, Work, compare, in_tasks};
use crate::report::{Comparison, Section, number};

/// The number of keys with a history of each length.
const KEYS: u32 = 4;
/// Appends open a bucket and do not fill it. So it can be removed, and the history keeps its length.
const ITEMS: u64 = 9;

const TEXT: &str = "\
The keys have 1, 100 and 10,000 full buckets, in one collection. Each form is compared with itself at one bucket. The \
manual's filter walks every bucket of the key to find an open one; ours has an index of the open ones.";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let lengths = bench.pick([1, 100, 10_000], [1, 10, 100]);
    let (ours, naive) = (bench.collection("history_ours"), bench.collection("history_naive"));
    fill(&ours, &naive, lengths).await?;

    let mut variants = Vec::new();
    for buckets in lengths {
        let passes = bench.pick(40, 2);
        let variant = variant(true, &ours, buckets, lengths).passes(passes);
        variants.push(variant.against(name(true, lengths[0])).ours());
    }
    for buckets in lengths {
        let passes = bench.pick(if buckets > 1000 { 4 } else { 40 }, 2);
        let variant = variant(false, &naive, buckets, lengths).passes(passes);
        variants.push(variant.against(name(false, lengths[0])));
    }
    let title = "By the length of the key's history";
    let mut comparison = Comparison::new(title, "append", compare(bench, title, variants).await?);
    for (is_ours, collection) in [(true, "history_ours"), (false, "history_naive")] {
        for buckets in lengths {
            let collection = bench.recorded(collection);
            let append = append(is_ours, collection, buckets, lengths).await?;
            append(0).await?; // opens the bucket
            let found = examined(bench, append(u64::from(KEYS))).await?;
            comparison.figure(&name(is_ours, buckets), "documents examined", found.documents);
            comparison.figure(&name(is_ours, buckets), "keys examined", found.keys);
        }
    }
    let mut section = Section::new("long-history", "Append to a long history", TEXT);
    section.add(&comparison);
    Ok(section)
}

fn name(ours: bool, buckets: u64) -> String {
    let form = if ours { "append" } else { "the manual's update_one" };
    let plural = if buckets == 1 { "" } else { "s" };
    format!("{form}, {} bucket{plural}", number(buckets as f64))
}

/// Returns the first of the keys with this number of buckets.
fn first_key(buckets: u64, lengths: [u64; 3]) -> u32 {
    let position = lengths.iter().position(|length| *length == buckets);
    1000 * (position.unwrap_or(0) as u32 + 1)
}

/// Stores the same histories in both collections.
async fn fill(ours: &Collection<Document>, naive: &Collection<Document>, lengths: [u64; 3]) -> Result<()> {
    let trades = super::collection::fresh(ours).await?;
    for buckets in lengths {
        let items = Trade::spread(buckets * u64::from(super::collection::PAGE_SIZE));
        for key in 0..KEYS {
            trades.append_many(&(first_key(buckets, lengths) + key), &items).await?;
        }
    }
    naive.drop().await?;
    ours.aggregate([doc! { "$out": naive.name() }]).await?;
    Ok(())
}

fn variant<'a>(ours: bool, collection: &Collection<Document>, buckets: u64, lengths: [u64; 3]) -> Variant<'a> {
    let collection = collection.clone();
    let operations = u64::from(KEYS) * ITEMS;
    Variant::new(name(ours, buckets), operations, move || {
        let collection = collection.clone();
        async move {
            let work: Work = in_tasks(1, operations, append(ours, collection, buckets, lengths).await?);
            Ok(work)
        }
    })
}

/// Removes the open buckets, and returns the append, to the keys in turn.
async fn append(ours: bool, collection: Collection<Document>, buckets: u64, lengths: [u64; 3]) -> Result<Operation> {
    let end = lengths[2] * u64::from(super::collection::PAGE_SIZE);
    let items: Arc<[Trade]> = Trade::spread(end + ITEMS).iter().skip(end as usize).cloned().collect();
    let first = first_key(buckets, lengths);
    // The first item of each key opens its bucket, and determines its name.
    let open: Vec<String> = (first..first + KEYS)
        .map(|key| format!("{key}_{}", items[0].second()))
        .collect();
    collection.delete_many(doc! { "_id": { "$in": open } }).await?;
    let trades = super::collection::repository(&collection, super::collection::PAGE_SIZE)?;
    Ok(Arc::new(move |n| {
        let (trades, collection, items) = (trades.clone(), collection.clone(), Arc::clone(&items));
        async move {
            let key = first + (n % u64::from(KEYS)) as u32;
            let item = &items[(n / u64::from(KEYS)) as usize];
            if ours {
                trades.append(&key, item).await?;
            } else {
                by_hand::naive_append(&collection, key, item).await?;
            }
            Ok(())
        }
        .boxed()
    }))
}
