use super::prelude::*;
use crate::read::{find_as_of, revision_of};

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads the revision that a document had at a time: the newest one whose time is not later. `None` if the document did
    /// not exist yet, or if that revision was pruned. For a document that was deleted then, the revision has no document.
    ///
    /// ```no_run
    /// # use mongo_patterns_history::HistoryRepository;
    /// # use mongodb::bson::{DateTime, Document};
    /// # async fn f(policies: HistoryRepository<Document>, accident: DateTime) -> mongo_patterns_core::Result<()> {
    /// if let Some(valid) = policies.as_of(1, accident).await? {
    ///     println!("revision {}: {:?}", valid.revision, valid.document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The times of a document strictly increase, whatever the clocks of the servers are, so the answer for a past time
    /// does not change. The answer for the present millisecond can: a write in it has its time, and several writes in one
    /// millisecond have the times of the next ones, 1 ms apart. So `as_of(.., DateTime::now())` can be older than what
    /// [`get`](Self::get) returns, which is the newest revision.
    ///
    /// # Cost
    /// One round trip, which examines one document, however long the history is.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid id, [`IndexMissing`], [`Decode`], and [`Corrupt`].
    pub fn as_of(&self, id: impl IntoId, time: DateTime) -> AsOf<'_, D> {
        AsOf::create(self.shared(), DocumentId::new(id), time, PhantomData)
    }
}

action! {
    /// Reads the revision of a time; returned by [`HistoryRepository::as_of`].
    pub struct AsOf<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        time: DateTime,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;
    "as_of" => Option<Revision<D>> where D: DeserializeOwned + 'a
}

impl<D: DeserializeOwned> AsOf<'_, D> {
    async fn execute(self) -> Result<Option<Revision<D>>> {
        let (shared, id) = (self.shared, self.id?.into_bson());
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = find_as_of(shared, &id, self.time, &mut conn).await?;
        found.map(|found| revision_of(shared, &found)).transpose()
    }
}
