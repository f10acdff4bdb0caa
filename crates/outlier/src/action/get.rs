use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result, send};
use mongodb::ClientSession;
use mongodb::bson::{Bson, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::form::document::{StoredDocument, decode_main, is_flagged};
use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;

impl<D: DeserializeOwned, E> OutlierRepository<D, E> {
    /// A document with up to a threshold of its elements, and whether there are more. `None` when there is no such
    /// document.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// if let Some(found) = books.get(2).await? {
    ///     let more = if found.has_extras { "and more" } else { "all of them" };
    ///     println!("{}: {more}", found.document);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, and one document, however long the list is.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an `_id`, and
    /// [`Decode`](mongo_patterns_core::ErrorKind::Decode).
    pub fn get(&self, id: impl IntoId) -> Get<'_, D> {
        Get {
            shared: self.shared(),
            id: DocumentId::new(id),
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads a document; made by [`OutlierRepository::get`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let found = books.get(2).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Get<'a, D> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> D>,
}

mongo_patterns_core::redacted_debug!(Get<'_, D>);

impl<'a, D> Get<'a, D> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, D: DeserializeOwned + 'a> IntoFuture for Get<'a, D> {
    type Output = Result<Option<StoredDocument<D>>>;
    type IntoFuture = ActionFuture<'a, Option<StoredDocument<D>>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared, id, session, ..
        } = self;
        run(shared.operation("get"), move |_| async move {
            let mut session = Session::of_caller(session).await?;
            let found = find_main(shared, &id?.into_bson(), session.as_mut()).await?;
            let found = found.map(|main| {
                Ok(StoredDocument {
                    has_extras: is_flagged(&shared.settings, &main),
                    document: decode_main(&shared.settings, &main)?,
                })
            });
            found.transpose()
        })
    }
}

pub(super) async fn find_main(
    shared: &Shared,
    id: &Bson,
    session: Option<&mut Session<'_>>,
) -> mongodb::error::Result<Option<RawDocumentBuf>> {
    send::find_one(session, &shared.main, query::by_id(id), None).await
}
