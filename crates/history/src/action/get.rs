use super::prelude::*;
use crate::form::document::decode;
use crate::read::find_current;

impl<D: DeserializeOwned> HistoryRepository<D> {
    /// Reads the current document. `None` if it does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns_history::HistoryRepository;
    /// # #[derive(serde::Deserialize)]
    /// # struct Policy { revision: u64 }
    /// # async fn f(policies: HistoryRepository<Policy>) -> mongo_patterns_core::Result<()> {
    /// if let Some(policy) = policies.get(1).await? {
    ///     println!("revision {}", policy.revision);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, which examines one document.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid id, [`IndexMissing`], and [`Decode`].
    pub fn get(&self, id: impl IntoId) -> Get<'_, D> {
        Get::create(self.shared(), DocumentId::new(id), PhantomData)
    }
}

action! {
    /// Reads the current document; returned by [`HistoryRepository::get`].
    pub struct Get<'a, D> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        types: PhantomData<fn() -> D>,
    }
    with session, max_time;
    "get" => Option<D> where D: DeserializeOwned + 'a
}

impl<D: DeserializeOwned> Get<'_, D> {
    async fn execute(self) -> Result<Option<D>> {
        let id = self.id?.into_bson();
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = find_current(self.shared, &id, &mut conn).await?;
        found.map(|document| decode(&document)).transpose()
    }
}
