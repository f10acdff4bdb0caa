use super::prelude::*;

impl<P, C: Serialize> EmbeddedRepository<P, C> {
    /// Replaces the child of a parent that has the same id. Idempotent: safe to retry.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let home = doc! { "id": "home", "street": "1 Some Other Street", "city": "Boston", "zip": "12345" };
    /// let replaced = patrons.replace_child("joe", &home).await?;
    /// println!("modified: {}", replaced.modified);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The child is replaced or not, as a whole. Idempotent: retry it. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`] when there is no such parent, [`ChildNotFound`] when it has no such child,
    /// and those of [`add_child`](Self::add_child) except `LimitReached` and `AlreadyExists`.
    pub fn replace_child(&self, parent: impl IntoId, child: &C) -> ReplaceChild<'_> {
        ReplaceChild::create(self.shared(), DocumentId::new(parent), encode(child))
    }
}

action! {
    /// Replaces a child; returned by [`EmbeddedRepository::replace_child`].
    pub struct ReplaceChild<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<Document>,
    }
    with session;
    "replace_child" (span) => Updated
}

impl ReplaceChild<'_> {
    async fn execute(self, span: Span) -> Result<Updated> {
        let settings = &self.shared.settings;
        let (parent, child) = (self.parent?, self.child?);
        let id = ChildId::of_child(settings, &child)?;
        let write = Write::new(self.shared, &parent, Needs::Child(&id));
        let update = query::replace(settings, child);
        Ok(Updated::new(write.run(update, self.session, &span).await?))
    }
}
