//! The check of stored parents.

pub(crate) mod finding;

use futures::TryStreamExt;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Result, send, verify};
use mongodb::options::AggregateOptions;

use self::finding::{Finding, Problem};
use crate::query;
use crate::repository::Shared;

/// The number of parents in a batch of the server, when somebody asks for the progress.
const BATCH: u32 = 1000;

/// The bytes of a document without fields: a parent in which nothing is wrong.
const EMPTY: usize = 5;

/// A scan of all parents.
pub(crate) struct Scan<'a> {
    shared: &'a Shared,
    reporter: Reporter<'a>,
    rows: Option<Rows>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(shared: &'a Shared, reporter: Reporter<'a>) -> Self {
        let rows = None;
        Self { shared, reporter, rows }
    }

    async fn open(&mut self) -> Result<Rows> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        if !self.reporter.is_asked() {
            let options = send::latest(AggregateOptions::default());
            return Ok(send::aggregate_rows(collection, query::faults(settings), options).await?);
        }
        self.reporter.begin(send::estimated_count(collection).await?);
        let options = AggregateOptions::builder().batch_size(BATCH).build();
        Ok(send::aggregate_rows(collection, query::faults_and_sound(settings), send::latest(options)).await?)
    }
}

impl verify::Scan for Scan<'_> {
    type Found = Finding;

    async fn next(&mut self) -> Result<Option<Vec<Finding>>> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => {
                let rows = self.open().await?;
                self.rows.insert(rows)
            }
        };
        let Some(row) = rows.try_next().await? else {
            return Ok(None);
        };
        self.reporter.advance(1);
        if row.as_bytes().len() == EMPTY {
            return Ok(Some(Vec::new()));
        }
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        let problems = Problem::of_row(&row, settings.max_children).into_iter();
        let finding = |problem| Finding::new(collection.namespace(), id_of(&row), problem);
        Ok(Some(problems.map(finding).collect()))
    }
}
