use futures::stream::try_unfold;
use mongo_patterns_core::catalog::after;

use super::prelude::*;
use crate::repair;
use crate::repair::finding::Repaired;
use crate::repair::scan::Scan;

impl<P, C> SubsetRepository<P, C> {
    /// Repairs the findings of [`verify`](Self::verify), one by one: it rebuilds stale subsets.
    ///
    /// It does not repair children without a parent, because only you know whether they or their parent are missing.
    /// Nor does it repair parents that embed children which are stored nowhere else.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let mut parents = products.repair().dry_run().stream();
    /// while let Some(repaired) = parents.try_next().await? {
    ///     println!("{}: {}", repaired.finding.parent_id, repaired.finding.problem);
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
    /// That of [`verify`](Self::verify), and that of [`rebuild`](Self::rebuild) for each parent.
    ///
    /// # Cancel safety
    /// Each parent is either repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), as the last item of the stream.
    /// [`SettingsMismatch`](mongo_patterns_core::ErrorKind::SettingsMismatch), with nothing changed, when the settings
    /// contradict the [catalog](mongo_patterns_core::catalog), or when it has no entry of the collections, which
    /// [`ensure_indexes`](Self::ensure_indexes) writes.
    pub fn repair(&self) -> Repair<'_> {
        Repair {
            shared: self.shared(),
            dry_run: false,
            on_progress: None,
        }
    }
}

/// Repairs findings; returned by [`SubsetRepository::repair`].
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

    /// Returns what it would repair, and writes nothing. One or two round trips for each stale parent.
    dry_run() => dry_run = true;

    /// Sets a progress callback, which is called with the number of scanned parents, as by
    /// [`Verify::on_progress`](super::Verify::on_progress).
    on_progress(call: impl FnMut(Progress) + Send + 'a) => on_progress = Some(Box::new(call));
}

impl<'a> Repair<'a> {
    /// Returns the stream. It does nothing before it is polled.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future of an item is dropped, the stream can be polled again, and loses no item. For a
    /// stream that is dropped itself, see [`repair`](SubsetRepository::repair).
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
