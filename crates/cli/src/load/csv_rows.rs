//! Reads documents from CSV or TSV. The column names are the field names.

use std::io::BufRead;

use super::columns::{CellOptions, Columns};
use super::item::Role;
use super::records::{Record, Records};
use super::row::{BadRow, Row, Rows, Stop};
use crate::failure::{Exit, Failure};

/// The sample from which types are inferred.
const SAMPLE_ROWS: usize = 1000;
const SAMPLE_BYTES: usize = 16 * 1024 * 1024;

/// Returns the rows, and the types of the columns.
pub(super) fn rows(
    input: impl BufRead + Send + 'static,
    delimiter: u8,
    options: &CellOptions,
    roles: &[Role],
    keep_raw: bool,
) -> Result<(Rows, String), Failure> {
    let mut records = Records::new(input, delimiter, keep_raw);
    let header = match records.next() {
        Some(Ok(header)) => header,
        Some(Err(Stop::End(failure))) => return Err(failure),
        Some(Err(Stop::Row(bad))) => return Err(bad.problem.at(bad.line)),
        None => {
            return Err(Failure::new(
                Exit::Findings,
                "the file is empty: its first line must be a header with the names of the columns",
            ));
        }
    };
    let mut sample: Vec<Result<Record, Stop>> = Vec::new();
    let mut bytes = 0;
    while sample.len() < SAMPLE_ROWS && bytes < SAMPLE_BYTES && !options.no_inference {
        let Some(record) = records.next() else { break };
        bytes += record.as_ref().map_or(0, Record::bytes);
        sample.push(record);
    }
    let columns = Columns::new(
        &header,
        sample.iter().filter_map(|record| record.as_ref().ok()),
        options,
        roles,
    )?;
    let types = columns.types();
    let rows = sample.into_iter().chain(records).map(move |record| {
        let record = record?;
        match columns.document(&record) {
            Ok(document) => Ok(Row {
                line: record.line,
                document,
                raw: record.raw,
            }),
            Err(problem) => Err(Stop::Row(BadRow {
                line: record.line,
                problem,
                raw: record.raw,
            })),
        }
    });
    Ok((Box::new(rows), types))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, Document, doc};

    use super::super::types::{Type, column_format, column_type};
    use super::*;

    fn options(types: &[&str]) -> CellOptions {
        CellOptions {
            types: types.iter().map(|text| column_type(text).unwrap()).collect(),
            ..CellOptions::default()
        }
    }

    fn read(text: &'static str, options: &CellOptions) -> Result<Vec<Document>, Failure> {
        let (rows, _) = rows(text.as_bytes(), b',', options, &[], true)?;
        rows.map(|row| match row {
            Ok(row) => Ok(row.document),
            Err(Stop::Row(bad)) => Err(bad.problem.at(bad.line)),
            Err(Stop::End(failure)) => Err(failure),
        })
        .collect()
    }

    #[track_caller]
    fn refused(text: &'static str, options: &CellOptions, parts: &[&str]) {
        let failure = read(text, options).unwrap_err();
        assert!(parts.iter().all(|part| failure.text.contains(part)), "{}", failure.text);
        assert!(!failure.text.contains("secret"), "{}", failure.text);
    }

    #[test]
    fn columns_have_types_and_empty_cells_are_omitted() {
        let set = read("a,b,c\n1,x,2.5\n-7,,\"1\"\n", &options(&["a:int", "c:double"])).unwrap();
        let inferred = read("a,b,c\n1,x,2.5\n-7,,\"1\"\n", &CellOptions::default()).unwrap();
        assert_eq!(set, [doc! { "a": 1, "b": "x", "c": 2.5 }, doc! { "a": -7, "c": 1.0 }]);
        assert_eq!(inferred, set);
        let strings = CellOptions {
            no_inference: true,
            ..CellOptions::default()
        };
        assert_eq!(read("a,b\n1,x\n", &strings).unwrap(), [doc! { "a": "1", "b": "x" }]);
    }

    #[test]
    fn null_values_are_omitted_and_do_not_change_the_type() {
        let nulls = CellOptions {
            nulls: vec!["NA".to_owned(), "-".to_owned()],
            ..CellOptions::default()
        };
        let read = read("a,b\nNA,x\n1,-\n", &nulls).unwrap();
        assert_eq!(read, [doc! { "b": "x" }, doc! { "a": 1 }]);
    }

    #[test]
    fn dates_have_a_format() {
        let dates = CellOptions {
            formats: vec![column_format("d=%d.%m.%Y").unwrap()],
            ..CellOptions::default()
        };
        let midnight = DateTime::from_millis(1_698_278_400_000);
        assert_eq!(read("d\n26.10.2023\n", &dates).unwrap(), [doc! { "d": midnight }]);
        refused("d\n26.10.2023\nsecret\n", &dates, &["line 3", "`d`", "--date-format"]);
        refused("d\n26.10.2023\n", &options(&["d:date"]), &["'d=%d.%m.%Y'"]);
        let both = CellOptions {
            types: vec![("d".to_owned(), Type::Int)],
            ..dates
        };
        refused("d\n1\n", &both, &["`d`", "--date-format"]);
    }

    #[test]
    fn the_error_for_an_invalid_cell_names_line_and_column_and_not_the_value() {
        refused("a,b\n1,x\nsecret,y\n", &options(&["a:int"]), &["line 3", "`a`"]);
        refused("a,b\n1\n", &CellOptions::default(), &["line 2", "columns is 1"]);
        assert_eq!(read("a\n1\n", &options(&["z:int"])).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_value_after_the_sample_must_have_the_inferred_type() {
        let mut text = "a\n".to_owned();
        (0..SAMPLE_ROWS).for_each(|n| text.push_str(&format!("{n}\n")));
        text.push_str("secret\n");
        let text: &'static str = text.leak();
        refused(
            text,
            &CellOptions::default(),
            &["line 1002", "`a`", "--types 'a:string'"],
        );
        assert_eq!(read(text, &options(&["a:string"])).unwrap().len(), SAMPLE_ROWS + 1);
    }

    #[test]
    fn names_that_cannot_be_fields_are_refused_with_the_number_of_the_column() {
        let none = CellOptions::default();
        refused("a,b,a\n", &none, &["column 3", "column 1"]);
        refused("a,,b\n", &none, &["column 2", "no name"]);
        refused("a,$b\n", &none, &["column 2", "`$`"]);
        refused("a.b\n", &none, &["column 1", "dot"]);
        refused("a,b\0\n", &none, &["column 2", "NUL"]);
        refused("", &none, &["empty"]);
    }
}
