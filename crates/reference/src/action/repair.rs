use futures::stream::try_unfold;
use mongo_patterns_core::catalog::after;

use super::prelude::*;
use crate::repair;
use crate::repair::finding::Repaired;
use crate::repair::scan::Scan;

impl<D, S> ReferenceRepository<D, S> {
    /// Repairs the findings of [`verify`](Self::verify): copies the source to all of its outdated copies again. If a copy
    /// differs, or is newer, it raises the version of the source first, so that no copy goes back to an older version.
    ///
    /// A reference without a source stays as it is, unless you [say what to do](Repair::on_missing).
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(orders: mongo_patterns_reference::ReferenceRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut repairs = orders.repair().dry_run().stream();
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
    /// One repair updates all copies of a source, so copies that are scanned later may not be reported: a dry run can list
    /// more. Safe for concurrent writers, and can be interrupted and called again.
    ///
    /// # Cost
    /// That of [`verify`](Self::verify), and for each finding at most four round trips, and one for each reference.
    ///
    /// # Cancel safety
    /// Each copy is either repaired or unchanged, or has lost an invalid version. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), and [`IndexMissing`], as the last item of the stream. [`SettingsMismatch`] also,
    /// with nothing changed, for collections without an entry in the [catalog](mongo_patterns_core::catalog), which
    /// [`ensure_indexes`](Self::ensure_indexes) writes.
    pub fn repair(&self) -> Repair<'_> {
        Repair {
            shared: self.shared(),
            dry_run: false,
            on_missing: OnReferences::Restrict,
            on_progress: None,
        }
    }
}

/// Repairs findings; returned by [`ReferenceRepository::repair`].
#[must_use = "it does nothing until its stream is read"]
pub struct Repair<'a> {
    shared: &'a Shared,
    dry_run: bool,
    on_missing: OnReferences,
    on_progress: Option<OnProgress<'a>>,
}

mongo_patterns_core::redacted_debug!(Repair<'_>);

/// A stream of repairs; returned by [`Repair::stream`].
pub type RepairedStream<'a> = Pin<Box<dyn Stream<Item = Result<Repaired>> + Send + 'a>>;

mongo_patterns_core::setters! {
    for Repair<'a>:

    /// Returns what it would repair, and writes nothing.
    dry_run() => dry_run = true;

    /// Sets what happens to references without a source: the copies are [kept](OnReferences::KeepCopy), or the references
    /// [cleared](OnReferences::Clear). By default ([`Restrict`](OnReferences::Restrict)) they are not repaired.
    on_missing(rule: OnReferences) => on_missing = rule;

    /// Sets a progress callback, as [`Verify::on_progress`](super::Verify::on_progress).
    on_progress(call: impl FnMut(Progress) + Send + 'a) => on_progress = Some(Box::new(call));
}

impl<'a> Repair<'a> {
    /// Returns the stream. It does nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future of an item is dropped, the stream can be polled again, and loses no item. For a
    /// stream that is dropped itself, see [`repair`](ReferenceRepository::repair).
    pub fn stream(self) -> RepairedStream<'a> {
        let Self {
            shared,
            dry_run,
            on_missing,
            ..
        } = self;
        let operation = shared.operation("repair");
        let repaired = try_unfold(Scan::new(shared, self.on_progress), move |mut scan| async move {
            let repaired = repair::next(shared, &mut scan, on_missing, dry_run).await?;
            Ok(repaired.map(|repaired| (repaired, scan)))
        });
        let check = repair::check_repair(shared, dry_run);
        Box::pin(after(check, repaired).map_err(move |error: Error| operation.name(error)))
    }
}
