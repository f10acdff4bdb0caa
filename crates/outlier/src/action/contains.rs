use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, IntoId, Result, send};
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};
use mongodb::options::FindOneOptions;
use serde::Serialize;

use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::write::push::{is_true, not_found};

impl<D, E: Serialize> OutlierRepository<D, E> {
    /// Whether the list of a document has an element that is equal to this one, as MongoDB compares values.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// if books.contains(2, &"user00".to_owned()).await? {
    ///     println!("user00 has bought the book");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip where the array has it or there are no extras, else two. The second one examines all extras of the
    /// document, or one where elements are [unique](crate::OutlierRepositoryBuilder::unique_elements), by their index. No element
    /// is sent.
    ///
    /// # Cancel safety
    /// It changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`](mongo_patterns_core::ErrorKind::NotFound),
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an `_id`, and for undefined, and
    /// [`Encode`](mongo_patterns_core::ErrorKind::Encode).
    pub fn contains<'a>(&'a self, id: impl IntoId, element: &'a E) -> Contains<'a, E> {
        Contains {
            shared: self.shared(),
            id: DocumentId::new(id),
            element,
            session: None,
        }
    }
}

/// Looks for an element; made by [`OutlierRepository::contains`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let is_buyer: bool = books.contains(2, &"user00".to_owned()).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Contains<'a, E> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    element: &'a E,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Contains<'_, E>);

impl<'a, E> Contains<'a, E> {
    /// Reads in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, E: Serialize> IntoFuture for Contains<'a, E> {
    type Output = Result<bool>;
    type IntoFuture = ActionFuture<'a, bool>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            id,
            element,
            session,
        } = self;
        let element = Encoded::one(element);
        run(shared.operation("contains"), |_| async move {
            let element = element?.to_bson()?;
            check_compared(&element)?;
            let mut session = Session::of_caller(session).await?;
            contains(shared, &id?.into_bson(), &element, session.as_mut()).await
        })
    }
}

/// Refuses undefined, to which no filter of a server compares.
pub(super) fn check_compared(element: &Bson) -> Result<()> {
    match element {
        Bson::Undefined => Err(Error::new(
            ErrorKind::InvalidArgument,
            "undefined is no element that the server compares, nothing was sent: use null",
        )),
        _ => Ok(()),
    }
}

pub(super) async fn contains(
    shared: &Shared,
    id: &Bson,
    element: &Bson,
    mut session: Option<&mut Session<'_>>,
) -> Result<bool> {
    let Shared {
        main,
        overflow,
        settings,
        ..
    } = shared;
    let has = FindOneOptions::builder()
        .projection(query::has_element(settings, element))
        .build();
    let found = send::find_one(session.as_deref_mut(), main, query::by_id(id), has).await?;
    let found = found.ok_or_else(not_found)?;
    if is_true(&found, "has") || !is_true(&found, "flagged") {
        return Ok(is_true(&found, "has"));
    }
    let filter = query::extras_with(settings, id, element);
    let id_alone = FindOneOptions::builder().projection(doc! { "_id": 1 }).build();
    let found = send::find_one(session, overflow, filter, id_alone).await?;
    Ok(found.is_some())
}
