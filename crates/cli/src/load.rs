//! Items from a file or standard input into buckets.

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

/// How much is held at a time. With more, fewer commands do, and little is stored and seen to be before the end.
const BUFFER_BYTES: usize = 16 * 1024 * 1024;

/// What is loaded, and how it is read.
#[derive(Args, Debug)]
pub(crate) struct LoadOptions {
    /// The file; - is standard input.
    file: PathBuf,
    /// What is in it. By default by the file's name: .csv, or .json, .ndjson, .jsonl.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The type of a column of CSV, as COLUMN=TYPE, with commas: string, int, double, bool, date or objectid. The key and
    /// the time have theirs already, and all others are strings.
    #[arg(long, value_name = "COLUMN=TYPE", value_delimiter = ',', value_parser = csv_rows::column_type)]
    types: Vec<(String, csv_rows::Type)>,
    /// Reads and checks everything, and stores nothing.
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
    /// Comma-separated values, with the names of the columns in the first line. Empty ones are left out.
    Csv,
    /// A document a line, as MongoDB's extended JSON.
    Ndjson,
}

/// A document, and the line that it begins at.
struct Row {
    line: u64,
    document: Document,
}

type Rows = Box<dyn Iterator<Item = Result<Row, Failure>> + Send>;

/// Keys as text has them.
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
    // A file is read twice, so that nothing is stored of one with a bad line.
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
            output.summary(&summary, Exit::Well)?;
            return Ok(Exit::Well);
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
    let exit = failure.as_ref().map_or(Exit::Well, |failure| failure.exit);
    let summary = Summary::new("bucket load", namespace)
        .row("items", appended.items)
        .row("stored_before", appended.already_there)
        .row("buckets_opened", appended.opened);
    output.summary(&summary, exit)?;
    match failure {
        None => Ok(exit),
        Some(failure) => Err(failure.advise("the lines before it are stored")),
    }
}

/// What can be done after a load that broke off.
fn interrupted(error: mongo_patterns_core::Error, settings: &BucketSettings) -> Failure {
    let nothing = error.is_setup_error() || error.kind() == ErrorKind::ServerSelection;
    let failure = Failure::from(error);
    match (&settings.item_id, nothing) {
        (_, true) => failure,
        (Some(_), _) => failure.advise("run it again: what is stored is not stored again"),
        (None, _) => failure.advise(
            "items were stored up to here, and running it again would store them twice: set --item-id before a load that may break off",
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
            "--format is missing, and the file's name does not tell: pass csv or ndjson",
        )),
    }
}

/// How the reading ended.
async fn ended(failure: oneshot::Receiver<Option<Failure>>) -> Option<Failure> {
    let unknown = |_| {
        Some(Failure::usage(
            "reading broke off for a reason that it did not tell: report it",
        ))
    };
    failure.await.unwrap_or_else(unknown)
}

fn streamed<T: Send>(items: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send {
    stream::unfold(items, async |mut items| Some((items.recv().await?, items)))
}

/// How a file becomes items.
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

    /// Reads in a thread of its own, which nobody waits for: reading standard input can take for ever. The items end at
    /// the first row that is none, and then comes the failure, if there is one.
    fn start<K: Key + FromText>(self) -> (mpsc::Receiver<(K, Document)>, oneshot::Receiver<Option<Failure>>) {
        const AHEAD: usize = 1000;
        let (items, receiver) = mpsc::channel(AHEAD);
        let (failure, failed) = oneshot::channel();
        thread::spawn(move || {
            // Where nobody asks any more, the program is about to end.
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

    /// Key and item of a row.
    fn item<K: Key + FromText>(&self, row: Row) -> Result<(K, Document), Failure> {
        let Row { line, mut document } = row;
        let bad = |field: &str, what: &str| bad_line(line, &format!("the field `{field}` {what}"));
        let key = document
            .remove(&self.key)
            .ok_or_else(|| bad(&self.key, "is missing: it holds the key"))?;
        let key: K = key_of(&key).ok_or_else(|| bad(&self.key, "is no key of the type: see --key-type"))?;
        let time = match document.get(&self.time) {
            Some(Bson::DateTime(time)) => Some(*time),
            Some(Bson::String(text)) => time(text),
            _ => None,
        };
        let time = time.ok_or_else(|| bad(&self.time, "is no date, such as 2023-10-26T15:47:03Z"))?;
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

/// RFC 3339, or a day, or a day and a time, in UTC.
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
    fn times_are_read_as_people_write_them() {
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
    fn a_key_is_read_from_text_and_from_values() {
        assert_eq!(key_of::<i64>(&"12".into()), Some(12));
        assert_eq!(key_of::<i64>(&Bson::Double(12.0)), Some(12));
        assert_eq!(key_of::<i64>(&"twelve".into()), None);
        assert_eq!(key_of::<String>(&"a_b".into()), Some("a_b".to_owned()));
    }
}
