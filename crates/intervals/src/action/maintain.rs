//! The calls of operators.

use futures::TryStreamExt;
use futures::stream::iter;
use mongo_patterns_core::conn::Conn;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::error::ErrorKind::{Corrupt, InvalidArgument, SettingsMismatch, TargetNotEmpty, Unsupported};
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
    /// Scans the collection for problems: several valid documents of an id, intervals that overlap or that end before they begin, a mark
    /// of a valid document that is not that of its interval now, and documents without an interval. A gap is none.
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
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns. It needs no index.
    ///
    /// # Cost
    /// One scan, of the ids and the intervals, which the server sorts on disk without the index. Two round trips for each id with a
    /// problem. The intervals of one id are in memory.
    ///
    /// # Errors
    /// [`SettingsMismatch`], and those of the driver, as the last item of the stream.
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

    /// Repairs the findings of [`verify`](Self::verify), all of an id together: an interval without an end ends where the next one
    /// begins, and the current document is marked as valid. See [`migrate_existing`](Self::migrate_existing), which corrects in the
    /// same way. Contradictions stay, with their [reason](Unrepaired), and so does a mark that a unique index of the application refuses.
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
    /// That of [`verify`](Self::verify), and one round trip more for each repair.
    ///
    /// # Cancel safety
    /// The intervals of each id are all repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), as the last item of the stream.
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        let shared: &Shared = self.shared();
        Repair::new(shared.ensure(), |reporter, dry_run| repairs(shared, reporter, dry_run))
    }

    /// Migrates existing documents: those that the manual's recipe has written, those of SQL tables and other tools, and documents
    /// without an interval, which are valid since 1900-01-01. Then it creates the indexes. It deletes nothing.
    ///
    /// It changes no start that is stored, and no end before 9999-01-01. An end in the past is an end: no document of the id is valid,
    /// unless another interval contains the present. It corrects, and [counts](Migrated::corrections) by their kind:
    ///
    /// - starts: a document without one is the first of its id. If all others have ended, it begins at the last end.
    /// - ends: an interval without one, or with one from 9999-01-01, ends where the next one begins. So does the document with a stored start of 1900-01-01 whose
    ///   end the recipe has moved to a later start.
    /// - marks: the document whose interval contains the present is marked as valid, and no other one.
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
    /// Stop all programs that write to the collection without this crate first. A document that a repository changes concurrently is left
    /// as it is, for another call. It can be interrupted and called again, with the same result. A chunk has at most 10,000
    /// documents.
    ///
    /// # Invalid documents
    /// What contradicts itself is refused, or [skipped](MigrateExisting::skip_invalid), with all documents of its id and the first of
    /// these reasons:
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
    /// Correct those of `same_start` with equal stored starts before: the unique index refuses them, skipped or not, after the corrections.
    ///
    /// # Cost
    /// Six round trips, four more the first time, two for each further 1000 documents, and one for each chunk and each skipped
    /// document. The server reads the documents twice, and sorts their ids and intervals. The
    /// intervals of one id are in memory.
    ///
    /// # Cancel safety
    /// It stops between two chunks, and the server may still execute the last command. Call it again.
    ///
    /// # Errors
    /// With nothing changed: [`Unsupported`] on a standalone, [`SettingsMismatch`] when the
    /// [catalog](mongo_patterns_core::catalog) has other settings, [`InvalidArgument`] for a number that is 0 and when all documents
    /// are invalid, [`TargetNotEmpty`] when the list of the skipped documents has others, and [`Corrupt`] for an invalid document. Those of [`ensure_indexes`](Self::ensure_indexes)
    /// after the corrections.
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
    /// Each document of such an id is listed in this collection: its `_id`, the `reason`, and the name of the collection as `source` and
    /// `target`. Another run replaces the list. The collection must be of the same database, and empty or the list of this migration.
    pub fn skip_invalid<Any: Send + Sync>(mut self, list: &Collection<Any>) -> Self {
        self.options.skipped = Some(list.clone_with_type());
        self
    }
}
