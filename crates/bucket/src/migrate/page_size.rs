//! The migration of buckets to another page size, or another bound of bytes.

use futures::TryStreamExt;
use mongo_patterns_core::catalog::Stored;
use mongo_patterns_core::index::drop_old_index;
use mongo_patterns_core::migration::Pace;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::topology::Topology;
use mongodb::bson::RawBson;

use crate::prelude::*;
use crate::repair::finding::{Repaired, Unrepaired};
use crate::repair::run::repairs;
use crate::repair::scan::Scan;
use crate::repository::Shared;
use crate::results::Migrated;
use crate::settings::bytes::ByteBound;

/// How many times keys are rewritten while others, whose writes do not name the index, write concurrently.
const ROUNDS: usize = 3;

/// A migration from another page size, or another bound of bytes.
pub(crate) struct PageSizeMigration<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) old: u32,
    /// The old bound of bytes, if there was one.
    pub(crate) old_bytes: Option<u32>,
    pub(crate) concurrency: usize,
    pub(crate) pace: Pace,
    pub(crate) reporter: Reporter<'a>,
}

impl PageSizeMigration<'_> {
    pub(crate) async fn run<K: Key>(mut self, conn: &mut Conn<'_>) -> Result<Migrated> {
        let (collection, settings) = self.shared.parts();
        let refuse = |message: &'static str| Err(Error::new(ErrorKind::InvalidArgument, message));
        let number = |bound: &ByteBound| u32::try_from(bound.most).unwrap_or(u32::MAX);
        let bytes = settings.bytes.as_ref().map(number);
        let is_same = self.old == settings.page_size && self.old_bytes == bytes;
        if is_same || self.old == 0 || i32::try_from(self.old).is_err() {
            return refuse(
                "the old page size is invalid: pass one from 1 to 2,147,483,647 that differs from the repository's, which is the new one, or another bound of bytes",
            );
        }
        if self.old_bytes.is_some() && bytes.is_none() {
            return refuse(
                "the repository has no bound of bytes, and that of the collection cannot be removed: set a large one on the builder",
            );
        }
        let [new_bytes, old_bytes] = [bytes, self.old_bytes].map(|bytes| bytes.unwrap_or(u32::MAX));
        let is_smaller = settings.page_size < self.old || new_bytes < old_bytes;
        if is_smaller && (settings.page_size > self.old || new_bytes > old_bytes) {
            return refuse(
                "the page size would become larger and the bound of bytes smaller, or the reverse: change one of them, and then the other",
            );
        }
        let old_bytes = settings.bytes.as_ref().zip(self.old_bytes);
        let old_bytes = old_bytes.map(|(bound, old)| ByteBound::new(old, bound.field.to_string(), self.old));
        let Ok(old_bytes) = old_bytes.transpose() else {
            return refuse("the old bound of bytes is invalid: pass that of the index");
        };
        Topology::read(collection, conn).await?.check_transactions()?;
        let old_index = settings.open_index_for(self.old, old_bytes.as_ref());
        let ensure = self.shared.ensure();
        let old = settings.stored_form_of_size(self.old, old_bytes.as_ref());
        if ensure.entry.check_change(conn, &old).await? == Stored::None {
            return Err(ensure.entry.missing());
        }
        let mut migrated = Migrated::default();
        // A bound where there was none makes buckets smaller: the new index does not have those without bytes.
        if is_smaller {
            drop_old_index(conn, collection, &old_index).await?;
            // Before the index, so that a service with the new size can create it after an interruption.
            ensure.entry.replace(conn).await?;
            ensure.create_missing(conn).await?;
            let left = self.rewrite::<K>(conn.is_plan(), &mut migrated).await?;
            return left.map_or(Ok(migrated), |left| Err(not_rewritten::<K>(left)));
        }
        if let Some(left) = self.rewrite::<K>(conn.is_plan(), &mut migrated).await? {
            return Err(not_rewritten::<K>(left));
        }
        drop_old_index(conn, collection, &old_index).await?;
        ensure.entry.replace(conn).await?;
        if conn.is_plan() {
            ensure.create_missing(conn).await?;
            return Ok(migrated);
        }
        let mut rounds = 0;
        loop {
            rounds += 1;
            let left = self.rewrite::<K>(conn.is_plan(), &mut migrated).await?;
            match (ensure.create_missing(conn).await, left) {
                (Ok(_), _) => return Ok(migrated),
                (Err(error), Some(left)) if error.is_corrupt() => return Err(not_rewritten::<K>(left)),
                (Err(error), None) if error.is_corrupt() && rounds < ROUNDS => {}
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Rewrites all keys whose pages do not have the new size. Returns one that was not rewritten.
    async fn rewrite<K: Key>(&mut self, is_plan: bool, migrated: &mut Migrated) -> Result<Option<Repaired>> {
        // The progress is that of the first scan: later ones find what others have changed since.
        let scan = Scan::<K>::new(self.shared, None, std::mem::take(&mut self.reporter));
        let mut keys = repairs(self.shared, scan, is_plan, self.concurrency);
        let mut left = None;
        while let Some(repaired) = keys.try_next().await? {
            migrated.keys += u64::from(repaired.written > 0);
            migrated.buckets += repaired.written;
            if !is_plan {
                measure::migrated(repaired.written);
            }
            if repaired.unrepaired.is_some_and(|left| left != Unrepaired::NoItemId) {
                left.get_or_insert(repaired);
            } else if !is_plan {
                self.pace.wait(1).await;
            }
        }
        Ok(left)
    }
}

fn not_rewritten<K: Key>(repaired: Repaired) -> Error {
    let reason = repaired.unrepaired.map(|left| left.to_string()).unwrap_or_default();
    let error = Error::new(
        ErrorKind::Corrupt,
        format!("the pages of a key were not rewritten: {reason}; then call this again"),
    );
    let Some(finding) = repaired.findings.into_iter().next() else {
        return error;
    };
    let key = finding.related_id.and_then(|key| RawBson::try_from(key).ok());
    let key = key.and_then(|key| K::from_stored(key.as_raw_bson_ref())?.encode_key().ok());
    let error = error.at(finding.document_id, "_id");
    match key {
        Some(key) => error.with_key(key.text()),
        None => error,
    }
}
