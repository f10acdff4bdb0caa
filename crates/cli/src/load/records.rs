//! Reads the records of CSV and TSV, each with the line at which it begins.
//!
//! # Design
//!
//! ## Why csv-core and not csv?
//!
//! In a file with CRLF, csv's reader reports each record one line too early, and with blank lines earlier still. An
//! operator opens the file at the reported line. Here the line ends between records are counted before the parser gets
//! them. The parser is the same.

use std::io::BufRead;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::problem::{Problem, Reason, unreadable};
use super::row::{BadRow, MAX_BYTES, Stop, raw};
use crate::failure::{Exit, Failure};

/// A record: its cells, and the line at which it begins.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) line: u64,
    text: String,
    ends: Vec<usize>,
    pub(super) raw: Option<String>,
}

impl Record {
    pub(super) fn cells(&self) -> impl ExactSizeIterator<Item = &str> {
        let start = |cell: usize| if cell == 0 { 0 } else { self.ends[cell - 1] };
        (0..self.ends.len()).map(move |cell| &self.text[start(cell)..self.ends[cell]])
    }

    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// The records of an input.
pub(super) struct Records<R> {
    input: R,
    parser: Reader,
    /// The line of the next byte, from 1.
    line: u64,
    /// Whether the last byte was a carriage return that ended a line, so that a line feed belongs to it.
    after_return: bool,
    text: Vec<u8>,
    ends: Vec<usize>,
    keep_raw: bool,
    is_done: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, delimiter: u8, keep_raw: bool) -> Self {
        Self {
            input,
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            line: 1,
            after_return: false,
            text: vec![0; 1024],
            ends: vec![0; 64],
            keep_raw,
            is_done: false,
        }
    }

    /// Consumes the line ends before a record. Returns whether a record follows.
    fn skip_line_ends(&mut self) -> std::io::Result<bool> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(false);
            }
            let ends = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            for &byte in &buffer[..ends] {
                self.line += u64::from(byte == b'\r' || !self.after_return);
                self.after_return = byte == b'\r';
            }
            let is_at_record = ends < buffer.len();
            self.input.consume(ends);
            if is_at_record {
                return Ok(true);
            }
        }
    }

    /// Reads the record that begins at the next byte.
    fn record(&mut self) -> Result<Record, Stop> {
        let line = self.line;
        let (mut length, mut cells, mut bytes, mut line_feeds) = (0, 0, 0, 0);
        let mut quotes = 0_usize;
        let mut last = None;
        let mut kept = Vec::new();
        loop {
            let buffer = self
                .input
                .fill_buf()
                .map_err(|error| Stop::End(unreadable(line, &error)))?;
            let (result, read, written, ended) =
                self.parser
                    .read_record(buffer, &mut self.text[length..], &mut self.ends[cells..]);
            let consumed = &buffer[..read];
            line_feeds += consumed.iter().filter(|byte| **byte == b'\n').count() as u64;
            quotes += consumed.iter().filter(|byte| **byte == b'"').count();
            last = consumed.last().copied().or(last);
            if self.keep_raw {
                kept.extend_from_slice(consumed);
            }
            let is_end = buffer.is_empty();
            self.input.consume(read);
            (length, cells, bytes) = (length + written, cells + ended, bytes + read);
            match result {
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => {
                    self.line += line_feeds + u64::from(last == Some(b'\r'));
                    self.after_return = last == Some(b'\r');
                    // The end of the file closes an open quotation.
                    if is_end && line_feeds > 0 && quotes % 2 == 1 {
                        return Err(Stop::End(unclosed(line, "is not closed before the end of the file")));
                    }
                    break;
                }
            }
            if bytes > MAX_BYTES {
                return Err(Stop::End(unclosed(line, "may not be closed: the row exceeds 256 MiB")));
            }
        }
        let (ends, raw) = (self.ends[..cells].to_vec(), raw(&kept, self.keep_raw));
        let text = std::str::from_utf8(&self.text[..length])
            .ok()
            .filter(|text| ends.iter().all(|end| text.is_char_boundary(*end)));
        match text {
            Some(text) => Ok(Record {
                line,
                text: text.to_owned(),
                ends,
                raw,
            }),
            None => Err(Stop::Row(BadRow {
                line,
                problem: Problem::new(Reason::Unreadable, "it is not UTF-8: convert the file"),
                raw,
            })),
        }
    }
}

