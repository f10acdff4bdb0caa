use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::Document;
use serde::Serialize;

use super::update_child::Updated;
use crate::document::encode;
use crate::ids::ChildId;
use crate::repository::Shared;
use crate::write::{Needs, Write};
use crate::{EmbeddedRepository, query};

impl<P, C: Serialize> EmbeddedRepository<P, C> {
    /// Puts a child in the place of the one of the parent that has the same id. It may be called again when its outcome
    /// was unknown.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let home = doc! { "id": "home", "street": "1 Some Other Street", "city": "Boston", "zip": "12345" };
    /// let replaced = patrons.replace_child("joe", &home).await?;
    /// println!("anything is other than before: {}", replaced.modified);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, in which the server examines one document. A second one, to say why, when it finds no place.
    ///
    /// # Cancel safety
    /// The child is replaced or not, as a whole. Call it again: it is idempotent. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`](mongo_patterns_core::ErrorKind::NotFound) when there is no such parent,
    /// [`ChildNotFound`](mongo_patterns_core::ErrorKind::ChildNotFound) when it has no such child, and those of
    /// [`add_child`](Self::add_child) but `LimitReached` and `AlreadyExists`.
    pub fn replace_child(&self, parent: impl IntoId, child: &C) -> ReplaceChild<'_> {
        ReplaceChild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: encode(child),
            session: None,
        }
    }
}

/// Replaces a child; made by [`EmbeddedRepository::replace_child`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::{Document, doc}};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let home = doc! { "id": "home", "street": "1 Some Other Street" };
/// patrons.replace_child("joe", &home).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct ReplaceChild<'a> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<Document>,
    session: Option<&'a mut ClientSession>,
}

impl<'a> ReplaceChild<'a> {
    /// Writes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for ReplaceChild<'a> {
    type Output = Result<Updated>;
    type IntoFuture = ActionFuture<'a, Updated>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("replace_child"), |span| async move {
            let settings = &self.shared.settings;
            let (parent, child) = (self.parent?, self.child?);
            let id = ChildId::of_child(settings, &child)?;
            let write = Write {
                shared: self.shared,
                span: &span,
                parent: &parent,
                needs: Needs::Child(&id),
                filter: query::parent_with(settings, &parent, &id),
                update: query::replace(settings, child).into(),
            };
            let mut session = Session::of_caller(self.session).await?;
            let modified = write.run(session.as_mut()).await?;
            Ok(Updated { modified })
        })
    }
}

/// Does not show the child.
impl std::fmt::Debug for ReplaceChild<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplaceChild")
            .field("shared", self.shared)
            .finish_non_exhaustive()
    }
}
