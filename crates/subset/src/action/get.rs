use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result, send};
use mongodb::ClientSession;
use serde::de::DeserializeOwned;

use crate::form::child::decode;
use crate::repository::Shared;
use crate::{SubsetRepository, query};

impl<P: DeserializeOwned, C> SubsetRepository<P, C> {
    /// A parent with the first of its children. `None` when there is no such parent.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # #[derive(serde::Deserialize)]
    /// # struct Product { name: String, reviews: Vec<Document> }
    /// # async fn f(products: SubsetRepository<Product, ()>) -> mongo_patterns_core::Result<()> {
    /// if let Some(product) = products.get(1).await? {
    ///     println!("{}, with its {} newest reviews", product.name, product.reviews.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With [`Transactional`](crate::Consistency::Transactional) writes they are the first at every moment. With
    /// [`Eventual`](crate::Consistency::Eventual) ones, a write that is under way, or was broken off, may not be seen.
    ///
    /// # Cost
    /// One round trip, and one document, however many children there are.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an `_id`, and
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode).
    pub fn get(&self, parent: impl IntoId) -> Get<'_, P> {
        Get {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads a parent; made by [`SubsetRepository::get`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let product: Option<Document> = products.get(1).session(session).await?;
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

impl<'a, P> Get<'a, P> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, P: DeserializeOwned + 'a> IntoFuture for Get<'a, P> {
    type Output = Result<Option<P>>;
    type IntoFuture = ActionFuture<'a, Option<P>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            parent,
            session,
            ..
        } = self;
        run(shared.operation("get"), move |_| async move {
            let filter = query::by_id(&parent?.into_bson());
            let mut session = Session::of_caller(session).await?;
            let found = send::find_one(session.as_mut(), &shared.parents, filter, None).await?;
            found.map(|parent| decode(&parent)).transpose()
        })
    }
}
