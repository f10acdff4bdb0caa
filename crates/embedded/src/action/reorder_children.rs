use std::collections::HashSet;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, IntoId, Result};
use mongodb::ClientSession;

use crate::ids::ChildId;
use crate::repository::Shared;
use crate::write::{Needs, Write};
use crate::{EmbeddedRepository, query};

impl<P, C> EmbeddedRepository<P, C> {
    /// Puts the children of a parent in the order of these ids, which must be those of all of them, each once.
    ///
    /// ```no_run
    /// # use mongo_patterns_core::ErrorKind;
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// match patrons.reorder_children("joe", ["work", "home"]).await {
    ///     Err(error) if error.kind() == ErrorKind::ChildSetMismatch => println!("joe has other addresses by now"),
    ///     reordered => reordered?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is one command that looks and writes at once, on the server: no child that others add, remove or change at the
    /// same time is lost or comes back.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document, and compares each id with each child: some milliseconds
    /// for a hundred. A second one, to say why, when it finds no place.
    ///
    /// # Cancel safety
    /// The children are in the new order or in the old one. Call it again: it is idempotent. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`ChildSetMismatch`](ErrorKind::ChildSetMismatch) when the ids are not those of all children,
    /// perhaps since another writer added or removed one; [`NotFound`](ErrorKind::NotFound) when there is no such parent,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) when an id comes twice or the parent's is none,
    /// [`InvalidItemId`](ErrorKind::InvalidItemId), [`Corrupt`](ErrorKind::Corrupt) and
    /// [`Contention`](ErrorKind::Contention).
    pub fn reorder_children<I: IntoId>(
        &self,
        parent: impl IntoId,
        children: impl IntoIterator<Item = I>,
    ) -> ReorderChildren<'_> {
        ReorderChildren {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            children: children
                .into_iter()
                .map(|child| child.into_id().and_then(ChildId::new))
                .collect(),
            session: None,
        }
    }
}

/// Orders the children of a parent anew; made by [`EmbeddedRepository::reorder_children`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// patrons.reorder_children("joe", ["work", "home"]).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct ReorderChildren<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    children: Result<Vec<ChildId>>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(ReorderChildren<'_>);

impl<'a> ReorderChildren<'a> {
    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for ReorderChildren<'a> {
    type Output = Result<()>;
    type IntoFuture = ActionFuture<'a, ()>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("reorder_children"), |span| async move {
            let settings = &self.shared.settings;
            let (parent, children) = (self.parent?, self.children?);
            let forms: HashSet<&[u8]> = children.iter().map(ChildId::form).collect();
            if forms.len() < children.len() {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "the id of a child comes twice, and nothing was sent: list each once",
                ));
            }
            let write = Write {
                shared: self.shared,
                span: &span,
                parent: &parent,
                needs: Needs::Exactly(&children),
                filter: query::parent_with_exactly(settings, &parent, &children),
                update: query::reorder(settings, &children).to_vec().into(),
            };
            let mut session = Session::of_caller(self.session).await?;
            write.run(session.as_mut()).await?;
            Ok(())
        })
    }
}
