//! The calls of operators.

use futures::TryStreamExt;
use futures::stream::iter;
use mongo_patterns_core::conn::Conn;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::error::ErrorKind::{Corrupt, InvalidArgument, SettingsMismatch, TargetNotEmpty};
use mongo_patterns_core::migration::MigrationProgress;
use mongo_patterns_core::verify::{Repair, Verify};
#[allow(unused_imports)] // the links of the documentation use the trait
use mongo_patterns_core::{Repository, Result, migration};
use mongodb::Collection;

use crate::migrate::migrate_existing;
use crate::repair::finding::{Problem, Unrepaired};
use crate::repair::repairs;
use crate::repository::{IntervalRepository, Shared};
use crate::results::Migrated;

impl<D> IntervalRepository<D> {
    /// Scans the collection for problems: several valid documents of an id, intervals that overlap or end before they begin,
    /// wrong marks, and documents without an interval.
    ///
    /// A mark is wrong if its document is not the valid one now. A gap is no problem.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(prices: mongo_patterns::intervals::IntervalRepository<i32>) -> mongo_patterns::Result<()> {
    /// let mut findings = prices.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. This one needs no
    /// index.
    ///
    /// # Cost
    /// One scan, of the ids and the intervals, and two round trips for each id with a problem. The intervals of one id are
    /// in memory.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared: &Shared = self.shared();
        Verify::new(shared.ensure(), |reporter| {
            let repairs = repairs(shared, reporter, true);
            Box::pin(
                repairs
                    .map_ok(|of_id| iter(of_id.findings.into_iter().map(Ok)))
                    .try_flatten(),
            )
        })
    }

    /// Repairs the findings of [`verify`](Self::verify), id by id: an interval without an end ends where the next one
    /// begins, and the current document is marked as valid.
    ///
    /// It corrects as [`migrate_existing`](Self::migrate_existing). Contradictions stay, with their [reason](Unrepaired),
    /// and so does a mark that a unique index of the application refuses.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(prices: mongo_patterns::intervals::IntervalRepository<i32>) -> mongo_patterns::Result<()> {
    /// let mut repairs = prices.repair().dry_run().stream();
    /// while let Some(repaired) = repairs.try_next().await? {
    ///     println!("{} problems of an id", repaired.findings.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`verify`](Self::verify), and one round trip more for each repair.
    ///
    /// # Cancel safety
    /// The intervals of an id are all repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// - The errors of [`verify`](Self::verify).
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        let shared: &Shared = self.shared();
        Repair::new(shared.ensure(), |reporter, dry_run| repairs(shared, reporter, dry_run))
    }

    /// Migrates existing documents: written by the manual's recipe, by SQL tools, or without an interval, which are valid
    /// since 1900-01-01. Then it creates the indexes. It deletes nothing.
    ///
    /// It changes no start that is stored, and no end before 9999-01-01. After an end in the past, no document of the id is
    /// valid, unless another interval contains the present. It corrects, and [counts](Migrated::corrections) by their kind:
    ///
    /// - starts: a document without a start is the first of its id. If all others have ended, it begins at the last end.
    /// - ends: an interval without an end, or with an end from 9999-01-01, ends where the next one begins. So does a
    ///   document with a stored start of 1900-01-01 whose end the recipe has moved to a later start.
    /// - marks: only the document whose interval contains the present is marked as valid.
    ///
    /// ```no_run
    /// # async fn f(prices: mongo_patterns::intervals::IntervalRepository<i32>) -> mongo_patterns::Result<()> {
    /// let planned = prices.migrate_existing().plan().await?;
    /// println!("{:?}", planned.migrated.corrections);
    /// let migrated = prices.migrate_existing().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Stop all programs that write to the collection without this crate first. A document that a repository changes
    /// concurrently is left for another call. It can be interrupted and called again. A chunk has at most 10,000 documents.
    ///
    /// # Invalid documents
    /// A contradiction is refused, or [skipped](MigrateExisting::skip_invalid), with all documents of its id and the first
    /// of these reasons:
    ///
    /// | reason | meaning |
    /// |---|---|
    /// | `invalid` | a document has no valid id, or a field of the interval has another type |
    /// | `same_start` | two documents begin at one time, or have no start |
    /// | `overlap` | an interval ends after the next one begins |
    /// | `reversed` | an interval ends before it begins, or begins at the end of time |
    /// | `end_missing` | the last document is not valid, but has no end |
    /// | `mark` | the document that is marked as valid has ended, or another one without a mark has begun since |
    ///
    /// Correct documents of `same_start` with equal stored starts before: the unique index refuses them, skipped or not.
    ///
    /// # Cost
    /// Six round trips, four more the first time, two for each further 1000 documents, and one for each chunk and each
    /// skipped document. The server reads the documents twice. The intervals of one id are in memory.
    ///
    /// # Cancel safety
    /// It stops between two chunks, and the server may still execute the last command. Call it again.
    ///
    /// # Errors
    /// - [`SettingsMismatch`]: the [catalog](mongo_patterns_core::catalog) has other settings.
    /// - [`InvalidArgument`]: a number is 0, or all documents are invalid.
    /// - [`TargetNotEmpty`]: the list of the skipped documents has others.
    /// - [`Corrupt`]: a document is invalid. After the corrections, also the other errors of
    ///   [`ensure_indexes`](Self::ensure_indexes).
    pub fn migrate_existing(&self) -> MigrateExisting<'_> {
        MigrateExisting::with_defaults(self.shared())
    }
}

migration! {
    /// Migrates existing documents; returned by [`IntervalRepository::migrate_existing`].
    pub struct MigrateExisting<'a> {
        shared: &'a Shared,
    }
    "migrate_existing" => Migrated;
    in chunks of 1_000 "documents";
}

impl MigrateExisting<'_> {
    async fn migrate(self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        migrate_existing(self.shared, &self.options, conn, progress).await
    }

    /// Skips the ids whose documents are [invalid](IntervalRepository::migrate_existing). By default they are
    /// refused.
    ///
    /// Each document of such an id is listed in this collection: its `_id`, the `reason`, and the name of the collection as
    /// `source` and `target`. Another run replaces the list. The collection must be in the same database, and empty or the
    /// list of this migration.
    pub fn skip_invalid<Any: Send + Sync>(mut self, list: &Collection<Any>) -> Self {
        self.options.skipped = Some(list.clone_with_type());
        self
    }
}
