//! Reads documents from JSON: one per line, or one array. Values are MongoDB extended JSON.
//!
//! # Design
//!
//! ## Why is an array split before it is parsed?
//!
//! serde_json streams values that white space separates, but not the elements of an array. Here the ends of an element
//! are found by its brackets and strings, and serde_json parses the element. So one document is in memory, each has its
//! line, and the elements after an invalid one are read.

use std::io::{self, BufRead, Read};

use mongodb::bson::{Bson, Document};

use super::problem::{Problem, Reason, unreadable};
use super::row::{BadRow, MAX_BYTES, Row, Rows, Stop, raw};
use crate::failure::{Exit, Failure};

pub(super) fn rows(mut input: impl BufRead + Send + 'static, keep_raw: bool) -> Result<Rows, Failure> {
    let mut line = 1;
    let first = skip_space(&mut input, &mut line).map_err(|error| unreadable(line, &error))?;
    if first == Some(b'[') {
        input.consume(1);
        return Ok(Box::new(Array {
            input,
            line,
            state: State::First,
            keep_raw,
        }));
    }
    Ok(Box::new(Lines { input, line, keep_raw }))
}

/// Skips white space. Returns the next byte, if there is one, without consuming it.
fn skip_space(input: &mut impl BufRead, line: &mut u64) -> io::Result<Option<u8>> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let spaces = buffer.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        *line += buffer[..spaces].iter().filter(|byte| **byte == b'\n').count() as u64;
        let next = buffer.get(spaces).copied();
        input.consume(spaces);
        if next.is_some() {
            return Ok(next);
        }
    }
}

/// The documents of an input with one per line.
struct Lines<R> {
    input: R,
    line: u64,
    keep_raw: bool,
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Row, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.line;
            let mut text = Vec::new();
            let limit = MAX_BYTES as u64 + 1;
            match self.input.by_ref().take(limit).read_until(b'\n', &mut text) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    // The next call returns the end.
                    self.line = 0;
                    return (line > 0).then(|| Err(Stop::End(unreadable(line, &error))));
                }
            }
            self.line += 1;
            if text.len() > MAX_BYTES && !text.ends_with(b"\n") {
                return Some(Err(Stop::End(too_long(line))));
            }
            if !text.trim_ascii().is_empty() {
                return Some(row(line, &text, self.keep_raw));
            }
        }
    }
}

/// The documents of an array.
struct Array<R> {
    input: R,
    line: u64,
    state: State,
    keep_raw: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// After the opening bracket.
    First,
    /// After an element.
    Next,
    End,
}

impl<R: BufRead> Array<R> {
    /// Returns the next element with its line. `None` at the end of the array.
    fn element(&mut self) -> Result<Option<(u64, Vec<u8>)>, Failure> {
        let next = self.peek()?;
        match (self.state, next) {
            (State::First | State::Next, Some(b']')) => {
                self.input.consume(1);
                return match self.peek()? {
                    None => Ok(None),
                    Some(_) => Err(invalid(self.line, "there is text after the end of the array")),
                };
            }
            (State::Next, Some(b',')) => {
                self.input.consume(1);
                if matches!(self.peek()?, Some(b']' | b',') | None) {
                    return Err(invalid(self.line, "a document is missing after a comma"));
                }
            }
            (State::First, Some(b',')) => return Err(invalid(self.line, "a document is missing before a comma")),
            (State::First, Some(_)) => {}
            (_, Some(_)) => return Err(invalid(self.line, "a comma is missing between two documents")),
            (_, None) => return Err(invalid(self.line, "the file ends before the end of the array")),
        }
        self.state = State::Next;
        let line = self.line;
        let mut text = Vec::new();
        let mut end = End::default();
        loop {
            let buffer = self.input.fill_buf().map_err(|error| unreadable(self.line, &error))?;
            if buffer.is_empty() && end.is_complete {
                return Ok(Some((line, text)));
            }
            if buffer.is_empty() {
                return Err(invalid(line, "the file ends inside the document that begins here"));
            }
            let length = buffer.iter().take_while(|byte| !end.is_before(**byte)).count();
            let is_complete = length < buffer.len();
            let consumed = &buffer[..length];
            self.line += consumed.iter().filter(|byte| **byte == b'\n').count() as u64;
            text.extend_from_slice(consumed);
            self.input.consume(length);
            if is_complete {
                return Ok(Some((line, text)));
            }
            if text.len() > MAX_BYTES {
                return Err(too_long(line));
            }
        }
    }

    fn peek(&mut self) -> Result<Option<u8>, Failure> {
        skip_space(&mut self.input, &mut self.line).map_err(|error| unreadable(self.line, &error))
    }
}

impl<R: BufRead> Iterator for Array<R> {
    type Item = Result<Row, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::End {
            return None;
        }
        match self.element() {
            Ok(Some((line, text))) => Some(row(line, &text, self.keep_raw)),
            ended => {
                self.state = State::End;
                ended.err().map(|failure| Err(Stop::End(failure)))
            }
        }
    }
}

/// Finds the end of an element: its last bracket or quotation mark, or what follows another value.
#[derive(Default)]
struct End {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The element has ended with the last byte.
    is_complete: bool,
}

impl End {
    /// Returns whether the element ended before this byte.
    fn is_before(&mut self, byte: u8) -> bool {
        if self.is_complete {
            return true;
        }
        if self.in_string {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            self.is_escaped = byte == b'\\' && !is_escaped;
            self.in_string = byte != b'"' || is_escaped;
            self.is_complete = !self.in_string && self.depth == 0;
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth > 0 => {
                self.depth -= 1;
                self.is_complete = self.depth == 0;
            }
            b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' => return self.depth == 0,
            _ => {}
        }
        false
    }
}

