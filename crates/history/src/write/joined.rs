//! Changes of one document: alone, or together with those of other calls that wait.
//!
//! # Design
//!
//! ## Why do calls that wait for one document share a transaction?
//!
//! Transactions that write one document exclude each other, and most of the time of one is its commit. Each change of a
//! batch is a revision of its own, as if its call had a transaction of its own, and all commit together.
//!
//! ## Which times have the changes of a batch?
//!
//! The first has that of the server, and each further one is a millisecond later, because the times of a document strictly
//! increase.
//!
//! ## What if one change is refused?
//!
//! One that does not match the document, such as a change of another revision, fails alone. An error of the server ends the
//! transaction, and halves of the changes are made in transactions of their own.

use std::sync::Arc;

use mongo_patterns_core::lanes::{Joined, Lane, Stored, Target, Turn};
use mongo_patterns_core::size::MAX_BYTES;
use mongodb::ClientSession;

use super::change::{Attempt, Request};
use super::record::{Changed, delete_current, finish, insert_copies};
use crate::form::document::Head;
use crate::repository::Changes;
use crate::repository::prelude::*;
use crate::results::{Recorded, not_found};

/// A repository whose changes of one document can share a transaction.
pub(crate) trait Changeable: Send + Sync + Sized + 'static {
    type Request: Send + Sync + 'static;
    type Output: Send + 'static;

    /// The collection of the transaction, how it retries, and the changes of calls that wait.
    fn parts(&self) -> (&Collection<RawDocumentBuf>, &RetryPolicy, &Arc<Joined<Changes<Self>>>);

    /// Checks the deployment and the indexes, once.
    fn check(&self) -> impl Future<Output = Result<()>> + Send;

    /// Enters the lane of a document.
    fn enter<'s>(
        &self,
        id: &Bson,
        session: Option<&'s mut ClientSession>,
    ) -> impl Future<Output = Result<Conn<'s>>> + Send;

    /// Makes one change, in a transaction.
    fn change(
        &self,
        id: &Bson,
        request: &Self::Request,
        conn: &mut Conn<'_>,
    ) -> impl Future<Output = Result<Self::Output>> + Send;

    /// Makes changes one after another, in a transaction, until their copies would have more bytes than a document may have.
    ///
    /// # Errors
    /// One that ends the transaction.
    fn change_all(
        &self,
        id: &Bson,
        requests: &[Self::Request],
        conn: &mut Conn<'_>,
    ) -> impl Future<Output = Result<Vec<Result<Self::Output>>>> + Send;
}

/// Changes a document.
pub(crate) async fn run<S: Changeable>(
    shared: &Arc<S>,
    id: Bson,
    request: S::Request,
    session: Option<&mut ClientSession>,
) -> Result<S::Output> {
    shared.check().await?;
    if session.is_some() {
        let mut conn = shared.enter(&id, session).await?;
        return alone(&**shared, &id, &request, &mut conn).await;
    }
    let key = document_id::text(&id);
    let target = || Changes {
        shared: Arc::clone(shared),
        id: id.clone(),
    };
    let (_, _, changes) = shared.parts();
    match changes.enter(&key, || document_id::bytes(&id), request, target).await {
        Turn::Alone(lane, request) => alone(&**shared, &id, &request, &mut Conn::in_lane(lane)).await,
        Turn::Joined(done) => done,
    }
}

/// Changes a document in its lane, in a transaction of its own or in that of the caller.
pub(crate) async fn alone<S: Changeable>(
    shared: &S,
    id: &Bson,
    request: &S::Request,
    conn: &mut Conn<'_>,
) -> Result<S::Output> {
    let (collection, retry, _) = shared.parts();
    let one = (shared, id, request);
    let done = transaction::run(collection, retry, conn, one, |conn, (shared, id, request)| {
        Box::pin(shared.change(id, request, conn))
    });
    done.await
}

impl<S: Changeable> Target for Changes<S> {
    type Item = S::Request;
    type Output = S::Output;

    /// A transaction locks the document for as long as its changes take.
    const ITEMS: usize = 100;
    const INTERRUPTED: &'static str = "the tokio runtime of a call that changes the document for this one ended, the change may or may not have taken effect: read the document before you change it again";

    fn bytes(_: &S::Request) -> usize {
        0
    }

    async fn store(&self, requests: &[S::Request], lane: Lane) -> Stored<S::Output> {
        let (shared, mut conn) = (&*self.shared, Conn::in_lane(lane));
        let (collection, retry, _) = shared.parts();
        let batch = (self, requests);
        let done = transaction::run(collection, retry, &mut conn, batch, |conn, (changes, requests)| {
            Box::pin(changes.shared.change_all(&changes.id, requests, conn))
        });
        match done.await {
            Ok(results) => Stored { results, error: None },
            Err(error) => Stored {
                results: Vec::new(),
                error: Some(error),
            },
        }
    }
}

impl Changeable for Shared {
    type Request = Request;
    type Output = Recorded;

    fn parts(&self) -> (&Collection<RawDocumentBuf>, &RetryPolicy, &Arc<Joined<Changes<Self>>>) {
        (&self.current, &self.settings.retry, &self.changes)
    }

    async fn check(&self) -> Result<()> {
        self.check_write().await
    }

    async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Self::enter(self, id, session).await
    }

    async fn change(&self, id: &Bson, request: &Request, conn: &mut Conn<'_>) -> Result<Recorded> {
        let changed = Attempt::of(self, id, request).await?.run(None, conn).await?;
        finish(self, &changed, conn).await?;
        Ok(changed.head.into())
    }

    async fn change_all(&self, id: &Bson, requests: &[Request], conn: &mut Conn<'_>) -> Result<Vec<Result<Recorded>>> {
        let mut done = Vec::with_capacity(requests.len());
        let mut changed: Vec<Changed> = Vec::with_capacity(requests.len());
        let mut last: Option<Head> = None;
        let mut bytes = 0;
        for request in requests {
            if last.is_some_and(|last| last.is_deleted) {
                done.push(Err(not_found()));
                continue;
            }
            let attempt = Attempt::of(self, id, request).await?;
            match attempt.run(last, conn).await {
                Ok(change) => {
                    done.push(Ok(change.head.into()));
                    last = Some(change.head);
                    bytes += change.document.as_bytes().len();
                    changed.push(change);
                }
                Err(error) if is_of_request(&error) => done.push(Err(error)),
                Err(error) => return Err(error),
            }
            if bytes > MAX_BYTES {
                break;
            }
        }
        insert_copies(self, &changed, conn).await?;
        if let Some(deletion) = changed.last().filter(|last| last.head.is_deleted) {
            delete_current(self, deletion, conn).await?;
        }
        Ok(done)
    }
}

/// Returns whether the document does not suit a request, which leaves the transaction as it is.
pub(crate) fn is_of_request(error: &Error) -> bool {
    let is_refused = matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::RevisionMismatch | ErrorKind::NotMigrated
    );
    is_refused && error.as_driver_error().is_none()
}
