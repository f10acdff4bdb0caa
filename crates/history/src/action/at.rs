use super::prelude::*;
use crate::read::{find_revision, revision_of};

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads a revision of a document. `None` if the document never had it, or if it was pruned.
    ///
    /// ```no_run
    /// # use mongo_patterns_history::HistoryRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns_core::Result<()> {
    /// if let Some(second) = policies.at(1, 2).await? {
    ///     println!("since {}: {:?}", second.time, second.document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines at most one document.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid id, [`IndexMissing`], [`Decode`], and [`Corrupt`].
    pub fn at(&self, id: impl IntoId, revision: u64) -> At<'_, D> {
        At::create(self.shared(), DocumentId::new(id), revision, PhantomData)
    }
}

action! {
    /// Reads a revision; returned by [`HistoryRepository::at`].
    pub struct At<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        revision: u64,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;
    "at" => Option<Revision<D>> where D: DeserializeOwned + 'a
}

impl<D: DeserializeOwned> At<'_, D> {
    async fn execute(self) -> Result<Option<Revision<D>>> {
        let (shared, id) = (self.shared, self.id?.into_bson());
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = find_revision(shared, &id, self.revision, &mut conn).await?;
        found.map(|found| revision_of(shared, &found)).transpose()
    }
}
