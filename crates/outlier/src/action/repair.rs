//! The calls that find and repair damage, and that rewrite a list.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Configuration, Corrupt, NotFound, Unsupported};
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
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. Two further reads
    /// confirm each finding. Only a slow writer, of another process or in a session, can be reported like one that died
    /// between two commands.
    ///
    /// A list after a [removal](Self::remove) is valid: its array can be below the threshold, and its overflow documents can
    /// be partly filled or empty. [`refresh`](Self::refresh) closes these gaps.
    ///
    /// # Cost
    /// One aggregation, and four round trips for each list with findings. The server reads both collections, and sends no
    /// element. If elements are [unique](crate::OutlierRepositoryBuilder::unique_elements), it also groups the elements of
    /// all outliers, with two round trips for each list.
    ///
    /// # Errors
    /// - [`Configuration`]: the two collections are in two databases.
    pub fn verify(&self) -> Verify<'_, Problem> {
        verify(self.shared(), Ok(None))
    }

    /// Verifies a document and its overflow documents, as [`verify`](Self::verify) verifies all.
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
    /// Three round trips, and four more if there are findings.
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
    /// - It rewrites a list with findings as [`refresh`](Self::refresh) does: an array up to the threshold, full overflow
    ///   documents at positions from 0, correct counts and a correct flag. Elements that were not read for lack of the flag
    ///   are read again.
    /// - It leaves orphaned overflow documents, because they have elements, unless
    ///   [`delete_orphans`](RepairLists::delete_orphans) is set.
    /// - It keeps fields of your own.
    ///
    /// It repairs each list in one transaction, so others may write concurrently, and no reader sees half of a repair. After
    /// an interruption, run it again.
    ///
    /// A concurrent write of another client waits on the server, and holds a connection of that client.
    ///
    /// # Cost
    /// As [`verify`](Self::verify), and as [`refresh`](Self::refresh) for each list with findings. 4 lists are in memory at
    /// once.
    ///
    /// # Cancel safety
    /// Each document is repaired as a whole or not at all. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// After an error of the stream, each list is repaired or unchanged.
    pub fn repair(&self) -> RepairLists<'_> {
        RepairLists::create(self.shared(), Ok(None), false)
    }

    /// Repairs a document and its overflow documents, as [`repair`](Self::repair) repairs all.
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
    /// As [`verify_document`](Self::verify_document), and as [`refresh`](Self::refresh) if there are findings.
    ///
    /// # Cancel safety
    /// As [`repair`](Self::repair).
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
    /// Closes the gaps in a list that [removals](Self::remove) left: fills the array and the overflow documents.
    ///
    /// It clears the flag if no overflow documents are left.
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
    /// It runs in one transaction, so others may write concurrently. The order of the elements stays. If elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements), it removes duplicates, and overflow documents whose
    /// elements join the array get new `_id`s. The array grows up to about 8 MiB.
    ///
    /// # Cost
    /// Three round trips if there is nothing to do, else about ten. All overflow documents of the list are in memory. The
    /// transaction must fit into the server's cache, and is aborted after 60 seconds.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again.
    ///
    /// # Errors
    /// - [`NotFound`]: the document does not exist.
    /// - [`Unsupported`]: it would delete an overflow document with fields of your own.
    /// - [`Corrupt`]: elements are not an array.
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
