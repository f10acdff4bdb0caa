//! Reads documents from a CSV file. The column names are the field names.

use std::io::Read;
use std::str::FromStr;

use csv::{ReaderBuilder, StringRecord};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document};

use super::{Row, Rows, bad_line, time};
use crate::failure::{Exit, Failure};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    String,
    Int,
    Double,
    Bool,
    Date,
    ObjectId,
}

impl FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "string" => Self::String,
            "int" => Self::Int,
            "double" => Self::Double,
            "bool" => Self::Bool,
            "date" => Self::Date,
            "objectid" => Self::ObjectId,
            _ => {
                return Err(format!(
                    "`{text}` is not one of string, int, double, bool, date and objectid"
                ));
            }
        })
    }
}

pub(super) fn column_type(text: &str) -> Result<(String, Type), String> {
    let (column, of) = text.rsplit_once('=').ok_or("it must be COLUMN=TYPE, such as qty=int")?;
    Ok((column.to_owned(), of.parse()?))
}

pub(super) fn rows(input: impl Read + Send + 'static, types: &[(String, Type)]) -> Result<Rows, Failure> {
    let mut reader = ReaderBuilder::new().from_reader(input);
    let header = reader.headers().map_err(|error| unreadable(&error))?.clone();
    if let Some((column, _)) = types
        .iter()
        .find(|(column, _)| !header.iter().any(|name| name == column))
    {
        return Err(Failure::usage(format!(
            "--types names the column `{column}`, which the file does not have"
        )));
    }
    let columns: Vec<(String, Type)> = header
        .iter()
        .map(|name| {
            let of = types.iter().find(|(column, _)| column == name);
            (name.to_owned(), of.map_or(Type::String, |(_, of)| *of))
        })
        .collect();
    let rows = reader.into_records().map(move |record| {
        let record = record.map_err(|error| unreadable(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let document = document(&columns, &record, line)?;
        Ok(Row { line, document })
    });
    Ok(Box::new(rows))
}

fn document(columns: &[(String, Type)], record: &StringRecord, line: u64) -> Result<Document, Failure> {
    let filled = columns.iter().zip(record).filter(|(_, text)| !text.is_empty());
    filled
        .map(|((column, of), text)| {
            let value = value(*of, text)
                .ok_or_else(|| bad_line(line, &format!("the column `{column}` is not of type {of:?}")))?;
            Ok((column.clone(), value))
        })
        .collect()
}

fn value(of: Type, text: &str) -> Option<Bson> {
    Some(match of {
        Type::String => text.into(),
        Type::Int => {
            let number: i64 = text.parse().ok()?;
            i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
        }
        Type::Double => Bson::Double(text.parse().ok()?),
        Type::Bool => Bson::Boolean(text.parse().ok()?),
        Type::Date => Bson::DateTime(time(text)?),
        Type::ObjectId => Bson::ObjectId(ObjectId::parse_str(text).ok()?),
    })
}

/// The error's own text can quote a cell.
fn unreadable(error: &csv::Error) -> Failure {
    let line = error.position().map(csv::Position::line);
    let position = line.map_or_else(|| "the file".to_owned(), |line| format!("line {line}"));
    let what = match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "is not UTF-8",
        csv::ErrorKind::UnequalLengths { .. } => "has more or fewer columns than the first line",
        csv::ErrorKind::Io(_) => "cannot be read",
        _ => "is not valid CSV",
    };
    Failure::new(Exit::Findings, format!("{position} {what}"))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn read(text: &'static str, types: &[&str]) -> Result<Vec<Document>, Failure> {
        let types: Vec<_> = types.iter().map(|text| column_type(text).unwrap()).collect();
        rows(text.as_bytes(), &types)?.map(|row| Ok(row?.document)).collect()
    }

    #[test]
    fn columns_have_types_and_empty_cells_are_omitted() {
        let read = read("a,b,c\n1,x,2.5\n-7,,\"1\"\n", &["a=int", "c=double"]).unwrap();
        assert_eq!(read, [doc! { "a": 1, "b": "x", "c": 2.5 }, doc! { "a": -7, "c": 1.0 }]);
    }

    #[test]
    fn the_error_for_an_invalid_cell_names_line_and_column_and_not_the_value() {
        let failure = read("a,b\n1,x\nsecret,y\n", &["a=int"]).unwrap_err();
        assert!(
            failure.text.contains("line 3") && failure.text.contains("`a`"),
            "{}",
            failure.text
        );
        assert!(!failure.text.contains("secret"));
        let failure = read("a,b\n1\n", &[]).unwrap_err();
        assert!(failure.text.contains("line 2"), "{}", failure.text);
        assert_eq!(read("a\n1\n", &["z=int"]).unwrap_err().exit, Exit::Usage);
    }
}
