//! The check of stored parents.

pub(crate) mod finding;

use std::collections::VecDeque;

use futures::stream::try_unfold;
use mongodb::Cursor;

use self::finding::Finding;
use crate::prelude::*;
use crate::query;
use crate::repository::Shared;

/// The number of parents in a batch of the server, when somebody asks for the progress.
const BATCH: u32 = 1000;

/// The bytes of a document without fields: a parent in which nothing is wrong.
const EMPTY: usize = 5;

/// Returns the stream. It sends nothing before it is polled.
pub(crate) fn findings<'a>(
    shared: &'a Shared,
    reporter: Reporter<'a>,
) -> impl Stream<Item = Result<Finding>> + Send + 'a {
    let Shared { collection, settings } = shared;
    let state: (Option<Cursor<RawDocumentBuf>>, VecDeque<Finding>) = (None, VecDeque::new());
    try_unfold(
        (state, reporter),
        move |((mut cursor, mut found), mut reporter)| async move {
            loop {
                if let Some(finding) = found.pop_front() {
                    return Ok(Some((finding, ((cursor, found), reporter))));
                }
                let rows = match &mut cursor {
                    Some(rows) => rows,
                    None if reporter.is_asked() => {
                        reporter.begin(
                            collection
                                .estimated_document_count()
                                .await
                                .map_err(CommandError::of_read)?,
                        );
                        let aggregate = collection.aggregate(query::faults_and_sound(settings));
                        let aggregate = aggregate.batch_size(BATCH);
                        let opened = aggregate.with_type::<RawDocumentBuf>().await;
                        cursor.insert(opened.map_err(CommandError::of_read)?)
                    }
                    None => {
                        let aggregate = collection.aggregate(query::faults(settings));
                        let opened = aggregate.with_type::<RawDocumentBuf>().await;
                        cursor.insert(opened.map_err(CommandError::of_read)?)
                    }
                };
                match rows.try_next().await.map_err(CommandError::of_read)? {
                    Some(row) if row.as_bytes().len() == EMPTY => reporter.advance(1),
                    Some(row) => {
                        reporter.advance(1);
                        found.extend(Finding::of_row(&row, settings.max_children));
                    }
                    None => return Ok(None),
                }
            }
        },
    )
}
