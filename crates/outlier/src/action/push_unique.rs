use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, IntoId, Result};
use mongodb::ClientSession;
use serde::Serialize;

use super::Pushed;
use super::push::push;
use crate::repository::OutlierRepository;
use crate::repository::Shared;

impl<D, E: Serialize> OutlierRepository<D, E> {
    /// Adds an element to the list of a document, unless an equal one is there, in the array or in the extras. Needs
    /// [unique elements](crate::OutlierRepositoryBuilder::unique_elements).
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::{OutlierRepository, Pushed};
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let pushed = books.push_unique(2, &"user00".to_owned()).await?;
    /// if pushed == Pushed::AlreadyThere {
    ///     println!("user00 has bought the book before");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the element is stored once, however many writers push it at a time, and it may be repeated after
    /// an [unknown outcome](Error::is_outcome_unknown). Elements are equal as values of MongoDB are: 1 and 1.0 are, and
    /// documents with their fields in another order are not. Where an error says that the element is
    /// [stored](Error::stored_count), the look whether a rebalance moved an equal one meanwhile failed: repeat it, too.
    ///
    /// # Cost
    /// That of [`push`](Self::push), and one round trip more for an element that goes to the extras.
    ///
    /// # Cancel safety
    /// The element is stored or not: call it again. Where a rebalance moved an equal element at that moment, the list
    /// may have both until the next [`rebalance`](Self::rebalance); [`verify`](Self::verify) finds it. The flag may be
    /// set without overflow documents, as by [`push`](Self::push). A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`push`](Self::push). [`Configuration`](ErrorKind::Configuration) where elements are not unique,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an element that is an array: the server would index what is
    /// in it.
    pub fn push_unique<'a>(&'a self, id: impl IntoId, element: &'a E) -> PushUnique<'a, E> {
        PushUnique {
            shared: self.shared(),
            id: DocumentId::new(id),
            element,
            session: None,
        }
    }
}

/// Adds an element once; made by [`OutlierRepository::push_unique`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// books.push_unique(2, &"user00".to_owned()).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct PushUnique<'a, E> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    element: &'a E,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(PushUnique<'_, E>);

impl<'a, E> PushUnique<'a, E> {
    /// Pushes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, E: Serialize> IntoFuture for PushUnique<'a, E> {
    type Output = Result<Pushed>;
    type IntoFuture = ActionFuture<'a, Pushed>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            id,
            element,
            session,
        } = self;
        let element = Encoded::one(element);
        run(shared.operation("push_unique"), |_| async move {
            if !shared.settings.unique {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    "a unique push needs the index of the elements, nothing was stored: call unique() on the builder",
                ));
            }
            let (id, element) = (id?.into_bson(), element?);
            let mut session = Session::of_caller(session).await?;
            push(shared, &id, &element, true, session.as_mut()).await
        })
    }
}
