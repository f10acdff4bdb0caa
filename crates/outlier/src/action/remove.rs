use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::key_locks::LockedKeys;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, ErrorKind, IntoId, Result, document_id, send, transaction};
use mongodb::ClientSession;
use mongodb::bson::Bson;
use mongodb::error::Error as DriverError;
use mongodb::options::FindOneAndUpdateOptions;
use serde::Serialize;

use super::contains::{check_compared, contains};
use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;
use crate::write::push::{is_true, not_found};
use crate::write::retried::{projected, stored_or_not};

impl<D, E: Serialize> OutlierRepository<D, E> {
    /// Removes every element that is equal to this one, as MongoDB compares values, from the list of a document, and
    /// says whether there was [one](Removed::found).
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let removed = books.remove(2, &"user00".to_owned()).await?;
    /// if !removed.found {
    ///     println!("user00 has not bought the book");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The array may have less than the threshold afterwards although there are extras: it stays closed to pushes, so
    /// that no element moves while others read. [`rebalance`](Self::rebalance) fills it again, and clears the flag when
    /// no extras are left.
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier, and three more where it has no such element: a look at
    /// one moment, since elements may be moved meanwhile. The server examines all its extras, or one where elements are
    /// [unique](crate::OutlierRepositoryBuilder::unique_elements).
    ///
    /// # Cancel safety
    /// Equal elements may be removed from the array, and not yet from the overflow documents. Call it again: it removes
    /// the rest. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such document,
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for what cannot be an `_id`, and for undefined, and
    /// [`Encode`](ErrorKind::Encode). Where the outcome is unknown it may be called again.
    pub fn remove<'a>(&'a self, id: impl IntoId, element: &'a E) -> Remove<'a, E> {
        Remove {
            shared: self.shared(),
            id: DocumentId::new(id),
            element,
            session: None,
        }
    }
}

/// Removes an element; made by [`OutlierRepository::remove`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// books.remove(2, &"user00".to_owned()).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Remove<'a, E> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    element: &'a E,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Remove<'_, E>);

/// What a removal did.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let removed = books.remove(2, &"user00".to_owned()).await?;
/// println!("there was one: {}", removed.found);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Whether there was such an element.
    pub found: bool,
}

impl<'a, E> Remove<'a, E> {
    /// Removes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a, E: Serialize> IntoFuture for Remove<'a, E> {
    type Output = Result<Removed>;
    type IntoFuture = ActionFuture<'a, Removed>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            shared,
            id,
            element,
            session,
        } = self;
        let element = Encoded::one(element);
        run(shared.operation("remove"), |_| async move {
            let (id, element) = (id?.into_bson(), element?.to_bson()?);
            check_compared(&element)?;
            let mut session = Session::of_caller(session).await?;
            let _locked = match session {
                None => Some(shared.locks.shared(&document_id::text(&id)).await),
                Some(_) => None,
            };
            let found = remove(shared, &id, &element, session.as_mut()).await?;
            Ok(Removed { found })
        })
    }
}

async fn remove(shared: &Shared, id: &Bson, element: &Bson, mut session: Option<&mut Session<'_>>) -> Result<bool> {
    let Shared { overflow, settings, .. } = shared;
    let mut attempts = settings.retry.start();
    loop {
        let main = remove_inline(shared, id, element, session.as_deref_mut()).await?;
        if !main.flagged {
            return Ok(main.removed);
        }
        let filter = query::extras_with(settings, id, element);
        let update = query::remove_extra(settings, element).to_vec();
        let updated = send::update_many(session.as_deref_mut(), overflow, filter, update).await?;
        let modified = updated.modified_count > 0;
        if main.removed || modified {
            return Ok(true);
        }
        if session.is_some() || !is_there(shared, id, element).await? {
            return Ok(false);
        }
        attempts.next(DriverError::custom("it was moved each time")).await?;
    }
}

/// Whether a snapshot has the element. A rebalance may have moved it, to the main document after we looked there, or from
/// one of the extras to another. On a standalone there is none.
async fn is_there(shared: &Shared, id: &Bson, element: &Bson) -> Result<bool> {
    let Shared { main, settings, .. } = shared;
    let context = (shared, id, element);
    let is_there = transaction::run(
        main,
        &settings.retry,
        None,
        LockedKeys::default(),
        context,
        |session, (shared, id, element)| Box::pin(contains(shared, id, element, Some(session))),
    );
    match is_there.await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        is_there => is_there,
    }
}

struct Main {
    flagged: bool,
    removed: bool,
}

async fn remove_inline(shared: &Shared, id: &Bson, element: &Bson, session: Option<&mut Session<'_>>) -> Result<Main> {
    let Shared { main, settings, .. } = shared;
    let projection = query::has_element(settings, element);
    let (filter, update) = (query::by_id(id), query::remove(settings, element).to_vec());
    let options = FindOneAndUpdateOptions::builder()
        .projection(projection.clone())
        .build();
    let answer = send::find_one_and_update(session, main, filter, update, options).await?;
    let answer = answer.ok_or_else(not_found)?;
    let before = projected(main, query::by_id(id), projection, "_id", answer).await;
    let before = before.map_err(stored_or_not)?.ok_or_else(not_found)?;
    Ok(Main {
        flagged: is_true(&before, "flagged"),
        removed: is_true(&before, "has"),
    })
}
