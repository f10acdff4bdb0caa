use std::marker::PhantomData;

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::options::FindOptions;
use serde::de::DeserializeOwned;

use super::get::find_main;
use crate::form::document::{decode_main, elements_of, is_flagged, whole};
use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;

impl<D: DeserializeOwned, E> OutlierRepository<D, E> {
    /// A document with all its elements in its array, in order. `None` when there is no such document.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # #[derive(serde::Deserialize)]
    /// # struct Book { customers_purchased: Vec<String> }
    /// # async fn f(books: OutlierRepository<Book, String>) -> mongo_patterns_core::Result<()> {
    /// if let Some(book) = books.get_full(2).await? {
    ///     println!("{} customers", book.customers_purchased.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It has every element whose push had returned before it was called. Where a [`rebalance`](Self::rebalance) or
    /// [`migrate_existing`](Self::migrate_existing) moves elements of this very document at the same moment, some can be in it twice or not at
    /// all, as main document and extras are read one after the other: read in a transaction where that matters.
    ///
    /// # Cost
    /// One round trip for a typical document. For an outlier a second one, and one more for each 16 MB of extras. The
    /// whole list is held in memory: [`elements`](Self::elements) streams.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) when elements are no array.
    pub fn get_full(&self, id: impl IntoId) -> GetFull<'_, D> {
        GetFull {
            shared: self.shared(),
            id: DocumentId::new(id),
            session: None,
            types: PhantomData,
        }
    }
}

/// Reads a document with all its elements; made by [`OutlierRepository::get_full`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let book: Option<Document> = books.get_full(2).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct GetFull<'a, D> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
    types: PhantomData<fn() -> D>,
}

mongo_patterns_core::redacted_debug!(GetFull<'_, D>);

impl<'a, D> GetFull<'a, D> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, D: DeserializeOwned + 'a> IntoFuture for GetFull<'a, D> {
    type Output = Result<Option<D>>;
    type IntoFuture = ActionFuture<'a, Option<D>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared, id, session, ..
        } = self;
        run(shared.operation("get_full"), move |_| async move {
            let id = id?.into_bson();
            let settings = &shared.settings;
            let mut session = Session::of_caller(session).await?;
            let Some(main) = find_main(shared, &id, session.as_mut()).await? else {
                return Ok(None);
            };
            if !is_flagged(settings, &main) {
                drop(elements_of(&main, settings.array.as_str())?);
                return decode_main(settings, &main).map(Some);
            }
            let filter = query::extras_of(settings, &id);
            let ascending = FindOptions::builder().sort(doc! { settings.seq.as_str(): 1 }).build();
            let extras = find_all(session.as_mut(), &shared.overflow, filter, ascending).await?;
            decode_main(settings, &whole(settings, &main, &extras)?).map(Some)
        })
    }
}
