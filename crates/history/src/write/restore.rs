//! The restoration of a revision, as a new one.

use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;

use super::change::{self, Request};
use super::insert;
use crate::form::document::{Encoded, Head, content, invalid_argument};
use crate::query::change::Change;
use crate::read::find_revision;
use crate::repository::prelude::*;
use crate::results::Recorded;

/// Restores the content of a revision.
pub(crate) async fn run(
    shared: &Shared,
    id: Bson,
    revision: u64,
    expected: Option<u64>,
    with: Document,
    session: Option<&mut ClientSession>,
) -> Result<Recorded> {
    shared.check_write().await?;
    let mut conn = shared.enter(&id, session).await?;
    let Some(stored) = find_revision(shared, &id, revision, &mut conn).await? else {
        return Err(no_revision());
    };
    if Head::of(&shared.settings, &stored).is_some_and(|head| head.is_deleted) {
        return Err(invalid_argument(
            "the revision is that of a deletion, nothing was changed: delete the document, or restore an earlier revision",
        ));
    }
    let content = content(&shared.settings, &stored)?;
    let mut request = Request {
        change: Change::Replace(content),
        expected,
        with,
    };
    let mut attempts = shared.settings.retry.start();
    loop {
        match change::run_in(shared, &id, &request, &mut conn).await {
            // A document that is expected at a revision must exist.
            Err(error) if error.kind() == ErrorKind::NotFound && expected.is_none() => {}
            done => return done,
        }
        let Change::Replace(content) = request.change else {
            return Err(no_revision());
        };
        let mut document = doc! { "_id": ObjectId::new() };
        document.extend(content.clone());
        let encoded = Encoded {
            id: id.clone(),
            document,
            with: request.with.clone(),
        };
        match insert::run_in(shared, &encoded, &mut conn).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            done => return done,
        }
        request.change = Change::Replace(content);
        attempts
            .next(CommandError::custom("another client inserted or deleted the document"))
            .await?;
    }
}

pub(crate) fn no_revision() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the document has no such revision: it never had it, or the revision was pruned",
    )
}
