//! The change stream of a collection, or of several ones of a database.

use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::options::{FullDocumentBeforeChangeType, FullDocumentType, ReadConcern};

use super::{Target, Texts, commands};
use crate::error::{self, CommandError, Error, ErrorKind, Result};
use crate::send::primary;

/// The maximum number of changes in a batch of the server: enough to group them, and few enough for memory.
const BATCH: u32 = 10_000;

/// The server's codes for a position from which it cannot resume: its oplog does not reach back far enough, or belongs
/// to another server.
const HISTORY_LOST: [i32; 4] = [136, 260, 280, 286];

pub(super) async fn watch(
    target: &dyn Target,
    after: ResumeToken,
    max_await_time: Duration,
) -> Result<ChangeStream<RawDocumentBuf>> {
    open(target, Some(after), BATCH, max_await_time).await
}

/// Returns the position after all changes so far.
pub(super) async fn now(target: &dyn Target) -> Result<ResumeToken> {
    let stream = open(target, None, 0, Duration::ZERO).await?;
    stream.resume_token().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the server does not report where its change stream begins, so the follower cannot start",
        )
    })
}

async fn open(
    target: &dyn Target,
    after: Option<ResumeToken>,
    batch_size: u32,
    max_await_time: Duration,
) -> Result<ChangeStream<RawDocumentBuf>> {
    let watched: Collection<Document> = target.watched().clone_with_type();
    let database = watched.client().database(&watched.namespace().db);
    let further = target.further();
    let (watch, mut pipeline) = match further.is_empty() {
        true => (watched.watch(), Vec::new()),
        false => {
            let names: Vec<&str> = [watched.name()].into_iter().chain(further).collect();
            (database.watch(), vec![commands::changes_of(&names)])
        }
    };
    pipeline.extend(target.pipeline());
    let mut watch = watch
        .pipeline(pipeline)
        .resume_after(after)
        .batch_size(batch_size)
        .max_await_time(max_await_time)
        // A change stream accepts no other read concern.
        .read_concern(ReadConcern::majority())
        .selection_criteria(primary());
    if target.texts().pre_images_disabled.is_some() {
        watch = watch
            .full_document(FullDocumentType::WhenAvailable)
            .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable);
    }
    let opened = watch.await.map_err(CommandError::of_read);
    Ok(opened.map_err(|error| failed(error, target.texts()))?.with_type())
}

pub(super) fn failed(error: CommandError, texts: &Texts) -> Error {
    if error::code(&error).is_some_and(|code| HISTORY_LOST.contains(&code)) {
        return lost(texts).caused_by(error);
    }
    error.into()
}

pub(super) fn lost(texts: &Texts) -> Error {
    Error::new(ErrorKind::HistoryLost, texts.history_lost)
}

/// Creates the error for a collection that no longer exists under its name.
pub(super) fn dropped(texts: &Texts) -> Error {
    Error::new(ErrorKind::CollectionDropped, texts.dropped)
}
