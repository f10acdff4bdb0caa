use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{DocumentId, IntoId, Result, document_id, send};
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};
use mongodb::options::FindOneAndDeleteOptions;

use crate::form::document::is_flagged;
use crate::query;
use crate::repository::OutlierRepository;
use crate::repository::Shared;

impl<D, E> OutlierRepository<D, E> {
    /// Deletes a document with its extras.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let deleted = books.delete(2).await?;
    /// if deleted.found {
    ///     println!("the book is gone, with {} extras documents", deleted.extras);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The document goes first, so that nobody finds it with some of its elements missing. A process that dies in the
    /// middle leaves extras that belong to nobody: call it again, or [`repair`](Self::repair) finds them.
    ///
    /// # Cost
    /// One round trip for a typical document, two for an outlier, and for one that is not there.
    ///
    /// # Cancel safety
    /// Some or all of the overflow documents may be left after the document is deleted; [`verify`](Self::verify) finds
    /// them. Call it again: it deletes them. A [transaction of the caller](mongo_patterns_core::action#cancel-safety)
    /// is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for what cannot be an `_id`.
    pub fn delete(&self, id: impl IntoId) -> Delete<'_> {
        Delete {
            shared: self.shared(),
            id: DocumentId::new(id),
            session: None,
        }
    }
}

/// Deletes a document; made by [`OutlierRepository::delete`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// books.delete(2).session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Delete<'a> {
    shared: &'a Shared,
    id: Result<DocumentId>,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(Delete<'_>);

/// What was deleted.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let deleted = books.delete(2).await?;
/// println!("there was one: {}, with {} extras documents", deleted.found, deleted.extras);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// Whether there was such a document.
    pub found: bool,
    /// How many extras documents went.
    pub extras: u64,
}

impl<'a> Delete<'a> {
    /// Deletes in the caller's session.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for Delete<'a> {
    type Output = Result<Deleted>;
    type IntoFuture = ActionFuture<'a, Deleted>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { shared, id, session } = self;
        run(shared.operation("delete"), |_| async move {
            let mut session = Session::of_caller(session).await?;
            delete(shared, &id?.into_bson(), session.as_mut()).await
        })
    }
}

async fn delete(shared: &Shared, id: &Bson, mut session: Option<&mut Session<'_>>) -> Result<Deleted> {
    let Shared {
        main,
        overflow,
        settings,
        locks,
        ..
    } = shared;
    // Not while a push of this process is between its two commands.
    let _locked = match session {
        None => Some(locks.exclusive(&document_id::text(id)).await),
        Some(_) => None,
    };
    let flag = doc! { settings.flag.as_str(): 1 };
    let flag = FindOneAndDeleteOptions::builder().projection(flag).build();
    let main = send::find_one_and_delete(session.as_deref_mut(), main, query::by_id(id), flag).await?;
    let mut deleted = Deleted {
        found: main.is_some(),
        extras: 0,
    };
    if main.is_none_or(|main| is_flagged(settings, &main)) {
        let gone = send::delete_many(session, overflow, query::extras_of(settings, id), None).await?;
        deleted.extras = gone.deleted_count;
    }
    Ok(deleted)
}
