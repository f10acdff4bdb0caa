use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, IntoId, Result, send};
use mongodb::ClientSession;
use mongodb::options::{FindOneOptions, Hint};
use serde::de::DeserializeOwned;

use crate::form::child::decode;
use crate::repository::Shared;
use crate::{SubsetRepository, query};

impl<P, C: DeserializeOwned> SubsetRepository<P, C> {
    /// One child of a parent, whole. `None` when there is none, also where the parent does not exist.
    ///
    /// ```no_run
    /// # use mongo_patterns_subset::SubsetRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// if let Some(review) = products.child(1, 786).await? {
    ///     println!("{review}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and one document.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an id,
    /// [`IndexMissing`](mongo_patterns_core::ErrorKind::IndexMissing), and
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode).
    pub fn child(&self, parent: impl IntoId, child_id: impl IntoId) -> FindChild<'_, C> {
        FindChild {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: DocumentId::new(child_id),
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads a child; made by [`SubsetRepository::child`].
///
/// ```no_run
/// # use mongo_patterns_subset::SubsetRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     products: SubsetRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let review: Option<Document> = products.child(1, 786).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct FindChild<'a, C> {
    shared: &'a Shared,
    parent: Result<DocumentId>,
    child: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> C>,
}

mongo_patterns_core::redacted_debug!(FindChild<'_, C>);

impl<'a, C> FindChild<'a, C> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, C: DeserializeOwned + 'a> IntoFuture for FindChild<'a, C> {
    type Output = Result<Option<C>>;
    type IntoFuture = ActionFuture<'a, Option<C>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            parent,
            child,
            session,
            ..
        } = self;
        run(shared.operation("child"), move |_| async move {
            let Shared { children, settings, .. } = shared;
            let filter = query::child(settings, &parent?.into_bson(), &child?.into_bson());
            let options = FindOneOptions::builder().hint(Hint::Name(settings.child_index.clone()));
            let mut session = Session::of_caller(session).await?;
            let found = send::find_one(session.as_mut(), children, filter, options.build()).await;
            let found = found.map_err(|error| match is_bad_hint(&error) {
                true => index_missing(&settings.child_index).caused_by(error),
                false => Error::from(error),
            })?;
            found.map(|child| decode(&child)).transpose()
        })
    }
}
