use super::prelude::*;
use crate::form::document::decode_child;

impl<P, C: DeserializeOwned> EmbeddedRepository<P, C> {
    /// Reads one child of a parent. `None` when there is no such parent or child.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # async fn f(patrons: EmbeddedRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// if let Some(home) = patrons.child("joe", "home").await? {
    ///     println!("{home}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip; the server examines one document and sends the one child.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] and [`InvalidItemId`] for ids of invalid types, and [`Decode`].
    pub fn child(&self, parent: impl IntoId, child_id: impl IntoId) -> FindChild<'_, C> {
        FindChild::create(
            self.shared(),
            DocumentId::new(parent),
            child_id.into_id().and_then(ChildId::new),
            PhantomData,
        )
    }
}

action! {
    /// Reads one child; returned by [`EmbeddedRepository::child`].
    pub struct FindChild<'a, C> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<ChildId>,
        types: PhantomData<fn() -> C>,
    }
    with session, max_time;
    "child" => Option<C> where C: DeserializeOwned + 'a
}

impl<C: DeserializeOwned> FindChild<'_, C> {
    async fn execute(self) -> Result<Option<C>> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let (parent, child) = (self.parent?, self.child?);
        let filter = query::parent_with(settings, &parent, &child);
        let only = FindOneOptions::builder()
            .projection(query::only(settings, &child))
            .build();
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let found = send::find_one(&mut conn, collection, filter, only).await?;
        found.map_or(Ok(None), |found| decode_child(settings, &found))
    }
}
