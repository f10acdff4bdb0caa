use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::{self, Encoded};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::transaction::with_stored;
use mongo_patterns_core::{DocumentId, ErrorKind, IntoId, Result};
use mongodb::ClientSession;
use serde::Serialize;

use super::push::refuse_unique;
use crate::form::equality as same;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::write::push::Store;

impl<D, E: Serialize> OutlierRepository<D, E> {
    /// Adds elements to the list of a document, in order: to its array, then to its extras.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let customers = ["user49".to_owned(), "user50".to_owned()];
    /// let pushed = books.push_many(2, &customers).await?;
    /// println!("{} customers went to the book, {} to extras", pushed.inline, pushed.overflow);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, all are stored once. When it fails, the error says
    /// [how many](mongo_patterns_core::Error::stored_count) are stored: always a prefix of the elements. Those of other writers
    /// can stand between them.
    ///
    /// # Cost
    /// One round trip when all fit the array, two when the rest fits the newest extras document, and else four more for
    /// each 100 extras documents or 16 MiB.
    ///
    /// # Cancel safety
    /// A prefix of the elements is stored. The flag may be set without overflow documents, as by [`push`](Self::push).
    /// A second call may store elements twice: read the list first. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn push_many<'a>(&'a self, id: impl IntoId, elements: &'a [E]) -> PushMany<'a, E> {
        PushMany {
            shared: self.shared(),
            id: DocumentId::new(id),
            elements,
            session: None,
        }
    }
}

/// Adds elements; made by [`OutlierRepository::push_many`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// books.push_many(2, &["user00".to_owned(), "user01".to_owned()]).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct PushMany<'a, E> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    elements: &'a [E],
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(PushMany<'_, E>);

/// Where elements went.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     customers: Vec<String>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let pushed = books.push_many(2, &customers).await?;
/// println!("{} went to the book, {} to extras", pushed.inline, pushed.overflow);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushedMany {
    /// How many went to the array of the main document: the first ones.
    pub inline: u64,
    /// How many went to the extras.
    pub overflow: u64,
}

impl<'a, E> PushMany<'a, E> {
    /// Pushes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, E: Serialize> IntoFuture for PushMany<'a, E> {
    type Output = Result<PushedMany>;
    type IntoFuture = ActionFuture<'a, PushedMany>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            id,
            elements,
            session,
        } = self;
        let elements = Encoded::all(elements.iter());
        run(shared.operation("push_many"), |_| async move {
            refuse_unique(&shared.settings)?;
            let (id, elements) = (id?.into_bson(), elements?);
            for element in &elements {
                same::check_element(&shared.settings, element.value())?;
            }
            array::check_sizes(1, elements.iter())?;
            if elements.is_empty() {
                return Ok(PushedMany::default());
            }
            let mut session = Session::of_caller(session).await?;
            let mut store = Store::new(shared, &id, &elements, false);
            if session.is_none() {
                store = store.locked().await;
            }
            if let Err(error) = store.run(session.as_mut()).await {
                // A document that was deleted meanwhile took the elements with it that were stored.
                let stored = match error.kind() {
                    ErrorKind::NotFound => 0,
                    _ => store.stored(),
                };
                return Err(with_stored(error, stored, session.as_ref()));
            }
            Ok(PushedMany {
                inline: store.inline as u64,
                overflow: store.overflow as u64,
            })
        })
    }
}
