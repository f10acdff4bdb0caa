//! The calls that find and repair damage, and that rewrite a list.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    Configuration, Contention, Corrupt, InvalidArgument, NotFound, SettingsMismatch, TooLarge, Unsupported,
};
use mongo_patterns_core::action::{ActionStream, Write};
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::{Verify, checked, confirmed, each};
use mongo_patterns_core::{DocumentId, IntoId, Result};

use crate::repair::check::Summary;
use crate::repair::finding::{Problem, Repaired};
use crate::repair::rewrite::{dry_run, rewrite};
use crate::repair::scan::{confirm, readable, suspects};
use crate::repository::{OutlierRepository, Shared};
use crate::results::{Refreshed, not_found};

/// The number of lists that are read again concurrently.
const READ_AT_ONCE: usize = 16;
/// The number of lists that are repaired concurrently. They are in memory with their overflow documents.
const REPAIRED_AT_ONCE: usize = 4;

impl<D, E> OutlierRepository<D, E> {
    /// Verifies the stored documents, list by list.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let mut findings = books.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{} {}: {}", finding.namespace, finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns. Two further reads,
    /// the second 50 milliseconds later, confirm each finding. Only a writer of another process, or in a session of a
    /// caller, that is slower between two of its commands can be reported like one that died there.
    ///
    /// What a [removal](Self::remove) leaves is valid: an array below the threshold with overflow documents, and
    /// overflow documents that are not full, or empty. [`refresh`](Self::refresh) closes these gaps.
    ///
    /// # Cost
    /// One aggregation. The server reads both collections, and groups some hundred bytes of each overflow document, and
    /// of each main document with a flag, on disk beyond 100 MB. It sends sizes and ids, and no element. Four more
    /// round trips for each list with findings, for 16 of them concurrently. Where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), the server also groups the elements of all lists
    /// with a flag or overflow documents, and it is two more round trips for each list. A progress callback counts the lists
    /// with overflow documents, a flag or a long array.
    ///
    /// # Errors
    /// [`SettingsMismatch`], [`Configuration`] when the two collections are in two databases, and those of the driver, as
    /// the last item of the stream.
    pub fn verify(&self) -> Verify<'_, Problem> {
        verify(self.shared(), Ok(None))
    }

    /// Verifies a document and its overflow documents, as [`verify`](Self::verify) does all of them.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::outlier::{Finding, OutlierRepository};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let findings: Vec<Finding> = books.verify_document(2).stream().try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The two collections may be in two databases. Then duplicates of unique elements are not found.
    ///
    /// # Cost
    /// Three round trips, and four more if there are findings. Where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), the first read groups the elements of the list.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`, [`SettingsMismatch`], and those of the driver, as the last item of the
    /// stream.
    pub fn verify_document(&self, id: impl IntoId) -> Verify<'_, Problem> {
        verify(self.shared(), DocumentId::new(id).map(Some))
    }
}

fn verify(shared: &Shared, id: Result<Option<DocumentId>>) -> Verify<'_, Problem> {
    let verify = readable(shared, id).map(|id| {
        move |reporter| {
            each(suspects(shared, id, reporter), READ_AT_ONCE, move |summary| {
                Box::pin(async move { confirm(shared, &summary).await })
            })
        }
    });
    Verify::try_new(shared.ensure(), verify)
}

impl<D, E> OutlierRepository<D, E> {
    /// Repairs what [`verify`](Self::verify) finds, list by list, without loss of an element.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let mut lists = books.repair().dry_run().stream();
    /// while let Some(repaired) = lists.try_next().await? {
    ///     println!("would write {} documents and delete {}", repaired.written, repaired.deleted);
    ///     if let Some(unrepaired) = repaired.unrepaired {
    ///         println!("must be done by hand: {unrepaired}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - It rewrites a list with findings as [`refresh`](Self::refresh) does: an array up to the threshold, full
    ///   overflow documents at positions from 0, correct counts, and a flag if there are overflow documents. Elements that
    ///   were not read for lack of the flag are read again.
    /// - It leaves orphaned overflow documents, because they have elements, unless
    ///   [`delete_orphans`](RepairLists::delete_orphans) is set.
    /// - It keeps fields of your own.
    ///
    /// It repairs each list in one transaction, so others may write concurrently, and no reader sees half of a repair. If
    /// the process dies, some lists are repaired and the others unchanged: run it again.
    ///
    /// A write of another client to a list waits on the server for the transaction, and holds its connection. If as
    /// many of that client's tasks wait as it has connections, they block each other. The tasks of this repository wait
    /// before they send anything.
    ///
    /// # Cost
    /// That of [`verify`](Self::verify), and that of [`refresh`](Self::refresh) for each list with findings, of which 4 are
    /// in memory at once.
    ///
    /// # Cancel safety
    /// Each document is repaired as a whole or not at all: the transactions under way have no effect, unless their
    /// commits had begun. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), [`Contention`], and [`Unsupported`] on a standalone, as the last item of the
    /// stream. Then each list is repaired or unchanged.
    pub fn repair(&self) -> RepairLists<'_> {
        RepairLists::create(self.shared(), Ok(None), false)
    }

    /// Repairs a document and its overflow documents, as [`repair`](Self::repair) does all of them.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::outlier::{OutlierRepository, Repaired};
    /// # async fn f(books: OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let repaired: Vec<Repaired> = books.repair_document(2).delete_orphans().stream().try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// That of [`verify_document`](Self::verify_document), and that of [`refresh`](Self::refresh) if there are findings.
    ///
    /// # Cancel safety
    /// That of [`repair`](Self::repair).
    ///
    /// # Errors
    /// Those of [`repair`](Self::repair), and [`InvalidArgument`] for an invalid `_id`.
    pub fn repair_document(&self, id: impl IntoId) -> RepairLists<'_> {
        RepairLists::create(self.shared(), DocumentId::new(id).map(Some), false)
    }
}

