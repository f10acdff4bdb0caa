//! Reads summaries of the buckets of all keys, or of one key.
//!
//! # Design
//!
//! ## Why does `verify` read a key with findings twice?
//!
//! The buckets of a key are not all read at one moment. A finding of two reads, the second after the first, is real.

use std::collections::{BTreeMap, HashSet};
use std::marker::PhantomData;

use futures::TryStreamExt;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::verify::{Results, begin, confirmed};
use mongo_patterns_core::{EncodedKey, Key, Result};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::AggregateOptions;

use crate::query::buckets::{Documents, buckets_of_any_form};
use crate::query::summary::summaries;
use crate::repair::check::{Summary, check};
use crate::repair::finding::Finding;
use crate::repository::Shared;

/// A scan of the collection, key by key. It holds the summaries of one key's buckets in memory.
pub(crate) struct Scan<'a, K> {
    shared: &'a Shared,
    key: Option<EncodedKey>,
    rows: Option<Rows>,
    /// The first summary of the next key.
    next: Option<Summary>,
    reporter: Reporter<'a>,
    types: PhantomData<fn() -> K>,
}

/// A key with findings that a second read must confirm, because others may write concurrently.
pub(crate) struct Suspect {
    /// `None` for a bucket without a key.
    pub(crate) key: Option<EncodedKey>,
    pub(crate) findings: Vec<Finding>,
    /// The buckets.
    pub(crate) documents: Documents,
    /// Whether no key field contains the key, so that only their ids do.
    is_stray: bool,
}

impl<'a, K: Key> Scan<'a, K> {
    /// Creates a scan of the buckets of one key, or of all keys.
    pub(crate) fn new(shared: &'a Shared, key: Option<EncodedKey>, reporter: Reporter<'a>) -> Self {
        Self {
            shared,
            key,
            rows: None,
            next: None,
            reporter,
            types: PhantomData,
        }
    }

    /// Returns all keys with findings.
    pub(crate) async fn run(mut self, mut results: Results<Suspect>) -> Result<()> {
        while let Some(suspect) = self.next_suspect().await? {
            results.add(suspect).await;
        }
        Ok(())
    }

    /// Returns the next key with findings.
    async fn next_suspect(&mut self) -> Result<Option<Suspect>> {
        while let Some(summaries) = self.next_group().await? {
            let findings = check(&self.shared.settings, &summaries);
            if !findings.is_empty() {
                return Ok(Some(Suspect {
                    key: summaries[0].identity.key.clone(),
                    findings,
                    is_stray: summaries.iter().all(Summary::is_stray),
                    documents: Documents {
                        keys: distinct_keys(&summaries),
                        ids: summaries.into_iter().map(|summary| summary.id).collect(),
                    },
                }));
            }
        }
        Ok(None)
    }

    /// Returns the buckets of the next key.
    async fn next_group(&mut self) -> Result<Option<Vec<Summary>>> {
        let mut group: Vec<Summary> = self.next.take().into_iter().collect();
        while let Some(summary) = self.next_summary().await? {
            let of_group = |first: &Summary| first.key_text().is_some() && first.key_text() == summary.key_text();
            if group.first().is_none_or(of_group) {
                group.push(summary);
            } else {
                self.next = Some(summary);
                break;
            }
        }
        group.sort_by_cached_key(Summary::position);
        Ok((!group.is_empty()).then_some(group))
    }

    async fn next_summary(&mut self) -> Result<Option<Summary>> {
        let (collection, settings) = self.shared.parts();
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let filter = match &self.key {
                    Some(key) => buckets_of_any_form(settings, key, &Documents::default()),
                    None => {
                        begin(&mut self.reporter, [collection]).await?;
                        Document::new()
                    }
                };
                let read = Step::aggregate(
                    "read the summaries of the buckets",
                    collection,
                    summaries(settings, filter),
                );
                let read = read.own_collation().in_order_of(["key", "_id"]);
                self.rows.insert(Conn::new().stream(read).await?)
            }
        };
        while let Some(row) = rows.try_next().await? {
            let summary = Summary::of_row::<K>(&row);
            self.reporter.advance(1);
            // A hand-written `_id` of another key can start with this key.
            let is_of_key = |key: &EncodedKey| summary.key_text() == Some(key.text());
            if self.key.as_ref().is_none_or(is_of_key) {
                return Ok(Some(summary));
            }
        }
        Ok(None)
    }
}

impl Suspect {
    /// Reads the buckets again, and returns the findings that are still there.
    pub(crate) async fn confirm<K: Key>(&self, shared: &Shared) -> Result<Vec<Finding>> {
        let filter = match &self.key {
            Some(key) => buckets_of_any_form(&shared.settings, key, &self.documents),
            None => doc! { "_id": { "$in": &self.documents.ids } },
        };
        let again = summaries_of::<K>(shared, self.key.as_ref(), filter, &mut Conn::new()).await?;
        Ok(confirmed(&self.findings, check(&shared.settings, &again)))
    }
}

/// Returns each key with findings once.
///
/// The buckets of a key are adjacent, except buckets whose key field has no key of the type. They wait for the other buckets
/// of the key in their `_id`, or for the end.
pub(crate) async fn each_key_once<K: Key>(mut scan: Scan<'_, K>, mut results: Results<Suspect>) -> Result<()> {
    // The waiting buckets, by the text of their key.
    let mut strays: BTreeMap<String, Suspect> = BTreeMap::new();
    let mut returned = HashSet::new();
    while let Some(mut suspect) = scan.next_suspect().await? {
        let Some(key) = suspect.key.as_ref().map(|key| key.text().to_owned()) else {
            results.add(suspect).await;
            continue;
        };
        if let Some(stray) = strays.remove(&key) {
            suspect.findings.extend(stray.findings);
            suspect.documents.ids.extend(stray.documents.ids);
            suspect.documents.keys.extend(stray.documents.keys);
        }
        if !suspect.is_stray {
            returned.insert(key);
            results.add(suspect).await;
        } else if !returned.contains(&key) {
            strays.insert(key, suspect);
        }
    }
    results.add_all(strays.into_values()).await;
    Ok(())
}

/// Returns the values of the key fields, each once.
fn distinct_keys(summaries: &[Summary]) -> Vec<Bson> {
    let mut keys: Vec<Bson> = Vec::new();
    for summary in summaries {
        if !keys.contains(&summary.stored_key) {
            keys.push(summary.stored_key.clone());
        }
    }
    keys
}

/// Reads the buckets of a filter that are of a key, from the primary.
pub(crate) async fn summaries_of<K: Key>(
    shared: &Shared,
    key: Option<&EncodedKey>,
    filter: Document,
    conn: &mut Conn<'_>,
) -> Result<Vec<Summary>> {
    let (collection, settings) = shared.parts();
    let options = AggregateOptions::builder().allow_disk_use(true).build();
    let rows = conn
        .aggregate_all(collection, summaries(settings, filter), options)
        .await?;
    let mut summaries: Vec<Summary> = rows.iter().map(|row| Summary::of_row::<K>(row)).collect();
    summaries.retain(|summary| summary.key_text() == key.map(EncodedKey::text));
    summaries.sort_by_cached_key(Summary::position);
    Ok(summaries)
}
