use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result, send};
use mongodb::ClientSession;
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::document::decode_child;
use crate::ids::ChildId;
use crate::repository::Shared;
use crate::{EmbeddedRepository, query};

impl<P, C: DeserializeOwned> EmbeddedRepository<P, C> {
    /// The child of a parent that has this id, if there are both.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// if let Some(home) = patrons.child("joe", "home").await? {
    ///     println!("{home}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, in which the server examines one document, and sends the one child.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) and
    /// [`InvalidItemId`](mongo_patterns_core::ErrorKind::InvalidItemId) for ids of types that none has, and
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode).
    pub fn child(&self, parent: impl IntoId, child_id: impl IntoId) -> FindChild<'_, C> {
        FindChild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: child_id.into_id().and_then(ChildId::new),
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads one child; made by [`EmbeddedRepository::child`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let home: Option<Document> = patrons.child("joe", "home").session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct FindChild<'a, C> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<ChildId>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> C>,
}

mongo_patterns_core::redacted_debug!(FindChild<'_, C>);

impl<'a, C: DeserializeOwned> FindChild<'a, C> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Option<C>> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let (parent, child) = (self.parent?, self.child?);
        let filter = query::parent_with(settings, &parent, &child);
        let only = FindOneOptions::builder()
            .projection(query::only(settings, &child))
            .build();
        let mut session = Session::of_caller(self.session).await?;
        let found = send::find_one(session.as_mut(), collection, filter, only).await?;
        found.map_or(Ok(None), |found| decode_child(settings, &found))
    }
}

impl<'a, C: DeserializeOwned + 'a> IntoFuture for FindChild<'a, C> {
    type Output = Result<Option<C>>;
    type IntoFuture = ActionFuture<'a, Option<C>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("child"), |_| self.execute())
    }
}
