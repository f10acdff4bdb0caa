use super::prelude::*;
use crate::write::sweep::{all, one};

impl<D, S> ReferenceRepository<D, S> {
    /// Updates outdated copies of all sources, or of [one](Sweep::source): after a process died in
    /// [`update_source`](Self::update_source), or after another program incremented the version of a source.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// orders.sweep().source(456).await?;
    /// let swept = orders.sweep().on_progress(|at| println!("{} of {}", at.done, at.total)).await?;
    /// println!("{} copies of {} sources were outdated", swept.copies, swept.sources);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It compares versions alone: after a change of a source without its version, call
    /// [`refresh_copies`](Self::refresh_copies), and [`repair`](Self::repair) also finds copies with other values. Safe for concurrent
    /// writers. Idempotent.
    ///
    /// # Cost
    /// For each reference that follows its sources, a scan of its index, which reads one key for each source, or all
    /// documents for an array. One round trip for the catalog, one for each 500 sources, and one for each reference of a
    /// source with outdated copies. With [`source`](Sweep::source), one round trip for the catalog, one for the source, and
    /// one for each reference. On a router one more for each update, as for [`update_source`](Self::update_source).
    ///
    /// # Cancel safety
    /// Each copy is updated or not. Call it again: it updates the rest.
    ///
    /// # Errors
    /// [`IndexMissing`], [`SettingsMismatch`], [`Corrupt`] when the version of a source is not an integer,
    /// [`InvalidArgument`] for an invalid id, and [`TooLarge`] when a document would exceed 16 MiB. Copies that were updated
    /// before stay so.
    pub fn sweep(&self) -> Sweep<'_> {
        Sweep::create(self.shared(), None)
    }
}

action! {
    /// Updates outdated copies; returned by [`ReferenceRepository::sweep`].
    pub struct Sweep<'a> {
        shared: &'a Shared,
        source: Option<Result<DocumentId>>,
    }
    with on_progress;

    /// Updates the copies of this source alone. There is no progress then.
    source(id: impl IntoId) => source = Some(DocumentId::new(id));

    "sweep" => Swept
}

impl Sweep<'_> {
    async fn execute(self) -> Result<Swept> {
        match self.source {
            Some(id) => one(self.shared, id?.value()).await,
            None => all(self.shared, Reporter::new(self.on_progress)).await,
        }
    }
}
