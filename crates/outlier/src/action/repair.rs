use futures::future::ready;
use mongo_patterns_core::catalog::after;
use mongo_patterns_core::rounds::in_rounds;

use super::prelude::*;
use crate::repair::check::{Summary, confirmed};
use crate::repair::check_settings::check_repair;
use crate::repair::finding::Repaired;
use crate::repair::fix::Fix;
use crate::repair::rewrite::{dry_run, rewrite};
use crate::repair::scan::{confirm, suspects, until_error};

impl<D, E> OutlierRepository<D, E> {
    /// Repairs what [`verify`](Self::verify) finds, list by list, without loss of an element. The stream returns the
    /// repair of each list with findings, and what was left.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let mut lists = books.repair().dry_run().stream();
    /// while let Some(repaired) = lists.try_next().await? {
    ///     println!("{}: would write {} overflow documents", repaired.id, repaired.written);
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
    /// [`SettingsMismatch`], with nothing changed, when the settings contradict the
    /// [catalog](mongo_patterns_core::catalog), or when it has no entry of the collections, which
    /// [`ensure_indexes`](Self::ensure_indexes) writes.
    /// [`InvalidArgument`] for an invalid `_id`, [`Configuration`] when the two collections are in two databases,
    /// [`Contention`], [`Unsupported`] on a standalone, and those of the driver, as the last item of the stream. Then each list is repaired or
    /// unchanged.
    pub fn repair(&self) -> Repair<'_> {
        Repair {
            shared: self.shared(),
            id: Ok(None),
            options: Options::default(),
            concurrency: 4,
            on_progress: None,
        }
    }
}

/// Repairs lists; returned by [`OutlierRepository::repair`].
#[must_use = "a repair does nothing until its stream is polled"]
pub struct Repair<'a> {
    shared: &'a Shared,
    id: Result<Option<DocumentId>>,
    options: Options,
    concurrency: usize,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Repair<'_>);

#[derive(Clone, Copy, Default)]
struct Options {
    dry_run: bool,
    delete_orphans: bool,
}

/// A stream of repaired lists; returned by [`Repair::stream`].
pub type RepairedStream<'a> = Pin<Box<dyn Stream<Item = Result<Repaired>> + Send + 'a>>;

mongo_patterns_core::setters! {
    for Repair<'a>:

    /// Repairs only the document with this `_id`, and its overflow documents.
    document(id: impl IntoId) => id = DocumentId::new(id).map(Some);

    /// Returns what a repair would do, and writes nothing.
    dry_run() => options.dry_run = true;

    /// Deletes orphaned overflow documents, with their elements.
    delete_orphans() => options.delete_orphans = true;

    /// Sets how many lists are repaired concurrently; 4 by default. They are in memory with their overflow documents.
    concurrency(documents: usize) => concurrency = documents;

    /// Sets a progress callback, as [`Verify::on_progress`](super::Verify::on_progress) does.
    on_progress(call: impl FnMut(Progress) + Send + 'a) => on_progress = Some(Box::new(call));
}

impl<'a> Repair<'a> {
    /// Returns the stream, in no order. It does nothing before it is polled. While the caller has an item, it locks no
    /// document and runs no transaction.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none. Until then
    /// it may have [lanes](crate#lanes): poll it again, or drop it, before other calls of the same repository. What it
    /// leaves when it is dropped itself is documented at [`repair`](OutlierRepository::repair).
    pub fn stream(self) -> RepairedStream<'a> {
        let Self { shared, options, .. } = self;
        let operation = shared.operation("repair");
        let id = self.id.clone();
        let check = async move { check_repair(shared, &id, options.dry_run).await };
        let repairs = suspects(shared, self.id, self.on_progress)
            .map_ok(move |summary| async move { options.repair(shared, summary).await });
        let lists = in_rounds(repairs, self.concurrency).try_filter_map(|repaired| ready(Ok(repaired)));
        until_error(after(check, lists).map_err(move |error: Error| operation.name(error)))
    }
}

impl Options {
    /// Repairs a list, or returns how it would. `None` if another client has repaired it concurrently.
    async fn repair(self, shared: &Shared, summary: Summary) -> Result<Option<Repaired>> {
        if self.dry_run {
            let findings = confirm(shared, &summary).await?;
            let mut fix = dry_run(shared, &summary.id, self.delete_orphans).await?;
            fix.findings = confirmed(&findings, fix.findings);
            return Ok(repaired(summary.id, fix));
        }
        let mut conn = shared.enter(&summary.id, None).await?;
        let fix = rewrite(shared, &summary.id, self.delete_orphans, &mut conn).await?;
        Ok(repaired(summary.id, fix))
    }
}

fn repaired(id: Bson, fix: Fix) -> Option<Repaired> {
    if fix.findings.is_empty() {
        return None;
    }
    Some(Repaired {
        id,
        main_modified: !fix.main.is_empty(),
        written: fix.changes.written.len() as u64,
        removed: fix.removed,
        unrepaired: fix.unrepaired,
        findings: fix.findings,
    })
}