mongo_patterns_core::action! {
    /// Repairs lists; returned by [`OutlierRepository::repair`].
    pub struct RepairLists<'a> {
        shared: &'a Shared,
        id: Result<Option<DocumentId>>,
        delete_orphans: bool,
    }
    with dry_run, on_progress;

    /// Deletes orphaned overflow documents, with their elements.
    delete_orphans() => delete_orphans = true;
}

impl<'a> RepairLists<'a> {
    /// Returns the stream, in no order. It does nothing before it is polled.
    ///
    /// # Cancel safety
    /// See [the module](mongo_patterns_core::verify#cancel-safety).
    pub fn stream(self) -> ActionStream<'a, Repaired> {
        let Self {
            shared,
            dry_run,
            delete_orphans,
            ..
        } = self;
        let lists = readable(shared, self.id).map(|id| {
            let suspects = suspects(shared, id, Reporter::new(self.on_progress));
            each(suspects, REPAIRED_AT_ONCE, move |summary| {
                Box::pin(repair(shared, summary, dry_run, delete_orphans))
            })
        });
        checked(shared.ensure(), "repair", dry_run, lists)
    }
}

/// Repairs a list, or returns how it would. `None` if another client has repaired it concurrently.
async fn repair(shared: &Shared, summary: Summary, is_dry_run: bool, delete_orphans: bool) -> Result<Option<Repaired>> {
    let fix = if is_dry_run {
        let findings = confirm(shared, &summary).await?;
        let mut fix = dry_run(shared, &summary.id, delete_orphans).await?;
        fix.findings = confirmed(&findings, fix.findings);
        fix
    } else {
        let mut conn = shared.enter(&summary.id, None).await?;
        rewrite(shared, &summary.id, delete_orphans, &mut conn).await?
    };
    if fix.findings.is_empty() {
        return Ok(None);
    }
    let mut repaired = Repaired::of_rewrite(fix.findings, &fix.changes, fix.unrepaired);
    if !fix.main.is_empty() {
        repaired.written += 1;
    }
    Ok(Some(repaired))
}

impl<D, E> OutlierRepository<D, E> {
    /// Closes the gaps in a list that [removals](Self::remove) left. It fills the array from the overflow documents,
    /// and all overflow documents except the last one. It clears the flag if no overflow documents are left.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// books.remove(2, "user00").await?;
    /// let refreshed = books.refresh(2).await?; // moves user50 into the book
    /// println!("{} customers in the book, {} in overflow documents", refreshed.inline, refreshed.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It runs in one transaction. Others may write concurrently, and a reader in a transaction sees all of its changes or
    /// none. The order of the elements stays. Where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), it removes duplicates, and overflow documents get new
    /// `_id`s when elements of theirs join the array. The array grows up to about 8 MiB. If all elements are in place, it
    /// writes nothing.
    ///
    /// # Cost
    /// Three round trips if there is nothing to do, and else about ten. All overflow documents of the list are read
    /// into memory. Those that change are written in one transaction, which the server aborts after 60 seconds, and which must
    /// fit into its cache, as that of an [`insert`](Self::insert).
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, nothing is retried. See [sessions and
    /// transactions](mongo_patterns_core::action#sessions-and-transactions).
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun; then it is done as a whole. Call it again.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when the document does not exist, [`InvalidArgument`] for an invalid `_id`,
    /// [`Unsupported`] on a standalone, and when it would delete an overflow document with fields of your own,
    /// [`Corrupt`] when elements are not an array, [`TooLarge`], and [`Contention`].
    pub fn refresh(&self, id: impl IntoId) -> Write<'_, Refreshed> {
        let (shared, id) = (self.shared(), DocumentId::new(id));
        Write::new(shared.operation("refresh"), async move |session| {
            let id = id?.into_bson();
            let mut conn = shared.enter(&id, session).await?;
            let fix = rewrite(shared, &id, false, &mut conn).await?;
            if !fix.has_main {
                return Err(not_found());
            }
            if let Some(unrepaired) = fix.unrepaired {
                return Err(fix.refused(unrepaired, shared, &id));
            }
            Ok(Refreshed {
                inline: fix.inline,
                overflow: fix.overflow,
                modified: !fix.is_empty(),
            })
        })
    }
}
