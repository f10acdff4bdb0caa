use super::prelude::*;
use crate::form::child::decode;

impl<P, C: DeserializeOwned> SubsetRepository<P, C> {
    /// Reads one child of a parent from the collection of the children. `None` if the child or the parent does not
    /// exist.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// if let Some(review) = products.child(1, 786).await? {
    ///     println!("{review}");
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
    pub fn child(&self, parent: impl IntoId, child_id: impl IntoId) -> FindChild<'_, C> {
        FindChild::create(
            self.shared(),
            DocumentId::new(parent),
            DocumentId::new(child_id),
            PhantomData,
        )
    }
}

action! {
    /// Reads a child; returned by [`SubsetRepository::child`].
    pub struct FindChild<'a, C> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<DocumentId>,
        types: PhantomData<fn() -> C>,
    }
    with session, max_time;
    "child" => Option<C> where C: DeserializeOwned + 'a
}

impl<C: DeserializeOwned> FindChild<'_, C> {
    async fn execute(self) -> Result<Option<C>> {
        let Shared { children, settings, .. } = self.shared;
        let filter = query::child(settings, &self.parent?.into_bson(), &self.child?.into_bson());
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = conn.find_one(children, filter, options::find_child(settings)).await;
        let found = found.map_err(|error| hinted(error, &settings.child_index))?;
        let child = found.map(|child| decode(&child)).transpose();
        child.map_err(|error| error.of_collection(children))
    }
}
