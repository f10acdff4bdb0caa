use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, ErrorKind, IntoId, Result};
use mongodb::ClientSession;

use crate::ids::ChildId;
use crate::repository::Shared;
use crate::write::{Needs, Write};
use crate::{EmbeddedRepository, query};

impl<P, C> EmbeddedRepository<P, C> {
    /// Removes the child of a parent that has this id, and says whether there was [one](Removed::found); all of them, where
    /// a damaged parent has several. The others keep their order.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let removed = patrons.remove_child("joe", "home").await?;
    /// if !removed.found {
    ///     println!("joe has no such address");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It may be called again when its outcome was unknown.
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one when it finds no such child.
    ///
    /// # Cancel safety
    /// The child is removed or not. Call it again: [`found`](Removed::found) is `false` where it is removed. A
    /// [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when there is no such parent,
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) and
    /// [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId) for ids of types that none has,
    /// [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) and
    /// [`Contention`](mongo_patterns_core::ErrorKind::Contention).
    pub fn remove_child(&self, parent: impl IntoId, child_id: impl IntoId) -> RemoveChild<'_> {
        RemoveChild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: child_id.into_id().and_then(ChildId::new),
            session: None,
        }
    }
}

/// Removes a child; made by [`EmbeddedRepository::remove_child`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// patrons.remove_child("joe", "home").session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct RemoveChild<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<ChildId>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(RemoveChild<'_>);

/// What a removal did.
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::bson::Document;
/// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
/// let removed = patrons.remove_child("joe", "home").await?;
/// println!("there was one: {}", removed.found);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Whether there was such a child.
    pub found: bool,
}

impl<'a> RemoveChild<'a> {
    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for RemoveChild<'a> {
    type Output = Result<Removed>;
    type IntoFuture = ActionFuture<'a, Removed>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("remove_child"), |span| async move {
            let settings = &self.shared.settings;
            let (parent, child) = (self.parent?, self.child?);
            let write = Write {
                shared: self.shared,
                span: &span,
                parent: &parent,
                needs: Needs::Child(&child),
                filter: query::parent_with(settings, &parent, &child),
                update: query::pull(settings, &child).into(),
            };
            let mut session = Session::of_caller(self.session).await?;
            match write.run(session.as_mut()).await {
                Ok(_) => Ok(Removed { found: true }),
                Err(error) if error.kind() == ErrorKind::ChildNotFound => Ok(Removed { found: false }),
                Err(error) => Err(error),
            }
        })
    }
}
