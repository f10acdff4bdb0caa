use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result, send};
use mongodb::ClientSession;
use serde::de::DeserializeOwned;

use crate::document::decode_parent;
use crate::repository::Shared;
use crate::{EmbeddedRepository, query};

impl<P: DeserializeOwned, C> EmbeddedRepository<P, C> {
    /// A parent with all its children, if there is one with this `_id`.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::Document;
    /// # #[derive(serde::Deserialize)]
    /// # struct Patron { name: String, addresses: Vec<Document> }
    /// # async fn f(patrons: EmbeddedRepository<Patron, ()>) -> mongo_patterns_core::Result<()> {
    /// if let Some(joe) = patrons.get("joe").await? {
    ///     println!("{} has {} addresses", joe.name, joe.addresses.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, in which the server examines one document.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for an `_id` of a type that none has, and
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode).
    pub fn get(&self, id: impl IntoId) -> Get<'_, P> {
        Get {
            shared: self.shared(),
            parent: DocumentId::new(id),
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads a parent; made by [`EmbeddedRepository::get`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let joe: Option<Document> = patrons.get("joe").session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Get<'a, P> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> P>,
}

mongo_patterns_core::redacted_debug!(Get<'_, P>);

impl<'a, P: DeserializeOwned> Get<'a, P> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }

    async fn execute(self) -> Result<Option<P>> {
        let filter = query::parent(&self.parent?);
        let mut session = Session::of_caller(self.session).await?;
        let found = send::find_one(session.as_mut(), &self.shared.collection, filter, None).await?;
        found
            .map(|found| decode_parent(&self.shared.settings, &found))
            .transpose()
    }
}

impl<'a, P: DeserializeOwned + 'a> IntoFuture for Get<'a, P> {
    type Output = Result<Option<P>>;
    type IntoFuture = ActionFuture<'a, Option<P>>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("get"), |_| self.execute())
    }
}
