//! Loads items from a file or standard input into buckets.

mod csv_rows;
mod json_rows;

use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, ValueEnum};
use futures::{Stream, stream};
use mongo_patterns_bucket::BucketRepository;
use mongo_patterns_core::{ErrorKind, Key};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawBson, Uuid};
use tokio::sync::{mpsc, oneshot};

use crate::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Summary;
use crate::progress::Progress;
use crate::settings::{BucketSettings, need};

/// The greatest size of the buffered items. A larger buffer needs fewer commands, but delays the first stored items and
/// their progress.
const BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// The file to load, and its format.
#[derive(Args, Debug)]
pub(crate) struct LoadOptions {
    /// The file; - is standard input.
    file: PathBuf,
    /// The format. By default from the file's extension: .csv, or .json, .ndjson, .jsonl.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The types of CSV columns, as COLUMN=TYPE, separated by commas: string, int, double, bool, date or objectid. The
    /// key and the time have their types, all other columns are strings by default.
    #[arg(long, value_name = "COLUMN=TYPE", value_delimiter = ',', value_parser = csv_rows::column_type)]
    types: Vec<(String, csv_rows::Type)>,
    /// Reads and checks all items, and stores nothing.
    #[arg(long)]
    dry_run: bool,
}

impl LoadOptions {
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Comma-separated values, with the column names in the first line. Empty cells are omitted.
    Csv,
    /// One document per line, as MongoDB extended JSON.
    Ndjson,
}

/// A document, with the line at which it begins.
struct Row {
    line: u64,
    document: Document,
}

type Rows = Box<dyn Iterator<Item = Result<Row, Failure>> + Send>;

/// A key that is parsed from text.
pub(crate) trait FromText: Sized {
    fn from_text(text: &str) -> Option<Self>;
}

