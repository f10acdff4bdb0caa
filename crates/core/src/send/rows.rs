//! Cursors.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt, TryStreamExt};
use mongodb::Cursor;
use mongodb::bson::RawDocumentBuf;
use tokio::runtime::Handle;

use crate::error::CommandError;
use crate::error::command::CommandResult as Result;
use crate::tasks::take_over;

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
    /// Returns the rows of a cursor. The index is that of the hint of its command.
    pub(super) fn of(cursor: mongodb::error::Result<Cursor<RawDocumentBuf>>, index: Option<String>) -> Result<Self> {
        let cursor = cursor.map_err(|error| CommandError::of_read(error).with_hint(index))?;
        Ok(Self::of_stream(cursor.map_err(CommandError::of_read).boxed()))
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
