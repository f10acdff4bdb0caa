use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::verify::{checked, confirmed, each};

use super::prelude::*;
use crate::repair::check::Summary;
use crate::repair::finding::Repaired;
use crate::repair::rewrite::{dry_run, rewrite};
use crate::repair::scan::{confirm, suspects};

impl<D, E> OutlierRepository<D, E> {
    /// Repairs what [`verify`](Self::verify) finds, list by list, without loss of an element.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
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
    /// - It rewrites a list with findings as [`rebalance`](Self::rebalance) does: an array up to the threshold, full
    ///   overflow documents at positions from 0, correct counts, and a flag if there are overflow documents. Elements that
    ///   were not read for lack of the flag are read again.
    /// - It leaves orphaned overflow documents, because they have elements, unless
    ///   [`delete_orphans`](Repair::delete_orphans) is set.
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
    /// That of [`verify`](Self::verify), and that of [`rebalance`](Self::rebalance) for each list with findings.
    ///
    /// # Cancel safety
    /// Each document is repaired as a whole or not at all: the transactions under way have no effect, unless their
    /// commits had begun. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), [`Contention`], and [`Unsupported`] on a standalone, as the last item of the
    /// stream. Then each list is repaired or unchanged.
    pub fn repair(&self) -> Repair<'_> {
        Repair::create(self.shared(), Ok(None), false, 4)
    }
}

mongo_patterns_core::action! {
    /// Repairs lists; returned by [`OutlierRepository::repair`].
    pub struct Repair<'a> {
        shared: &'a Shared,
        id: Result<Option<DocumentId>>,
        delete_orphans: bool,
        concurrency: usize,
    }
    with dry_run, on_progress;
}

mongo_patterns_core::setters! {
    for Repair<'a>:

    /// Repairs only the document with this `_id`, and its overflow documents.
    document(id: impl IntoId) => id = DocumentId::new(id).map(Some);

    /// Deletes orphaned overflow documents, with their elements.
    delete_orphans() => delete_orphans = true;

    /// Sets how many lists are repaired concurrently; 4 by default. They are in memory with their overflow documents.
    concurrency(documents: usize) => concurrency = documents;
}

impl<'a> Repair<'a> {
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
        let suspects = self
            .id
            .and_then(|id| suspects(shared, id, Reporter::new(self.on_progress)));
        let lists = suspects.map(|suspects| {
            each(suspects, self.concurrency, move |summary| {
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
