use std::collections::HashSet;

use super::prelude::*;

impl<P, C> EmbeddedRepository<P, C> {
    /// Reorders the children of a parent. The ids must be those of all its children, each once.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::ErrorKind;
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// match patrons.reorder_children("joe", ["work", "home"]).await {
    ///     Err(error) if error.kind() == ErrorKind::ChildSetMismatch => println!("joe has other addresses by now"),
    ///     reordered => reordered?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// One command compares and writes on the server, so it never loses or restores a child that another writer adds,
    /// removes or changes at the same time. Idempotent: safe to retry.
    ///
    /// # Cost
    /// One round trip; the server examines one document and compares each id with each child, which takes some milliseconds
    /// for a hundred. A refused write takes a second one, which reads the reason.
    ///
    /// # Cancel safety
    /// The children are in the new order or in the old one. Idempotent: retry it. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`ChildSetMismatch`] when the ids are not those of all children, for example because
    /// another writer added or removed one; [`NotFound`] when there is no such parent, [`InvalidArgument`] when an id
    /// is repeated or the parent's `_id` has an invalid type, [`InvalidItemId`], [`Corrupt`] and [`Contention`].
    pub fn reorder_children<I: IntoId>(
        &self,
        parent: impl IntoId,
        children: impl IntoIterator<Item = I>,
    ) -> ReorderChildren<'_> {
        let children = children.into_iter().map(|child| child.into_id().and_then(ChildId::new));
        ReorderChildren::create(self.shared(), DocumentId::new(parent), children.collect())
    }
}

action! {
    /// Reorders the children of a parent; returned by [`EmbeddedRepository::reorder_children`].
    pub struct ReorderChildren<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        children: Result<Vec<ChildId>>,
    }
    with session;
    "reorder_children" (span) => ()
}

impl ReorderChildren<'_> {
    async fn execute(self, span: Span) -> Result<()> {
        let settings = &self.shared.settings;
        let (parent, children) = (self.parent?, self.children?);
        let forms: HashSet<&[u8]> = children.iter().map(ChildId::form).collect();
        if forms.len() < children.len() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the id of a child is repeated, and nothing was sent: list each id once",
            ));
        }
        let write = Write::new(self.shared, &parent, Needs::Exactly(&children));
        let update = query::reorder(settings, &children).to_vec();
        write.run(update, self.session, &span).await?;
        Ok(())
    }
}
