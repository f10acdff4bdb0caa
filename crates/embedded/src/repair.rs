//! The check of stored parents.

pub(crate) mod finding;

use futures::TryStreamExt;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::verify::{Results, begin};
use mongo_patterns_core::{Result, send};
use mongodb::options::AggregateOptions;

use self::finding::{Finding, Problem};
use crate::query;
use crate::repository::Shared;

/// The number of parents in a batch of the server, when somebody asks for the progress.
const BATCH: u32 = 1000;

/// The bytes of a document without fields: a parent in which nothing is wrong.
const EMPTY: usize = 5;

/// Reads all parents.
pub(crate) async fn find_problems(
    shared: &Shared,
    mut reporter: Reporter<'_>,
    mut results: Results<Finding>,
) -> Result<()> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    begin(&mut reporter, [collection]).await?;
    let (stages, batch_size) = match reporter.is_asked() {
        true => (query::faults_and_sound(settings), Some(BATCH)),
        false => (query::faults(settings), None),
    };
    let options = AggregateOptions::builder().batch_size(batch_size).build();
    let mut rows = send::aggregate_rows(collection, stages, send::latest(options)).await?;
    while let Some(row) = rows.try_next().await? {
        reporter.advance(1);
        if row.as_bytes().len() > EMPTY {
            let problems = Problem::of_row(&row, settings.max_children).into_iter();
            let finding = |problem| Finding::new(collection.namespace(), id_of(&row), problem);
            results.add_all(problems.map(finding)).await;
        }
    }
    Ok(())
}
