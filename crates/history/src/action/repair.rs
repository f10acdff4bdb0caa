use futures::stream::try_unfold;
use mongo_patterns_core::catalog::after;

use super::prelude::*;
use crate::repair;
use crate::repair::finding::Repaired;
use crate::repair::scan::Scan;

impl<D> HistoryRepository<D> {
    /// Repairs the findings of [`verify`](Self::verify), one by one: it stores missing copies of current documents, and what
    /// another program wrote to a current document as its next revision.
    ///
    /// It invents nothing: missing revisions, reversed times, and revisions that are ahead of their document stay as they are.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(policies: mongo_patterns_history::HistoryRepository<i32>) -> mongo_patterns_core::Result<()> {
    /// let mut repairs = policies.repair().dry_run().stream();
    /// while let Some(repaired) = repairs.try_next().await? {
    ///     println!("{}: {}", repaired.finding.document_id, repaired.finding.problem);
    ///     if let Some(unrepaired) = repaired.unrepaired {
    ///         println!("not repaired: {unrepaired}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers, and can be interrupted and called again.
    ///
    /// # Cost
    /// That of [`verify`](Self::verify), and up to four round trips for each repair.
    ///
    /// # Cancel safety
    /// Each document is either repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), as the last item of the stream. [`SettingsMismatch`] also, with nothing changed,
    /// for collections without an entry in the [catalog](mongo_patterns_core::catalog), which
    /// [`ensure_indexes`](Self::ensure_indexes) writes.
    pub fn repair(&self) -> Repair<'_> {
        Repair {
            shared: self.shared(),
            dry_run: false,
            on_progress: None,
        }
    }
}

/// Repairs findings; returned by [`HistoryRepository::repair`].
#[must_use = "it does nothing until its stream is read"]
pub struct Repair<'a> {
    shared: &'a Shared,
    dry_run: bool,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Repair<'_>);

/// A stream of repairs; returned by [`Repair::stream`].
pub type RepairedStream<'a> = Pin<Box<dyn Stream<Item = Result<Repaired>> + Send + 'a>>;

mongo_patterns_core::setters! {
    for Repair<'a>:

    /// Returns what it would repair, and writes nothing.
    dry_run() => dry_run = true;

    /// Sets a progress callback, as [`Verify::on_progress`](super::Verify::on_progress).
    on_progress(call: impl FnMut(Progress) + Send + 'a) => on_progress = Some(Box::new(call));
}

impl<'a> Repair<'a> {
    /// Returns the stream. It does nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future of an item is dropped, the stream can be polled again, and loses no item. For a
    /// stream that is dropped itself, see [`repair`](HistoryRepository::repair).
    pub fn stream(self) -> RepairedStream<'a> {
        let Self { shared, dry_run, .. } = self;
        let operation = shared.operation("repair");
        let repaired = try_unfold(Scan::new(shared, self.on_progress), move |mut scan| async move {
            let repaired = repair::next(shared, &mut scan, dry_run).await?;
            Ok(repaired.map(|repaired| (repaired, scan)))
        });
        let check = async move { shared.ensure().check_repair(dry_run).await };
        Box::pin(after(check, repaired).map_err(move |error: Error| operation.name(error)))
    }
}
