//! Reads documents from newline-delimited extended JSON.

use std::io::BufRead;

use mongodb::bson::{Bson, Document};

use super::{Row, Rows, bad_line};
use crate::failure::Failure;

pub(super) fn rows(input: impl BufRead + Send + 'static) -> Rows {
    let lines = (1..).zip(input.lines());
    Box::new(lines.filter_map(|(line, text)| match text {
        Ok(text) if text.trim().is_empty() => None,
        Ok(text) => Some(row(line, &text)),
        Err(_) => Some(Err(bad_line(line, "it cannot be read, or is not UTF-8"))),
    }))
}

fn row(line: u64, text: &str) -> Result<Row, Failure> {
    // The error's own text can quote a value.
    let bad = |error: serde_json::Error| {
        bad_line(
            line,
            &format!("it is not a JSON document, at column {}", error.column()),
        )
    };
    let mut document: Document = serde_json::from_str(text).map_err(bad)?;
    for (_, value) in document.iter_mut() {
        narrow(value);
    }
    Ok(Row { line, document })
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
    use mongodb::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn extended_json_preserves_types_and_order() {
        let text = "{\"z\": 1, \"a\": {\"$date\": \"1970-01-01T00:00:01Z\"}, \"n\": -5, \"l\": [5000000000, 1.5]}\n\n{\"b\": null}";
        let read: Vec<_> = rows(text.as_bytes()).map(|row| row.unwrap()).collect();
        let first = doc! { "z": 1, "a": DateTime::from_millis(1000), "n": -5, "l": [5_000_000_000_i64, 1.5] };
        assert_eq!(read[0].document, first);
        assert_eq!(read[0].document.keys().collect::<Vec<_>>(), ["z", "a", "n", "l"]);
        assert_eq!((read[1].line, &read[1].document), (3, &doc! { "b": null }));
    }

    #[test]
    fn the_error_for_an_invalid_line_names_it() {
        let failure = rows("{}\n{\"a\": secret}".as_bytes())
            .last()
            .unwrap()
            .map(|_| ())
            .unwrap_err();
        assert!(
            failure.text.starts_with("line 2") && !failure.text.contains("secret"),
            "{}",
            failure.text
        );
    }
}