fn invalid(line: u64, what: &str) -> Failure {
    Failure::new(Exit::Findings, format!("line {line}: {what}"))
}

fn too_long(line: u64) -> Failure {
    invalid(line, "the document that begins here exceeds 256 MiB")
}

fn row(line: u64, text: &[u8], keep_raw: bool) -> Result<Row, Stop> {
    let raw = raw(text, keep_raw);
    match serde_json::from_slice::<Document>(text) {
        Ok(mut document) => {
            document.iter_mut().for_each(|(_, value)| narrow(value));
            Ok(Row { line, document, raw })
        }
        // The error's own text can quote a value.
        Err(error) => {
            let at = match (error.line(), error.column()) {
                (0, _) => String::new(),
                (1, column) => format!(", at column {column}"),
                (inner, column) => format!(", at line {} column {column}", line + inner as u64 - 1),
            };
            let text = format!("it is not a JSON document{at}: pass one document per line, or one array of them");
            let problem = Problem::new(Reason::Unreadable, text);
            Err(Stop::Row(BadRow { line, problem, raw }))
        }
    }
}

/// Converts each integer that fits to an int32, negative integers also.
fn narrow(value: &mut Bson) {
    match value {
        Bson::Int64(number) => {
            if let Ok(number) = i32::try_from(*number) {
                *value = Bson::Int32(number);
            }
        }
        Bson::Array(values) => values.iter_mut().for_each(narrow),
        Bson::Document(document) => document.iter_mut().for_each(|(_, value)| narrow(value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use mongodb::bson::{DateTime, doc};

    use super::*;

    /// Returns the lines of valid documents, and the texts of all errors, for any size of the buffer.
    fn read(text: &'static str) -> (Vec<u64>, Vec<String>) {
        let of_capacity = |capacity| {
            let (mut lines, mut errors) = (Vec::new(), Vec::new());
            for row in rows(BufReader::with_capacity(capacity, text.as_bytes()), true).unwrap() {
                match row {
                    Ok(row) => lines.push(row.line),
                    Err(Stop::Row(bad)) => errors.push(bad.problem.at(bad.line).text),
                    Err(Stop::End(failure)) => errors.push(failure.text),
                }
            }
            assert!(errors.iter().all(|error| !error.contains("secret")), "{errors:?}");
            (lines, errors)
        };
        let expected = of_capacity(1);
        for capacity in [2, 3, 7, 1000] {
            assert_eq!(of_capacity(capacity), expected, "{capacity}");
        }
        expected
    }

    #[test]
    fn extended_json_preserves_types_and_order() {
        let text = "{\"z\": 1, \"a\": {\"$date\": \"1970-01-01T00:00:01Z\"}, \"n\": -5, \"l\": [5000000000, 1.5]}\r\n\r\n{\"b\": null}";
        let read: Vec<_> = rows(text.as_bytes(), false).unwrap().map(|row| row.unwrap()).collect();
        let first = doc! { "z": 1, "a": DateTime::from_millis(1000), "n": -5, "l": [5_000_000_000_i64, 1.5] };
        assert_eq!(read[0].document, first);
        assert_eq!(read[0].document.keys().collect::<Vec<_>>(), ["z", "a", "n", "l"]);
        assert_eq!((read[1].line, &read[1].document), (3, &doc! { "b": null }));
    }

    #[test]
    fn the_documents_of_an_array_are_read_one_by_one() {
        let text = "\n[ {\"a\": [1, {\"b\": \"]},\\\"\\\\\"}]},\r\n{\n\"a\": 2\n}\n , {} ]\n";
        assert_eq!(read(text), (vec![2, 3, 6], vec![]));
        let documents: Vec<_> = rows(text.as_bytes(), false)
            .unwrap()
            .map(|row| row.unwrap().document)
            .collect();
        let first = doc! { "a": [1, { "b": "]},\"\\" }] };
        assert_eq!(documents, [first, doc! { "a": 2 }, doc! {}]);
        assert_eq!(read("[]"), (vec![], vec![]));
        assert_eq!(read(""), (vec![], vec![]));
    }

    #[test]
    fn an_invalid_element_does_not_end_an_array() {
        let (lines, errors) = read("[{\"a\": 1},\n{\"a\": secret},\n17,\n\"}\",\n{\"a\": 2}]");
        assert_eq!(lines, [1, 5]);
        assert_eq!(errors.len(), 3);
        assert!(errors[0].starts_with("line 2: it is not a JSON document"), "{errors:?}");
    }

    #[test]
    fn an_array_that_cannot_be_split_ends_with_its_line() {
        for (text, line, what) in [
            ("[{}\n{}]", "line 2", "comma"),
            ("[{},\n]", "line 2", "missing"),
            ("[,{}]", "line 1", "missing"),
            ("[\n{}\n", "line 3", "ends before"),
            ("[{}", "line 1", "ends before"),
            ("[{}}]", "line 1", "comma"),
            ("[\n{\"a\":\n", "line 2", "ends inside"),
            ("[]\n{}", "line 2", "after"),
        ] {
            let (_, errors) = read(text);
            assert_eq!(errors.len(), 1, "{text}");
            assert!(
                errors[0].contains(line) && errors[0].contains(what),
                "{text}: {errors:?}"
            );
        }
    }

    #[test]
    fn the_error_for_an_invalid_line_names_it() {
        let (lines, errors) = read("{}\r\n{\"a\": secret}\r\n{}");
        assert_eq!(lines, [1, 3]);
        assert!(errors[0].starts_with("line 2"), "{errors:?}");
    }
}
