use super::prelude::*;

impl<P, C> EmbeddedRepository<P, C> {
    /// Removes the child with this id from a parent. The other children keep their order.
    ///
    /// ```no_run
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// let removed = patrons.remove_child("joe", "home").await?;
    /// if !removed.found {
    ///     println!("joe has no such address");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Idempotent: safe to retry. If a damaged parent has several children with this id, it removes all of them.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A second one when there is no such child.
    ///
    /// # Cancel safety
    /// The child is removed or not. Retry it: [`found`](Removed::found) is `false` if it was removed. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when there is no such parent, [`InvalidArgument`] and [`InvalidItemId`] for
    /// ids of invalid types, [`Corrupt`] and [`Contention`].
    pub fn remove_child(&self, parent: impl IntoId, child_id: impl IntoId) -> RemoveChild<'_> {
        RemoveChild::create(
            self.shared(),
            DocumentId::new(parent),
            child_id.into_id().and_then(ChildId::new),
        )
    }
}

action! {
    /// Removes a child; returned by [`EmbeddedRepository::remove_child`].
    pub struct RemoveChild<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<ChildId>,
    }
    with session;
    "remove_child" (span) => Removed
}

impl RemoveChild<'_> {
    async fn execute(self, span: Span) -> Result<Removed> {
        let settings = &self.shared.settings;
        let (parent, child) = (self.parent?, self.child?);
        let write = Write::new(self.shared, &parent, Needs::Child(&child));
        let update = query::pull(settings, &child);
        match write.run(update, self.session, &span).await {
            Ok(_) => Ok(Removed::new(true)),
            Err(error) if error.kind() == ErrorKind::ChildNotFound => Ok(Removed::new(false)),
            Err(error) => Err(error),
        }
    }
}
