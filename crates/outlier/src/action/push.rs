use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::{self, Encoded};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::transaction::with_stored;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, IntoId, Result};
use mongodb::ClientSession;
use mongodb::bson::Bson;
use serde::Serialize;

use crate::form::equality as same;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::push::Store;

impl<D, E: Serialize> OutlierRepository<D, E> {
    /// Adds an element to the list of a document: to its array, or, past the threshold, to its extras.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::{OutlierRepository, Pushed};
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let pushed = books.push(2, &"user50".to_owned()).await?;
    /// if pushed == Pushed::Overflow {
    ///     println!("the book is an outlier");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// When it returns, the element is stored once, to the collections' write concern, and every reader of this crate
    /// sees it. An error means that it is not, unless [`is_outcome_unknown`](Error::is_outcome_unknown). A process that
    /// dies in the middle leaves a flag, and no element that nobody sees.
    ///
    /// Any number of writers may push to one document at a time: its array never gets more than the threshold, and no
    /// extras document more than the cap.
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier, however many extras it has: one document is examined
    /// in each. Four more when an extras document is opened, in a transaction with the flag: once for as many elements
    /// as the cap. On a standalone server it is opened without one, and then the flag is set again.
    ///
    /// # In a session
    /// Nothing is retried: an error that ends the transaction goes out with the driver's labels.
    ///
    /// # Cancel safety
    /// The element is stored or not. Where it is not, the flag may be set without overflow documents: readers see the
    /// same list, [`verify`](Self::verify) finds the flag, and [`rebalance`](Self::rebalance) clears it. A second call
    /// may store the element twice, where [`push_unique`](Self::push_unique) does not. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such document,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for what cannot be an `_id`, or an element, [`Encode`](ErrorKind::Encode),
    /// [`TooLarge`](ErrorKind::TooLarge) for an element that does not fit, alone or beside those of the array,
    /// [`Corrupt`](ErrorKind::Corrupt) when the array field is no array, [`IndexMissing`](ErrorKind::IndexMissing) for an
    /// outlier whose extras have no index, [`Configuration`](ErrorKind::Configuration) where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements): call [`push_unique`](Self::push_unique). Nothing is stored then.
    pub fn push<'a>(&'a self, id: impl IntoId, element: &'a E) -> Push<'a, E> {
        Push {
            shared: self.shared(),
            id: DocumentId::new(id),
            element,
            session: None,
        }
    }
}

/// Adds an element; made by [`OutlierRepository::push`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// books.push(2, &"user00".to_owned()).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Push<'a, E> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    element: &'a E,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Push<'_, E>);

/// Where an element went.
///
/// ```no_run
/// # use mongo_patterns_outlier::{OutlierRepository, Pushed};
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// match books.push_unique(2, &"user00".to_owned()).await? {
///     Pushed::AlreadyThere => println!("bought before"),
///     Pushed::Inline => println!("shown with the book"),
///     _ => println!("stored in its extras"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pushed {
    /// To the array of the main document.
    Inline,
    /// To the extras.
    Overflow,
    /// Nowhere: it was there already. Only [`push_unique`](OutlierRepository::push_unique) says so.
    AlreadyThere,
}

impl<'a, E> Push<'a, E> {
    /// Pushes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, E: Serialize> IntoFuture for Push<'a, E> {
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
        run(shared.operation("push"), |_| async move {
            refuse_unique(&shared.settings)?;
            let mut session = Session::of_caller(session).await?;
            push(shared, &id?.into_bson(), &element?, false, session.as_mut()).await
        })
    }
}

/// Adds one element.
pub(super) async fn push(
    shared: &Shared,
    id: &Bson,
    element: &Encoded,
    once: bool,
    mut session: Option<&mut Session<'_>>,
) -> Result<Pushed> {
    same::check_element(&shared.settings, element.value())?;
    array::check_sizes(1, std::iter::once(element))?;
    let mut store = Store::new(shared, id, std::slice::from_ref(element), once);
    if session.is_none() {
        store = store.locked().await;
    }
    if let Err(error) = store.run(session.as_deref_mut()).await {
        return Err(match (error.kind(), store.stored()) {
            (ErrorKind::NotFound, _) | (_, 0) => error,
            (_, stored) => with_stored(error, stored, session.as_deref()),
        });
    }
    Ok(match (store.is_there, store.inline) {
        (true, _) => Pushed::AlreadyThere,
        (false, 0) => Pushed::Overflow,
        (false, _) => Pushed::Inline,
    })
}

/// Where elements are unique, a push that does not look could store one twice.
pub(super) fn refuse_unique(settings: &Settings) -> Result<()> {
    if settings.unique {
        return Err(Error::new(
            ErrorKind::Configuration,
            "the elements of this repository are unique, nothing was stored: call push_unique(..)",
        ));
    }
    Ok(())
}
