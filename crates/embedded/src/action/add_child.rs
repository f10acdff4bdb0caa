use super::prelude::*;

impl<P, C: Serialize> EmbeddedRepository<P, C> {
    /// Adds a child to a parent, after its other children. A parent without the array gets one.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::ErrorKind;
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let home = doc! { "id": "home", "street": "123 Fake Street", "city": "Faketon", "zip": "12345" };
    /// match patrons.add_child("joe", &home).await {
    ///     Err(error) if error.kind() == ErrorKind::LimitReached => println!("joe must remove an address first"),
    ///     added => added?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantees
    /// When it returns, the child is stored once, to the collection's write concern. Safe for concurrent writers: a parent
    /// never has more children than its bound, and never two with the same id.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second round trip, which reads the reason.
    /// It retries only if another writer removed the reason in between.
    ///
    /// # Cancel safety
    /// The child is stored or not, as a whole. Retry it: `AlreadyExists` means that it is stored. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// The child is not stored, unless the [outcome is unknown](Error::is_outcome_unknown). Then retry: `AlreadyExists`
    /// means that the first call stored it. With nothing stored: [`LimitReached`], [`NotFound`] when there is no such
    /// parent, [`AlreadyExists`] when it has a child with this id, [`InvalidArgument`] and [`InvalidItemId`] for ids of
    /// invalid types, [`Encode`], [`TooLarge`] when the parent would exceed 16 MiB, [`Corrupt`] when its children are
    /// not an array, [`DuplicateKey`] by a unique index of your own, and [`Contention`].
    pub fn add_child(&self, parent: impl IntoId, child: &C) -> AddChild<'_> {
        AddChild::create(self.shared(), DocumentId::new(parent), encode(child))
    }
}

action! {
    /// Adds a child; returned by [`EmbeddedRepository::add_child`].
    pub struct AddChild<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<Document>,
    }
    with session;
    "add_child" (span) => ()
}

impl AddChild<'_> {
    async fn execute(self, span: Span) -> Result<()> {
        let settings = &self.shared.settings;
        let (parent, child) = (self.parent?, self.child?);
        let id = ChildId::of_child(settings, &child)?;
        let write = Write::new(self.shared, &parent, Needs::Room(&id));
        let update = query::push(settings, child);
        write.run(update, self.session, &span).await?;
        Ok(())
    }
}
