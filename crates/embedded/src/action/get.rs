use super::prelude::*;
use crate::form::document::decode_parent;

impl<P: DeserializeOwned, C> EmbeddedRepository<P, C> {
    /// Reads a parent with all its children. `None` when there is no parent with this `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::Document;
    /// # #[derive(serde::Deserialize)]
    /// # struct Patron { name: String, addresses: Vec<Document> }
    /// # async fn f(patrons: EmbeddedRepository<Patron, ()>) -> mongo_patterns_core::Result<()> {
    /// if let Some(joe) = patrons.get("joe").await? {
    ///     println!("{} has {} addresses", joe.name, joe.addresses.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip; the server examines one document.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an `_id` of an invalid type, and [`Decode`].
    pub fn get(&self, id: impl IntoId) -> Get<'_, P> {
        Get::create(self.shared(), DocumentId::new(id), PhantomData)
    }
}

action! {
    /// Reads a parent; returned by [`EmbeddedRepository::get`].
    pub struct Get<'a, P> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        types: PhantomData<fn() -> P>,
    }
    with session, max_time;
    "get" => Option<P> where P: DeserializeOwned + 'a
}

impl<P: DeserializeOwned> Get<'_, P> {
    async fn execute(self) -> Result<Option<P>> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let filter = query::parent(&self.parent?);
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = send::find_one(&mut conn, collection, filter, None).await?;
        found.map(|found| decode_parent(settings, &found)).transpose()
    }
}
