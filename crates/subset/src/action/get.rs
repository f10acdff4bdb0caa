use super::prelude::*;
use crate::form::child::decode;

impl<P: DeserializeOwned, C> SubsetRepository<P, C> {
    /// Reads a parent with the first of its children. `None` if it does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # #[derive(serde::Deserialize)]
    /// # struct Product { name: String, reviews: Vec<Document> }
    /// # async fn f(products: SubsetRepository<Product, ()>) -> mongo_patterns_core::Result<()> {
    /// if let Some(product) = products.get(1).await? {
    ///     println!("{} and its {} newest reviews", product.name, product.reviews.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The subset is correct after each write of a repository: one transaction writes the child and the parent.
    ///
    /// # Cost
    /// One round trip, which examines one document, for any number of children.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`, and [`Decode`].
    pub fn get(&self, parent: impl IntoId) -> Get<'_, P> {
        Get::create(self.shared(), DocumentId::new(parent), PhantomData)
    }
}

action! {
    /// Reads a parent; returned by [`SubsetRepository::get`].
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
        let filter = query::by_id(&self.parent?.into_bson());
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = conn.find_one(&self.shared.parents, filter, None).await?;
        found.map(|parent| decode(&parent)).transpose()
    }
}
