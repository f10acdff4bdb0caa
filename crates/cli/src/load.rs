//! Loads rows from a file or standard input into a target: buckets, documents with overflow documents, children, documents
//! with references, or a flat collection.
//!
//! # Design
//!
//! ## Why is a file read twice?
//!
//! So that a file with an invalid row stores nothing. With a file of rejected rows, an invalid row does not end the load,
//! and one pass suffices. Standard input can be read only once.
//!
//! ## How much memory does a load need?
//!
//! Two buffers of encoded rows, of which one is stored while the other is filled, and a few chunks that are read ahead.
//! Files are never in memory as a whole, arrays of JSON neither.

mod columns;
mod csv_rows;
mod dates;
mod input;
mod item;
mod json_rows;
mod options;
mod problem;
mod records;
mod rejects;
mod row;
mod source;
mod store;
mod to_bucket;
mod to_embedded;
mod to_flat;
mod to_outlier;
mod to_reference;
mod to_subset;
mod types;

use std::cell::Cell;
use std::io::{Write, stderr};
use std::sync::Arc;

use console::style;
use futures::{StreamExt, stream};
use mongo_patterns_core::ErrorKind;
use tokio::sync::mpsc;

pub(crate) use self::item::Shape;
pub(crate) use self::options::LoadOptions;
pub(crate) use self::store::Store;
pub(crate) use self::to_bucket::{BucketShape, FromText};
pub(crate) use self::to_embedded::{EmbeddedChildren, EmbeddedParents, EmbeddedShape};
pub(crate) use self::to_flat::{DocumentShape, FlatDocuments};
pub(crate) use self::to_outlier::{ElementShape, ListDocuments, ListElements, ListShape};
pub(crate) use self::to_reference::ReferringDocuments;
pub(crate) use self::to_subset::{ChildShape, Children};

use self::item::Item;
use self::rejects::Rejects;
use self::row::BadRow;
use self::source::{Message, Source};
use self::store::{Stored, Tally, store_batch};
use crate::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Summary, grouped};
use crate::progress::Progress;

/// The greatest size of the buffered rows. A larger buffer needs fewer commands, but delays the first stored rows and
/// their progress.
const BUFFER_BYTES: usize = 16 * 1024 * 1024;
/// What a failure of the reading says.
const BEFORE: &str = "the rows before it were stored";
/// The batches that are stored concurrently.
const CONCURRENCY: usize = 8;

/// Loads the rows of a file into a target.
pub(crate) async fn run<S: Store>(
    context: &Context,
    store: &S,
    shape: Arc<dyn Shape>,
    options: &LoadOptions,
) -> Outcome {
    let source = Source::new(options, shape)?;
    let mut rejects = options.reject_file.as_deref().map(Rejects::create).transpose()?;
    let [command, dry_run] = S::COMMANDS;
    let mut checked = None;
    if options.dry_run || options.is_file() && rejects.is_none() {
        let rows = check(context.output, &source, &mut rejects).await?;
        warn_of_rows_without_id(store, rows.without_id);
        if options.dry_run {
            let mut summary = Summary::new(dry_run, store.namespace()).row("items", rows.items);
            if let Some(types) = rows.types {
                summary = summary.row("types", types);
            }
            return end(context.output, summary, rows.without_id, rejects, None);
        }
        checked = Some(rows);
    }
    let mut chunks = source.start();
    let skips = rejects.is_some();
    // A header that is refused creates no index. Standard input can wait for its first row.
    let first = match options.is_file() {
        true => Some(fill(&mut chunks, skips).await.with_rows()?),
        false => None,
    };
    store.begin().await?;
    let mut load = Load {
        store,
        tally: Tally::default(),
        rows: Rows::default(),
        rejects,
        progress: Progress::new(context.output, "load", "items", checked.as_ref().map(|rows| rows.items)),
    };
    let failure = load.run(first, chunks).await.err();
    if failure.is_none() && checked.is_none() {
        load.progress.set_total(load.position());
        load.progress.at(load.position());
    }
    load.progress.end();
    let Load {
        tally, rows, rejects, ..
    } = load;
    if checked.is_none() {
        warn_of_rows_without_id(store, rows.without_id);
    }
    let mut summary = Summary::new(command, store.namespace())
        .row("items", tally.items)
        .row("stored_before", tally.stored_before);
    if let Some(name) = S::WRITTEN {
        summary = summary.row(name, tally.written);
    }
    end(context.output, summary, rows.without_id, rejects, failure)
}

