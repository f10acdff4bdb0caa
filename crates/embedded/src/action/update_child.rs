use super::prelude::*;

impl<P, C> EmbeddedRepository<P, C> {
    /// Sets fields of one child. Its other fields stay, also those that another writer changes at the same time.
    ///
    /// ```no_run
    /// # use mongodb::bson::doc;
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// patrons.update_child("joe", "home", doc! { "city": "Faketon", "zip": "12345" }).unset(["state"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The names are those of plain fields of the child, not paths or operators. The values are stored literally.
    /// Idempotent: safe to retry.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// All of the fields are changed, or none. Idempotent: retry it. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`InvalidArgument`] when no field is named, a name is not that of a plain field or is repeated, or
    /// it is that of the child's id, and [`InvalidItemId`].
    ///
    /// With nothing changed: [`NotFound`] when there is no such parent, [`ChildNotFound`] when it has no such child,
    /// [`Corrupt`], [`TooLarge`], [`DuplicateKey`] and [`Contention`].
    pub fn update_child(&self, parent: impl IntoId, child_id: impl IntoId, set: Document) -> UpdateChild<'_> {
        UpdateChild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: child_id.into_id().and_then(ChildId::new),
            set,
            unset: Vec::new(),
            session: None,
        }
    }
}

action! {
    /// Updates fields of a child; returned by [`EmbeddedRepository::update_child`].
    pub struct UpdateChild<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<ChildId>,
        set: Document,
        unset: Vec<String>,
    }
    with session;
    "update_child" (span) => Updated
}

impl UpdateChild<'_> {
    /// Removes these fields of the child.
    pub fn unset<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.unset.extend(fields.into_iter().map(Into::into));
        self
    }

    async fn execute(self, span: Span) -> Result<Updated> {
        let settings = &self.shared.settings;
        let (parent, child) = (self.parent?, self.child?);
        let fixed = "the id of a child cannot be changed, and nothing was sent: remove the child and add another";
        let change = FieldChange::new(self.set, self.unset, &[(settings.child_id.as_str(), fixed)])?;
        let write = Write::new(self.shared, &parent, Needs::Child(&child));
        let update = query::change(settings, change);
        Ok(Updated::new(write.run(update, self.session, &span).await?))
    }
}
