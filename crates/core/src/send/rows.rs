//! Cursors.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt, TryStreamExt, try_unfold};
use mongodb::Cursor;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use tokio::runtime::Handle;

use crate::error::command::CommandResult as Result;
use crate::error::{CommandError, code};
use crate::tasks::take_over;

/// The server has closed the cursor: it was idle for ten minutes between two batches, or the server was restarted.
const CURSOR_NOT_FOUND: i32 = 43;

/// Opens a cursor of rows in an order, after a row or at the first one.
pub(crate) type Open = Box<dyn Fn(Option<&RawDocument>) -> BoxFuture<'static, Result<Rows>> + Send>;

/// The documents of a cursor.
///
/// If it is dropped while it waits for the next batch, a task waits for the reply and then closes the cursor.
pub struct Rows {
    /// `None` after the drop.
    cursor: Option<BoxStream<'static, Result<RawDocumentBuf>>>,
    /// Whether a command is in flight.
    waits: bool,
    runtime: Handle,
}

crate::redacted_debug!(Rows);

impl Rows {
    /// Returns the rows of a cursor. The index is the hint of its command.
    pub(super) fn of(cursor: mongodb::error::Result<Cursor<RawDocumentBuf>>, index: Option<String>) -> Result<Self> {
        let cursor = cursor.map_err(|error| CommandError::of_read(error).with_hint(index))?;
        Ok(Self::of_stream(cursor.map_err(CommandError::of_read).boxed()))
    }

    /// Opens a cursor, and a new cursor after the last row whenever the server has closed it.
    pub(crate) async fn resuming(open: Open) -> Result<Self> {
        let (rows, last) = (open(None).await?, None::<RawDocumentBuf>);
        let resuming = try_unfold((open, rows, last), |(open, mut rows, last)| async move {
            let next = match rows.try_next().await {
                Err(error) if code(&error) == Some(CURSOR_NOT_FOUND) => {
                    rows = open(last.as_deref()).await?;
                    rows.try_next().await?
                }
                next => next?,
            };
            Ok(next.map(|row| (row.clone(), (open, rows, Some(row)))))
        });
        Ok(Self::of_stream(resuming.boxed()))
    }

    fn of_stream(cursor: BoxStream<'static, Result<RawDocumentBuf>>) -> Self {
        Self {
            cursor: Some(cursor),
            waits: false,
            runtime: Handle::current(),
        }
    }
}

impl Stream for Rows {
    type Item = Result<RawDocumentBuf>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(cursor) = &mut self.cursor else {
            return Poll::Ready(None);
        };
        let next = cursor.poll_next_unpin(context);
        self.waits = next.is_pending();
        next
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if self.waits
            && let Some(mut cursor) = self.cursor.take()
        {
            take_over(&self.runtime, async move {
                cursor.next().await;
            });
        }
    }
}

/// Reads the next rows. None at the end.
pub fn next_rows(rows: &mut Rows, most: usize) -> BoxFuture<'_, Result<Option<Vec<RawDocumentBuf>>>> {
    Box::pin(async move {
        let batch: Vec<RawDocumentBuf> = rows.take(most).try_collect().await?;
        Ok(Some(batch).filter(|batch| !batch.is_empty()))
    })
}

/// Returns the documents of a reply with a cursor of one batch.
pub(super) fn first_batch(reply: &Document) -> Result<Vec<RawDocumentBuf>> {
    let batch = reply
        .get_document("cursor")
        .and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.into_iter().flatten().filter_map(Bson::as_document);
    Ok(documents
        .map(RawDocumentBuf::try_from)
        .collect::<std::result::Result<_, _>>()?)
}
