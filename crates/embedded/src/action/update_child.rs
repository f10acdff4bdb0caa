use mongo_patterns_core::update::{self, Operators};
use mongodb::options::UpdateModifications;

use super::prelude::*;

impl<P, C> EmbeddedRepository<P, C> {
    /// Updates one child by [operators](#operators). Its other fields stay, also those that another writer changes at the
    /// same time.
    ///
    /// ```no_run
    /// # use mongodb::bson::doc;
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// let moved = doc! { "$set": { "city": "Faketon", "zip": "12345" }, "$unset": { "state": "" }, "$inc": { "moves": 1 } };
    /// patrons.update_child("joe", "home", moved).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Operators
    /// `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$currentDate`, `$push`, `$pull` and `$addToSet`, with MongoDB's
    /// meanings. Their paths are relative to the child: fields, and fields inside them such as `geo.lat`. The server applies
    /// them to the child with this id, in one atomic command: concurrent increments all count. As in the driver, a document
    /// with `$each` in a `$push` or `$addToSet` is a modifier, and the value of a `$pull` is a condition.
    ///
    /// Refused, with nothing sent: a document without operators, other operators, a pipeline, which the server applies to
    /// whole documents only, positional operators in paths (`$`, `$[]`, `$[x]`), two paths of which one contains the other,
    /// and the id of the child. A number in a path is the position of an element, as in `locations.0.n`.
    ///
    /// An update with `$inc`, `$mul` or `$push` is not idempotent. The others are, except `$currentDate`, which sets the time
    /// again.
    ///
    /// # Cost
    /// One round trip; the server examines one document. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// All of the operators are applied, or none. Retry an idempotent update; read the child before you retry another one. A
    /// [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`InvalidArgument`] for the refused updates above, and [`InvalidItemId`].
    ///
    /// With nothing changed: [`NotFound`] when there is no such parent, [`ChildNotFound`] when it has no such child,
    /// [`InvalidArgument`] when the update does not suit the stored child, such as `$inc` of a text, [`Corrupt`],
    /// [`TooLarge`], [`DuplicateKey`] and [`Contention`].
    pub fn update_child(
        &self,
        parent: impl IntoId,
        child_id: impl IntoId,
        update: impl Into<UpdateModifications>,
    ) -> UpdateChild<'_> {
        UpdateChild::create(
            self.shared(),
            DocumentId::new(parent),
            child_id.into_id().and_then(ChildId::new),
            update.into(),
        )
    }
}

action! {
    /// Updates a child; returned by [`EmbeddedRepository::update_child`].
    pub struct UpdateChild<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<ChildId>,
        update: UpdateModifications,
    }
    with session;
    "update_child" (span) => Updated
}

impl UpdateChild<'_> {
    async fn execute(self, span: Span) -> Result<Updated> {
        let settings = &self.shared.settings;
        let (parent, child) = (self.parent?, self.child?);
        let fixed = "the id of a child cannot be changed, and nothing was sent: remove the child and add another";
        let operators = Operators::of_element(self.update, &[(settings.child_id.as_str(), fixed)])?;
        let write = Write::new(self.shared, &parent, Needs::Child(&child));
        let change = query::change(settings, operators);
        let modified = write.run(change, self.session, &span).await;
        Ok(Updated::new(modified.map_err(update::failed)?))
    }
}