impl FromText for i64 {
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl FromText for String {
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl FromText for ObjectId {
    fn from_text(text: &str) -> Option<Self> {
        Self::parse_str(text).ok()
    }
}

impl FromText for Uuid {
    fn from_text(text: &str) -> Option<Self> {
        Self::parse_str(text).ok()
    }
}

pub(crate) async fn run<K: Key + FromText>(
    context: &Context,
    buckets: &BucketRepository<K, Document>,
    settings: &BucketSettings,
    options: &LoadOptions,
) -> Outcome {
    let loading = Loading {
        file: options.file.clone(),
        format: format(options)?,
        types: options.types.clone(),
        key: need(settings.key.as_ref(), "bucket", "key")?.to_owned(),
        time: need(settings.time.as_ref(), "bucket", "time")?.to_owned(),
        item_id: settings.item_id.clone(),
    };
    let output = context.output;
    let namespace = buckets.collection().namespace().to_string();
    // A file is read twice, so that a file with an invalid line stores nothing.
    let mut total = None;
    if loading.is_file() || options.dry_run {
        let mut progress = Progress::new(output, "check", "items", None);
        let (mut items, failure) = loading.clone().start::<K>();
        let mut checked = 0;
        while items.recv().await.is_some() {
            checked += 1;
            progress.at(checked);
        }
        progress.end();
        if let Some(failure) = ended(failure).await {
            return Err(failure);
        }
        if options.dry_run {
            let summary = Summary::new("bucket load --dry-run", namespace).row("items", checked);
            output.summary(&summary, Exit::Success)?;
            return Ok(Exit::Success);
        }
        total = Some(checked);
    }
    buckets.ensure_indexes().await?;
    let mut progress = Progress::new(output, "load", "items", total);
    let (items, failure) = loading.start::<K>();
    let appended = buckets
        .append_stream(streamed(items))
        .buffer_bytes(BUFFER_BYTES)
        .on_progress(|at| progress.at(at.stored))
        .await;
    progress.end();
    let appended = appended.map_err(|error| interrupted(error, settings))?;
    let failure = ended(failure).await;
    let exit = failure.as_ref().map_or(Exit::Success, |failure| failure.exit);
    let summary = Summary::new("bucket load", namespace)
        .row("items", appended.items)
        .row("stored_before", appended.already_there)
        .row("buckets_opened", appended.opened);
    output.summary(&summary, exit)?;
    match failure {
        None => Ok(exit),
        Some(failure) => Err(failure.advise("the lines before it were stored")),
    }
}

/// Adds what to do after an interrupted load.
fn interrupted(error: mongo_patterns_core::Error, settings: &BucketSettings) -> Failure {
    let nothing = error.is_setup_error() || error.kind() == ErrorKind::ServerSelection;
    let failure = Failure::from(error);
    match (&settings.item_id, nothing) {
        (_, true) => failure,
        (Some(_), _) => failure.advise("run the command again: stored items are not stored twice"),
        (None, _) => failure.advise(
            "some items were stored, and running the command again would store them twice: pass --item-id to make a load safe to retry",
        ),
    }
}

fn format(options: &LoadOptions) -> Result<Format, Failure> {
    let extension = options.file.extension().and_then(|extension| extension.to_str());
    match (options.format, extension) {
        (Some(format), _) => Ok(format),
        (None, Some("csv")) => Ok(Format::Csv),
        (None, Some("json" | "ndjson" | "jsonl")) => Ok(Format::Ndjson),
        _ => Err(Failure::usage(
            "--format is missing, and the file has no known extension: pass csv or ndjson",
        )),
    }
}

/// Returns the failure that ended the reading, if any.
async fn ended(failure: oneshot::Receiver<Option<Failure>>) -> Option<Failure> {
    let unknown = |_| {
        Some(Failure::usage(
            "reading ended for an unknown reason: report this as a bug",
        ))
    };
    failure.await.unwrap_or_else(unknown)
}

fn streamed<T: Send>(items: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send {
    stream::unfold(items, async |mut items| Some((items.recv().await?, items)))
}

/// How the lines of a file become items.
#[derive(Clone)]
struct Loading {
    file: PathBuf,
    format: Format,
    types: Vec<(String, csv_rows::Type)>,
    key: String,
    time: String,
    item_id: Option<String>,
}

impl Loading {
    fn is_file(&self) -> bool {
        self.file != Path::new("-")
    }

    /// Reads in a separate thread that is never joined, because reading standard input can block forever. The items end
    /// at the first invalid line, and the second channel then returns the failure, if any.
    fn start<K: Key + FromText>(self) -> (mpsc::Receiver<(K, Document)>, oneshot::Receiver<Option<Failure>>) {
        const AHEAD: usize = 1000;
        let (items, receiver) = mpsc::channel(AHEAD);
        let (failure, failed) = oneshot::channel();
        thread::spawn(move || {
            // The receiver is dropped only when the program is about to end.
            let _ = failure.send(self.send(&items).err());
        });
        (receiver, failed)
    }

    fn send<K: Key + FromText>(&self, items: &mpsc::Sender<(K, Document)>) -> Result<(), Failure> {
        for row in self.rows()? {
            if items.blocking_send(self.item(row?)?).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn rows(&self) -> Result<Rows, Failure> {
        let file = &self.file;
        let input: Box<dyn Read + Send> = if self.is_file() {
            let opened = File::open(file);
            Box::new(opened.map_err(|error| Failure::usage(format!("the file {}: {error}", file.display())))?)
        } else {
            Box::new(stdin())
        };
        let input = BufReader::with_capacity(1 << 20, input);
        match self.format {
            Format::Csv => csv_rows::rows(input, &self.types),
            Format::Ndjson => Ok(json_rows::rows(input)),
        }
    }

    /// Returns the key and the item of a row.
    fn item<K: Key + FromText>(&self, row: Row) -> Result<(K, Document), Failure> {
        let Row { line, mut document } = row;
        let bad = |field: &str, what: &str| bad_line(line, &format!("the field `{field}` {what}"));
        let key = document
            .remove(&self.key)
            .ok_or_else(|| bad(&self.key, "is missing: it is the key"))?;
        let key: K =
            key_of(&key).ok_or_else(|| bad(&self.key, "is not a key of the expected type: check --key-type"))?;
        let time = match document.get(&self.time) {
            Some(Bson::DateTime(time)) => Some(*time),
            Some(Bson::String(text)) => time(text),
            _ => None,
        };
        let time = time.ok_or_else(|| bad(&self.time, "is not a date, such as 2023-10-26T15:47:03Z"))?;
        document.insert(&self.time, time);
        if let Some(field) = self.item_id.as_ref().filter(|field| !document.contains_key(field)) {
            return Err(bad(field, "is missing: it identifies the item"));
        }
        Ok((key, document))
    }
}

fn key_of<K: Key + FromText>(value: &Bson) -> Option<K> {
    if let Ok(raw) = RawBson::try_from(value.clone())
        && let Some(key) = K::from_stored(raw.as_raw_bson_ref())
    {
        return Some(key);
    }
    value.as_str().and_then(K::from_text)
}

fn bad_line(line: u64, what: &str) -> Failure {
    Failure::new(Exit::Findings, format!("line {line}: {what}"))
}

/// Parses RFC 3339, a date, or a date and a time in UTC.
fn time(text: &str) -> Option<DateTime> {
    let text = text.trim();
    let full = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        19 => format!("{}Z", text.replacen(' ', "T", 1)),
        _ => text.to_owned(),
    };
    DateTime::parse_rfc3339_str(full).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_in_several_formats() {
        let second = DateTime::from_millis(1_698_335_223_000);
        for text in [
            "2023-10-26T15:47:03Z",
            "2023-10-26 15:47:03",
            "2023-10-26T17:47:03+02:00",
        ] {
            assert_eq!(time(text), Some(second), "{text}");
        }
        assert_eq!(time("2023-10-26"), Some(DateTime::from_millis(1_698_278_400_000)));
        assert_eq!(time("yesterday"), None);
    }

    #[test]
    fn a_key_is_parsed_from_text_and_from_values() {
        assert_eq!(key_of::<i64>(&"12".into()), Some(12));
        assert_eq!(key_of::<i64>(&Bson::Double(12.0)), Some(12));
        assert_eq!(key_of::<i64>(&"twelve".into()), None);
        assert_eq!(key_of::<String>(&"a_b".into()), Some("a_b".to_owned()));
    }
}
