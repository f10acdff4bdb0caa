//! The options of a load.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::columns::CellOptions;
use super::dates::Format as DateFormat;
use super::types::{self, Type};
use crate::failure::Failure;

/// The file to load, and how to read it.
#[derive(Args, Debug)]
pub(crate) struct LoadOptions {
    /// The file; - is standard input. Files that gzip or zstd compressed are decompressed.
    pub(super) file: PathBuf,
    /// The format. By default from the extension, before .gz or .zst: .csv, .tsv, or .json, .ndjson, .jsonl.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// The character between the cells of CSV, such as ; or tab. [default: a comma, or a tab for TSV]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// The types of columns, as COLUMN:TYPE, separated by commas: string, int, double, decimal, bool, date, objectid or
    /// uuid. By default they are inferred from the first 1,000 rows: int, double, bool, date, otherwise string. Numbers
    /// with leading zeros are strings.
    #[arg(long, value_name = "COLUMN:TYPE", value_delimiter = ',', value_parser = types::column_type)]
    types: Vec<(String, Type)>,
    /// Infers no types: all columns without a set type are strings.
    #[arg(long)]
    no_infer: bool,
    /// The format of the dates of a column, as strftime has it, such as date=%d.%m.%Y. Repeat it for more columns. By
    /// default ISO 8601. Dates without an offset are in UTC.
    #[arg(long, value_name = "COLUMN=FORMAT", value_parser = types::column_format)]
    date_format: Vec<(String, DateFormat)>,
    /// A cell with this text is omitted from the item, as empty cells are. Repeat it for more texts.
    #[arg(long, value_name = "TEXT")]
    null_value: Vec<String>,
    /// Writes rows that cannot be read or stored to this file, one JSON object each, with line and reason, and stores
    /// all others. Without it, the first such row ends the load, and of a file nothing is stored.
    #[arg(long, value_name = "FILE")]
    pub(super) reject_file: Option<PathBuf>,
    /// Reads and checks all rows, and stores nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    /// Comma-separated values, with the column names in the first line. Empty cells are omitted.
    Csv,
    /// The same, separated by tabs.
    Tsv,
    /// Documents in MongoDB extended JSON, one per line, or one array of them.
    #[value(aliases = ["ndjson", "jsonl"])]
    Json,
}

/// The format with its options.
#[derive(Clone, Debug)]
pub(super) enum Format {
    Cells { delimiter: u8, options: CellOptions },
    Json,
}

impl LoadOptions {
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn is_file(&self) -> bool {
        self.file != Path::new("-")
    }

    /// Returns the checked format.
    pub(super) fn format(&self) -> Result<Format, Failure> {
        let format = self.format.or_else(|| by_extension(&self.file)).ok_or_else(|| {
            Failure::usage("--format is missing, and the file has no known extension: pass csv, tsv or json")
        })?;
        let delimiter = match format {
            FileFormat::Csv => b',',
            FileFormat::Tsv => b'\t',
            FileFormat::Json => return self.json(),
        };
        Ok(Format::Cells {
            delimiter: self.delimiter.unwrap_or(delimiter),
            options: CellOptions {
                types: self.types.clone(),
                formats: self.date_format.clone(),
                nulls: self.null_value.clone(),
                no_inference: self.no_infer,
            },
        })
    }

    /// JSON has types of its own, so an option that is ignored would surprise.
    fn json(&self) -> Result<Format, Failure> {
        let options = [
            ("--delimiter", self.delimiter.is_some()),
            ("--types", !self.types.is_empty()),
            ("--no-infer", self.no_infer),
            ("--date-format", !self.date_format.is_empty()),
            ("--null-value", !self.null_value.is_empty()),
        ];
        match options.into_iter().find(|(_, is_set)| *is_set) {
            Some((option, _)) => Err(Failure::usage(format!(
                "{option} is for CSV and TSV, and the file is JSON: remove it"
            ))),
            None => Ok(Format::Json),
        }
    }
}

fn by_extension(file: &Path) -> Option<FileFormat> {
    let name = file.file_name()?.to_str()?.to_lowercase();
    let name = [".gz", ".zst", ".zstd"]
        .iter()
        .find_map(|compressed| name.strip_suffix(compressed))
        .unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" => Some(FileFormat::Csv),
        "tsv" | "tab" => Some(FileFormat::Tsv),
        "json" | "ndjson" | "jsonl" => Some(FileFormat::Json),
        _ => None,
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\r' | b'\n'] => Err("quotation marks and line ends have a meaning of their own".to_owned()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("it must be one ASCII character, such as ; or tab".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_the_extension() {
        let of = |name: &str| by_extension(Path::new(name));
        assert_eq!(of("a/b.CSV"), Some(FileFormat::Csv));
        assert_eq!(of("b.tsv.gz"), Some(FileFormat::Tsv));
        assert_eq!(of("b.jsonl.zst"), Some(FileFormat::Json));
        assert_eq!((of("b.gz"), of("-"), of("b.txt")), (None, None, None));
    }

    #[test]
    fn a_delimiter_is_one_character() {
        assert_eq!((delimiter(";"), delimiter("tab")), (Ok(b';'), Ok(b'\t')));
        for refused in ["", "ab", "\"", "é", "\n"] {
            assert!(delimiter(refused).is_err(), "{refused}");
        }
    }
}
