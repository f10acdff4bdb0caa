//! The change stream of a collection, or of several ones of a database.

use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::options::{FullDocumentBeforeChangeType, FullDocumentType, ReadConcern};

use tokio::runtime::Handle;

use super::{Target, Texts, commands};
use crate::conn::in_flight;
use crate::error::{self, CommandError, Error, ErrorKind, Result};
use crate::send::primary;
use crate::tasks::take_over;

/// The maximum number of changes in a batch of the server: enough to group them, and few enough for memory.
const BATCH: u32 = 10_000;

/// The server's codes for a position from which it cannot resume: its oplog does not reach back far enough, or belongs
/// to another server.
const HISTORY_LOST: [i32; 4] = [136, 260, 280, 286];

pub(super) async fn watch(target: &dyn Target, after: ResumeToken, max_await_time: Duration) -> Result<Changes> {
    let stream = open(target, Some(after), BATCH, max_await_time).await?;
    Ok(Changes {
        stream: Some(stream),
        waits: false,
        runtime: Handle::current(),
    })
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
    let names: Vec<String> = [watched.name()]
        .into_iter()
        .chain(target.further())
        .map(str::to_owned)
        .collect();
    let mut pipeline = match names.as_slice() {
        [_] => Vec::new(),
        names => vec![commands::changes_of(names)],
    };
    pipeline.extend(target.pipeline());
    let with_images = target.texts().pre_images_disabled.is_some();
    let opened = in_flight(Box::pin(async move {
        let database = watched.client().database(&watched.namespace().db);
        let mut watch = match names.len() {
            1 => watched.watch(),
            _ => database.watch(),
        };
        watch = watch
            .pipeline(pipeline)
            .resume_after(after)
            .batch_size(batch_size)
            .max_await_time(max_await_time)
            // A change stream accepts no other read concern.
            .read_concern(ReadConcern::majority())
            .selection_criteria(primary());
        if with_images {
            watch = watch
                .full_document(FullDocumentType::WhenAvailable)
                .full_document_before_change(FullDocumentBeforeChangeType::WhenAvailable);
        }
        watch.await
    }));
    let opened = opened
        .await
        .map_err(|error| failed(CommandError::of_read(error), target.texts()));
    Ok(opened?.with_type())
}

/// A change stream. If it is dropped while it waits for the next batch, a task waits for the reply and then closes it.
pub(super) struct Changes {
    /// `None` after the drop.
    stream: Option<ChangeStream<RawDocumentBuf>>,
    /// Whether a command is in flight.
    waits: bool,
    runtime: Handle,
}

impl Changes {
    /// Returns the next change. `None` if there is none in the batch of the server's next reply.
    pub(super) async fn next_if_any(&mut self) -> mongodb::error::Result<Option<RawDocumentBuf>> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        self.waits = true;
        let next = stream.next_if_any().await;
        self.waits = false;
        next
    }

    pub(super) fn resume_token(&self) -> Option<ResumeToken> {
        self.stream.as_ref()?.resume_token()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.stream.as_ref().is_some_and(ChangeStream::is_alive)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if self.waits
            && let Some(mut stream) = self.stream.take()
        {
            take_over(&self.runtime, async move {
                let _ = stream.next_if_any().await;
            });
        }
    }
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
