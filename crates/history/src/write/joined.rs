//! Changes of one document: alone, or together with other calls that wait.
//!
//! # Design
//!
//! ## Why do calls that wait for one document share a transaction?
//!
//! Transactions that write one document exclude each other, and most of their time is the commit. Each change of a batch is
//! a revision of its own, and all commit together.
//!
//! ## Which times have the changes of a batch?
//!
//! The first has the server's, and each further one is a millisecond later, because the times of a document strictly
//! increase.
//!
//! ## What if one change is refused?
//!
//! A change that does not match the document, such as a change of another revision, fails alone. An error of the server ends
//! the transaction, and halves of the changes are made in transactions of their own.

use std::sync::Arc;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::lanes::{BatchOutcome, Entered, Lane, Target};
use mongo_patterns_core::size::MAX_BYTES;
use mongo_patterns_core::{Error, ErrorKind, Result, document_id};
use mongodb::ClientSession;
use mongodb::bson::Bson;

use super::behind;
use super::change::{Attempt, Request};
use super::record::{Behind, Changed, delete_current, finish, insert_copies};
use crate::form::document::Head;
use crate::repository::{ChangesOfDocument, Shared};
use crate::results::{Recorded, not_found};

pub(crate) async fn change(
    shared: &Arc<Shared>,
    id: Bson,
    request: Request,
    session: Option<&mut ClientSession>,
) -> Result<Recorded> {
    shared.check_write().await?;
    if request.change.concerns_others() {
        shared.others().await?;
    }
    if session.is_some() {
        let mut conn = shared.enter(&id, session).await?;
        return change_alone(shared, &id, &request, &mut conn).await;
    }
    let key = document_id::canonical(&id);
    let target = || ChangesOfDocument {
        shared: Arc::clone(shared),
        id: id.clone(),
    };
    let waiting = &shared.changes;
    match waiting.enter(&key, || document_id::bytes(&id), request, target).await {
        Entered::Alone(lane, request) => change_alone(shared, &id, &request, &mut Conn::in_lane(lane)).await,
        Entered::Joined(recorded) => recorded,
    }
}

/// Changes a document in its lane, in a transaction of its own or in the caller's.
pub(crate) async fn change_alone(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    conn: &mut Conn<'_>,
) -> Result<Recorded> {
    let context = (shared, id, request);
    let done = behind::run(shared, id, conn, context, |conn, (shared, id, request), behind| {
        Box::pin(change_once(shared, id, request, behind, conn))
    });
    done.await
}

async fn change_once(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    behind: &mut Behind,
    conn: &mut Conn<'_>,
) -> Result<Recorded> {
    let changed = Attempt::new(shared, id, request).await?.send(None, conn).await?;
    finish(shared, &changed, behind, conn).await?;
    Ok(changed.head.into())
}

impl Target for ChangesOfDocument {
    type Item = Request;
    type Output = Recorded;

    /// A transaction locks the document for as long as its changes take.
    const ITEMS: usize = 100;
    const INTERRUPTED: &'static str = "the tokio runtime of a call that changes the document for this one ended, the change may or may not have taken effect: read the document before you change it again";

    fn bytes(_: &Request) -> usize {
        0
    }

    async fn store(&self, requests: &[Request], lane: Lane) -> BatchOutcome<Recorded> {
        let mut conn = Conn::in_lane(lane);
        let (shared, batch) = (&self.shared, (self, requests));
        let done = behind::run(
            shared,
            &self.id,
            &mut conn,
            batch,
            |conn, (changes, requests), behind| Box::pin(changes.change_all(requests, behind, conn)),
        );
        match done.await {
            Ok(results) => BatchOutcome { results, error: None },
            Err(error) => BatchOutcome {
                results: Vec::new(),
                error: Some(error),
            },
        }
    }
}

impl ChangesOfDocument {
    /// Makes changes one after another, in a transaction, until their copies would have more bytes than a document may have.
    async fn change_all(
        &self,
        requests: &[Request],
        behind: &mut Behind,
        conn: &mut Conn<'_>,
    ) -> Result<Vec<Result<Recorded>>> {
        let mut done = Vec::with_capacity(requests.len());
        let mut changed: Vec<Changed> = Vec::with_capacity(requests.len());
        let mut last: Option<Head> = None;
        let mut bytes = 0;
        for request in requests {
            if last.is_some_and(|last| last.is_deleted) {
                done.push(Err(not_found()));
                continue;
            }
            let attempt = Attempt::new(&self.shared, &self.id, request).await?;
            match attempt.send(last, conn).await {
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
        insert_copies(&self.shared, &changed, behind, conn).await?;
        if let Some(deletion) = changed.last().filter(|last| last.head.is_deleted) {
            delete_current(&self.shared, deletion, conn).await?;
        }
        Ok(done)
    }
}

/// Returns whether the document does not suit a request, which leaves the transaction as it is.
fn is_of_request(error: &Error) -> bool {
    let is_refused = matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::RevisionMismatch | ErrorKind::NotMigrated
    );
    is_refused && error.as_driver_error().is_none()
}
