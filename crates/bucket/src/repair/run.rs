//! Repairs the keys of a scan, a transaction a key.
//!
//! # Design
//!
//! ## Why does a repair check its result before it commits?
//!
//! The transaction verifies the rewritten key and the number of its items, so a mistake of the repair changes nothing.
//!
//! ## Why does a repair read by `_id` alone?
//!
//! A bucket of the key whose key field has another value can be on any shard. The items of the key are in order only with
//! its items, and a new `_id` must not be its `_id`.

use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::transaction::{self, lock_documents};
use mongo_patterns_core::verify::{confirmed, each, scan};
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Key, Result};

use crate::query::append::open_bucket_of_any_id;
use crate::query::buckets::{Documents, buckets_of_any_key_field};
use crate::repair::check::check;
use crate::repair::finding::{Finding, Repaired, Unrepaired};
use crate::repair::fix::{Fix, fix};
use crate::repair::scan::{Scan, Suspect, each_key_once, summaries_of};
use crate::repository::Shared;

pub(crate) fn repairs<'a, K: Key>(
    shared: &'a Shared,
    keys: Scan<'a, K>,
    dry_run: bool,
    concurrency: usize,
) -> ActionStream<'a, Repaired> {
    each(
        scan(move |results| each_key_once(keys, results)),
        concurrency,
        move |suspect| Box::pin(repair_key::<K>(shared, suspect, dry_run)),
    )
}

/// Repairs a key, or plans it. `None` when the findings are gone.
async fn repair_key<K: Key>(shared: &Shared, suspect: Suspect, dry_run: bool) -> Result<Option<Repaired>> {
    let Suspect {
        key,
        findings,
        documents,
        ..
    } = suspect;
    let Some(key) = key else {
        return Ok(Some(Repaired::new(findings, Some(Unrepaired::AmbiguousKey))));
    };
    let repair = KeyRepair {
        shared,
        key: &key,
        documents: &documents,
        is_again: false,
    };
    let fix = if dry_run {
        repair.plan::<K>(findings).await
    } else {
        let (collection, settings) = shared.parts();
        let mut conn = shared.enter(&key, None).await?;
        transaction::run(collection, &settings.retry, &mut conn, repair, |conn, repair| {
            Box::pin(repair.repair_in_transaction::<K>(conn))
        })
        .await
    };
    let fix = fix.map_err(|error| error.with_key(key.text()))?;
    if fix.findings.is_empty() {
        return Ok(None);
    }
    Ok(Some(Repaired::of_rewrite(fix.findings, &fix.changes, fix.unrepaired)))
}

struct KeyRepair<'a> {
    shared: &'a Shared,
    key: &'a EncodedKey,
    /// Suspect buckets, which the filter by key may not match.
    documents: &'a Documents,
    /// Whether the transaction ran before, and conflicted with other writers.
    is_again: bool,
}

impl KeyRepair<'_> {
    /// Reads the buckets, and plans the fix.
    async fn read<K: Key>(&self, conn: &mut Conn<'_>) -> Result<Fix> {
        let (collection, settings) = self.shared.parts();
        let filter = buckets_of_any_key_field(settings, self.key, &self.documents.ids);
        let buckets = conn.find_all(collection, filter, None).await?;
        fix::<K>(settings, self.key, buckets)
    }

    /// Plans the repair of findings of two reads.
    async fn plan<K: Key>(&self, mut findings: Vec<Finding>) -> Result<Fix> {
        let mut fix = self.read::<K>(&mut Conn::new()).await?;
        if confirmed(&findings, fix.findings.clone()).len() < fix.findings.len() {
            // The scan returns some buckets of a key apart from the others, and others may write concurrently.
            findings.append(&mut fix.findings);
            fix = self.read::<K>(&mut Conn::new()).await?;
        }
        fix.findings = confirmed(&findings, fix.findings);
        Ok(fix)
    }

    /// Repairs the key in a transaction, whose snapshot needs no second read.
    async fn repair_in_transaction<K: Key>(&mut self, conn: &mut Conn<'_>) -> Result<Fix> {
        let (collection, settings) = self.shared.parts();
        if self.is_again {
            let filter = open_bucket_of_any_id(settings, self.key, None);
            lock_documents(conn, collection, &filter).await?;
        }
        self.is_again = true;
        let fix = self.read::<K>(conn).await?;
        if fix.changes.is_empty() {
            return Ok(fix);
        }
        fix.changes.apply(conn, collection).await?;
        self.check_again::<K>(&fix, conn).await?;
        Ok(fix)
    }

    /// Checks the result before the transaction commits.
    async fn check_again<K: Key>(&self, fix: &Fix, conn: &mut Conn<'_>) -> Result<()> {
        let filter = buckets_of_any_key_field(&self.shared.settings, self.key, &self.documents.ids);
        let summaries = summaries_of::<K>(self.shared, Some(self.key), filter, conn).await?;
        let items: u64 = summaries.iter().filter_map(|summary| summary.items).sum();
        let mut findings = check(&self.shared.settings, &summaries);
        findings.retain(|finding| !finding.problem.is_of_items());
        if items == fix.items && findings.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            "the repair of a key failed its own check, nothing of the key was changed: report this bug of mongo-patterns",
        ))
    }
}
