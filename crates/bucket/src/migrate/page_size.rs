//! The migration of buckets to another page size.

use futures::TryStreamExt;
use mongo_patterns_core::catalog::StoredSettings;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::drop_old_index;
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::topology::Topology;
use mongo_patterns_core::{Error, ErrorKind, Key, Result, measure};
use mongodb::bson::RawBson;

use crate::repair::finding::{Repaired, Unrepaired};
use crate::repair::run::repairs;
use crate::repair::scan::Scan;
use crate::repository::Shared;
use crate::results::Migrated;

/// How many times keys are rewritten while others, whose writes do not name the index, write concurrently.
const ROUNDS: usize = 3;

/// A migration from another page size.
pub(crate) struct PageSizeMigration<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) old: u32,
    pub(crate) concurrency: usize,
    pub(crate) progress: MigrationProgress<'a>,
}

impl PageSizeMigration<'_> {
    pub(crate) async fn migrate<K: Key>(mut self, conn: &mut Conn<'_>) -> Result<Migrated> {
        let (collection, settings) = self.shared.parts();
        if self.old == settings.page_size || self.old == 0 || i32::try_from(self.old).is_err() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the old page size is invalid: pass one from 1 to 2,147,483,647 that differs from the repository's, which is the new one",
            ));
        }
        Topology::read(collection, conn).await?.check_transactions()?;
        let old_index = settings.open_index_for(self.old);
        let ensure = self.shared.ensure();
        let old = settings.stored_form_of_size(self.old);
        if ensure.entry.check_change(conn, &old).await? == StoredSettings::None {
            return Err(ensure.entry.missing());
        }
        let mut migrated = Migrated::default();
        if settings.page_size < self.old {
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
        let scan = Scan::<K>::new(self.shared, None, std::mem::take(&mut self.progress.reporter));
        let mut keys = repairs(self.shared, scan, is_plan, self.concurrency);
        let mut left = None;
        while let Some(repaired) = keys.try_next().await? {
            migrated.keys += u64::from(repaired.written > 0);
            migrated.documents += repaired.written;
            if !is_plan {
                measure::migrated(repaired.written);
            }
            if repaired.unrepaired.is_some_and(|left| left != Unrepaired::NoItemId) {
                left.get_or_insert(repaired);
            } else if !is_plan {
                self.progress.pace.wait(1).await;
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
    let error = error.of_document(finding.document_id, "_id");
    match key {
        Some(key) => error.with_key(key.text()),
        None => error,
    }
}