/// Prints the summary.
fn end(
    output: Output,
    mut summary: Summary,
    without_id: u64,
    rejects: Option<Rejects>,
    failure: Option<Failure>,
) -> Outcome {
    summary = summary.row("items_without_id", without_id);
    let rejected = rejects.as_ref().map_or(0, Rejects::total);
    let exit = failure
        .as_ref()
        .map_or(Exit::of_findings(rejected), |failure| failure.exit);
    if let Some(rejects) = rejects {
        summary = rejects.summary(summary);
    }
    output.summary(&summary, exit)?;
    failure.map_or(Ok(exit), Err)
}

fn warn_of_rows_without_id<S: Store>(store: &S, without_id: u64) {
    if without_id == 0 {
        return;
    }
    let warning = style("warning").yellow().bold().for_stderr();
    // A failed write to the log is no reason to stop.
    let _ = writeln!(
        stderr(),
        "{warning}: {} items have no id, and running the command again stores them again: {}",
        grouped(without_id),
        store.advice()
    );
}

/// The rows that were read.
#[derive(Debug, Default)]
struct Rows {
    items: u64,
    without_id: u64,
    /// The types of the columns, as --types takes them.
    types: Option<String>,
}

impl Rows {
    fn add(&mut self, item: &Item) {
        self.items += 1;
        self.without_id += u64::from(!item.has_id);
    }
}

/// Reads all rows, and stores nothing.
async fn check(output: Output, source: &Source, rejects: &mut Option<Rejects>) -> Result<Rows, Failure> {
    let mut progress = Progress::new(output, "check", "items", None);
    let mut rows = Rows::default();
    let mut chunks = source.start();
    while let Some(chunk) = chunks.recv().await {
        for message in chunk {
            match message {
                Message::Types(types) => rows.types = Some(types),
                Message::Item(item) => rows.add(&item),
                Message::Bad(bad) => reject(rejects, &bad)?,
                Message::End(None) => {
                    progress.end();
                    return Ok(rows);
                }
                Message::End(Some(failure)) => return Err(failure),
            }
        }
        progress.at(rows.items);
    }
    Err(ended_early())
}

/// Writes the row to the file of rejected rows, or ends the load.
fn reject(rejects: &mut Option<Rejects>, bad: &BadRow) -> Result<(), Failure> {
    match rejects {
        Some(rejects) => rejects.add(bad),
        None => Err(bad
            .problem
            .at(bad.line)
            .advise("correct the row, or pass --reject-file to store all others")),
    }
}

fn ended_early() -> Failure {
    Failure::usage("reading ended for an unknown reason: report this as a bug")
}

/// A load that is running.
struct Load<'a, S> {
    store: &'a S,
    tally: Tally,
    rows: Rows,
    rejects: Option<Rejects>,
    progress: Progress,
}

/// Rows that are stored next.
#[derive(Default)]
struct Buffer {
    items: Vec<Item>,
    bad: Vec<BadRow>,
    end: Option<Option<Failure>>,
}

impl Buffer {
    /// Returns the failure if there is nothing else.
    fn with_rows(mut self) -> Result<Self, Failure> {
        match self.end.take() {
            Some(Some(failure)) if self.items.is_empty() && self.bad.is_empty() => Err(failure),
            end => Ok(Self { end, ..self }),
        }
    }
}