fn unclosed(line: u64, what: &str) -> Failure {
    Failure::new(
        Exit::Findings,
        format!("line {line}: a quotation mark in the row that begins here {what}"),
    )
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let record = match self.skip_line_ends() {
            Ok(true) => self.record(),
            Ok(false) => {
                self.is_done = true;
                return None;
            }
            Err(error) => Err(Stop::End(unreadable(self.line, &error))),
        };
        self.is_done = matches!(record, Err(Stop::End(_)));
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// Returns the lines and cells, for any size of the buffer.
    fn read(text: &[u8]) -> Vec<(u64, Vec<String>)> {
        let of_capacity = |capacity| {
            let records = Records::new(BufReader::with_capacity(capacity, text), b',', true);
            let records = records.map(|record| record.unwrap());
            let records: Vec<_> = records
                .map(|record| (record.line, record.cells().map(str::to_owned).collect()))
                .collect();
            records
        };
        let expected = of_capacity(1);
        for capacity in [2, 3, 5, 7, 64] {
            assert_eq!(of_capacity(capacity), expected, "{capacity}");
        }
        expected
    }

    fn lines(text: &str) -> Vec<u64> {
        read(text.as_bytes()).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn lines_are_those_of_the_file_with_any_line_ends() {
        assert_eq!(lines("a\nb\nc"), [1, 2, 3]);
        assert_eq!(lines("a\r\nb\r\nc\r\n"), [1, 2, 3]);
        assert_eq!(lines("a\rb\rc"), [1, 2, 3]);
        assert_eq!(lines("\r\n\r\na\r\n\r\nb\n\nc\n"), [3, 5, 7]);
        assert_eq!(lines("a,\"x\r\ny\"\r\nb\r\n\"p\n\nq\",r\r\nc"), [1, 3, 4, 7]);
        assert_eq!(lines(""), [0; 0]);
    }

    #[test]
    fn cells_are_separated_and_quotes_removed() {
        let cells = read(b"a,\"b, \"\"c\"\"\",\n\"x\ny\",,z\n");
        assert_eq!(cells[0].1, ["a", "b, \"c\"", ""]);
        assert_eq!(cells[1].1, ["x\ny", "", "z"]);
    }

    #[test]
    fn any_cells_are_returned_with_their_lines() {
        let ends = ["\n", "\r\n", "\r"];
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let end = ends[random.usize(..3)];
            let (mut text, mut line, mut expected) = (String::new(), 1, Vec::new());
            for _ in 0..random.usize(..20) {
                // A line end of a cell is that of the file, except a lone carriage return, which is no line end there.
                let parts = ["a", "é", ",", "\"", "", if end == "\r" { "\n" } else { end }];
                let cell = |random: &mut fastrand::Rng| -> String {
                    (0..random.usize(..4)).map(|_| parts[random.usize(..6)]).collect()
                };
                let cells: Vec<String> = (0..random.usize(2..5)).map(|_| cell(&mut random)).collect();
                let quoted: Vec<_> = cells
                    .iter()
                    .map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")))
                    .collect();
                let blank = random.usize(..3);
                text.push_str(&end.repeat(blank));
                line += blank as u64;
                text.push_str(&quoted.join(","));
                text.push_str(end);
                let inner = cells.iter().map(|cell| cell.matches('\n').count() as u64).sum::<u64>();
                expected.push((line, cells));
                line += inner + 1;
            }
            assert_eq!(read(text.as_bytes()), expected, "seed {seed}: {text:?}");
        }
    }

    #[test]
    fn a_row_that_is_not_utf_8_is_skipped() {
        let mut records = Records::new(&b"a\n\xff,b\nc\n"[..], b',', true);
        assert!(records.next().unwrap().is_ok());
        let Some(Err(Stop::Row(bad))) = records.next() else {
            panic!("the second row is invalid");
        };
        assert_eq!((bad.line, bad.problem.reason), (2, Reason::Unreadable));
        assert_eq!(records.next().unwrap().unwrap().line, 3);
        // The bytes of two cells are a character only together.
        let mut records = Records::new(&b"\xc3,\xa9\n"[..], b',', false);
        assert!(matches!(records.next(), Some(Err(Stop::Row(_)))));
    }

    #[test]
    fn a_quotation_mark_that_is_not_closed_is_reported_with_its_line() {
        let mut records = Records::new(&b"a,b\r\n1,2\r\n3,\"x\r\n4,5\r\n"[..], b',', false);
        let last = records.by_ref().last().unwrap();
        let Err(Stop::End(failure)) = last else {
            panic!("{last:?}");
        };
        assert!(failure.text.starts_with("line 3: "), "{}", failure.text);
        assert!(records.next().is_none());
        assert_eq!(lines("a\n5\" pipe"), [1, 2]);
    }
}
