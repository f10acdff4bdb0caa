//! Reads and prepares the rows of a file in a thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc;

use super::item::{Item, Shape, item};
use super::options::{Format, LoadOptions};
use super::row::{BadRow, Row, Rows, Stop};
use super::{csv_rows, input, json_rows};
use crate::failure::Failure;

/// The most rows and bytes of a chunk, and the most chunks that are read ahead.
const CHUNK_ROWS: usize = 1000;
const CHUNK_BYTES: usize = 1024 * 1024;
const AHEAD: usize = 4;

/// What the thread sends.
#[derive(Debug)]
pub(super) enum Message {
    /// The types of the columns of CSV and TSV.
    Types(String),
    Item(Item),
    Bad(BadRow),
    /// The end of the file, or the failure that ended the reading. Nothing follows.
    End(Option<Failure>),
}

/// How the rows of a file are read.
#[derive(Clone)]
pub(super) struct Source {
    file: PathBuf,
    format: Format,
    shape: Arc<dyn Shape>,
    keep_raw: bool,
}

impl Source {
    pub(super) fn new(options: &LoadOptions, shape: Arc<dyn Shape>) -> Result<Self, Failure> {
        Ok(Self {
            file: options.file.clone(),
            format: options.format()?,
            shape,
            keep_raw: options.reject_file.is_some(),
        })
    }

    /// Reads in a separate thread that is never joined, because reading standard input can block forever.
    pub(super) fn start(&self) -> mpsc::Receiver<Vec<Message>> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let source = self.clone();
        thread::spawn(move || {
            let end = Message::End(source.send(&sender).err());
            // The receiver is dropped only when the program is about to end.
            let _ = sender.blocking_send(vec![end]);
        });
        receiver
    }

    fn send(&self, sender: &mpsc::Sender<Vec<Message>>) -> Result<(), Failure> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        let mut end = Ok(());
        let (rows, types) = self.rows()?;
        chunk.extend(types.map(Message::Types));
        for row in rows {
            let message = match row.and_then(|row| self.item(row)) {
                Ok(item) => Message::Item(item),
                Err(Stop::Row(bad)) => Message::Bad(bad),
                Err(Stop::End(failure)) => {
                    end = Err(failure);
                    break;
                }
            };
            bytes += message.bytes();
            chunk.push(message);
            if chunk.len() == CHUNK_ROWS || bytes >= CHUNK_BYTES {
                bytes = 0;
                if sender.blocking_send(std::mem::take(&mut chunk)).is_err() {
                    return Ok(());
                }
            }
        }
        let _ = sender.blocking_send(chunk);
        end
    }

    fn item(&self, row: Row) -> Result<Item, Stop> {
        let line = row.line;
        item(&*self.shape, row).map_err(|(problem, raw)| Stop::Row(BadRow { line, problem, raw }))
    }

    /// Returns the rows, and the types of their columns if they have any.
    fn rows(&self) -> Result<(Rows, Option<String>), Failure> {
        let input = input::open(&self.file)?;
        match &self.format {
            Format::Cells { delimiter, options } => {
                let (rows, types) = csv_rows::rows(input, *delimiter, options, &self.shape.roles(), self.keep_raw)?;
                Ok((rows, Some(types)))
            }
            Format::Json => Ok((json_rows::rows(input, self.keep_raw)?, None)),
        }
    }
}

impl Message {
    /// Returns about the number of bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Item(item) => item.bytes(),
            Self::Bad(bad) => bad.problem.text.len() + bad.raw.as_ref().map_or(0, String::len),
            Self::Types(_) | Self::End(_) => 0,
        }
    }
}