impl<S: Store> Load<'_, S> {
    /// Stores a buffer while the next one is read.
    async fn run(&mut self, first: Option<Buffer>, mut chunks: mpsc::Receiver<Vec<Message>>) -> Result<(), Failure> {
        let skips = self.rejects.is_some();
        let mut buffer = match first {
            Some(first) => first,
            None => fill(&mut chunks, skips).await,
        };
        loop {
            buffer.items.iter().for_each(|item| self.rows.add(item));
            let items = std::mem::take(&mut buffer.items);
            let next = async {
                match buffer.end {
                    None => Some(fill(&mut chunks, skips).await),
                    Some(_) => None,
                }
            };
            if skips {
                self.reject_all(&buffer.bad)?;
            }
            // A failure does not wait for more input.
            let ((), next) = futures::try_join!(self.store(items), async { Ok(next.await) })?;
            if !skips {
                self.reject_all(&buffer.bad).map_err(|failure| failure.advise(BEFORE))?;
            }
            match (buffer.end.take(), next) {
                (Some(Some(failure)), _) => return Err(failure.advise(BEFORE)),
                (None, Some(next)) => buffer = next,
                _ => return Ok(()),
            }
        }
    }

    fn reject_all(&mut self, bad: &[BadRow]) -> Result<(), Failure> {
        bad.iter().try_for_each(|bad| reject(&mut self.rejects, bad))
    }

    /// Stores the rows, several batches concurrently. After an error, the batches that have begun end, and no other
    /// begins.
    async fn store(&mut self, items: Vec<Item>) -> Result<(), Failure> {
        let (store, skips) = (self.store, self.rejects.is_some());
        let ended = Cell::new(false);
        let batches = store.batches(items).into_iter().take_while(|_| !ended.get());
        let mut stored = stream::iter(batches)
            .map(|batch| store_batch(store, batch, skips))
            .buffer_unordered(CONCURRENCY);
        let mut failure = None;
        while let Some(batch) = stored.next().await {
            if let Err(error) = self.add(batch) {
                ended.set(true);
                failure.get_or_insert(error);
            }
            self.progress.at(self.position());
        }
        failure.map_or(Ok(()), Err)
    }

    /// Returns the number of rows that are stored or rejected.
    fn position(&self) -> u64 {
        let rejected = self.rejects.as_ref().map_or(0, Rejects::total);
        self.tally.items + self.tally.stored_before + rejected
    }

    /// Counts a batch, and rejects the rows that the server refused.
    fn add(&mut self, batch: Stored) -> Result<(), Failure> {
        self.tally.add(&batch.tally);
        let mut items: Vec<Option<Item>> = batch.items.into_iter().map(Some).collect();
        for (position, problem) in batch.tally.refused {
            if let Some(item) = items.get_mut(position).and_then(Option::take) {
                let (line, raw) = (item.line, item.raw);
                reject(&mut self.rejects, &BadRow { line, problem, raw })
                    .map_err(|failure| self.interrupted(failure))?;
            }
        }
        let Some(error) = batch.error else {
            return Ok(());
        };
        let is_refused = error.is_setup_error() || error.kind() == ErrorKind::ServerSelection;
        let failure = Failure::from(error);
        Err(if is_refused { failure } else { self.interrupted(failure) })
    }

    /// Adds what to do after an interrupted load.
    fn interrupted(&self, failure: Failure) -> Failure {
        if self.rows.without_id == 0 {
            return failure.advise("run the command again: stored items are not stored twice");
        }
        failure.advise(&format!(
            "some items may be stored, and running the command again would store them twice; to make a load safe to retry, {}",
            self.store.advice()
        ))
    }
}

/// Reads rows until the buffer is full, the file ends, or a row is invalid and ends the load.
async fn fill(chunks: &mut mpsc::Receiver<Vec<Message>>, skips: bool) -> Buffer {
    let mut buffer = Buffer::default();
    let mut bytes = 0;
    while bytes < BUFFER_BYTES && buffer.end.is_none() {
        let Some(chunk) = chunks.recv().await else {
            buffer.end = Some(Some(ended_early()));
            break;
        };
        for message in chunk {
            bytes += message.bytes();
            match message {
                Message::Types(_) => {}
                Message::Item(item) => buffer.items.push(item),
                Message::Bad(bad) => {
                    buffer.bad.push(bad);
                    if !skips {
                        buffer.end = Some(None);
                        break;
                    }
                }
                Message::End(end) => buffer.end = Some(end),
            }
        }
    }
    buffer
}
