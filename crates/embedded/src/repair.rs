//! The check of stored parents.

pub(crate) mod finding;

use std::collections::VecDeque;

use futures::stream::try_unfold;
use mongo_patterns_core::send::Rows;

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
    let Shared {
        collection, settings, ..
    } = shared;
    let state: (Option<Rows>, VecDeque<Finding>) = (None, VecDeque::new());
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
                        reporter.begin(send::estimated_count(collection).await?);
                        let options = AggregateOptions::builder().batch_size(BATCH).build();
                        let faults = query::faults_and_sound(settings);
                        cursor.insert(send::aggregate_rows(collection, faults, options).await?)
                    }
                    None => {
                        let faults = query::faults(settings);
                        cursor.insert(send::aggregate_rows(collection, faults, None).await?)
                    }
                };
                match rows.try_next().await? {
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
