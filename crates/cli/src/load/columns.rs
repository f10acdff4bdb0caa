//! The columns of a file: their names and their types.

use mongodb::bson::{Bson, Document};

use super::dates::{self, Format};
use super::item::Role;
use super::problem::{Problem, Reason};
use super::records::Record;
use super::types::{Inference, Type, inferred_value};
use crate::failure::{Exit, Failure};

/// How the cells of CSV and TSV become values.
#[derive(Clone, Debug, Default)]
pub(super) struct CellOptions {
    pub(super) types: Vec<(String, Type)>,
    pub(super) formats: Vec<(String, Format)>,
    pub(super) nulls: Vec<String>,
    pub(super) no_inference: bool,
}

/// A column of the file.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    of: Type,
    is_inferred: bool,
    format: Option<Format>,
}

/// The columns of a file, in order.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    columns: Vec<Column>,
    nulls: Vec<String>,
}

impl Columns {
    /// Checks the header, and infers the types from a sample.
    pub(super) fn new<'r>(
        header: &Record,
        sample: impl Iterator<Item = &'r Record>,
        options: &CellOptions,
        roles: &[Role],
    ) -> Result<Self, Failure> {
        let names: Vec<String> = header.cells().map(str::to_owned).collect();
        check_names(header.line, &names)?;
        check_options(&names, options)?;
        check_roles(header.line, &names, roles)?;
        let mut inferred = vec![Inference::default(); names.len()];
        if !options.no_inference {
            for record in sample.filter(|record| record.cells().len() == names.len()) {
                let cells = record.cells().zip(&mut inferred);
                cells
                    .filter(|(text, _)| !is_null(text, &options.nulls))
                    .for_each(|(text, inference)| inference.add(text));
            }
        }
        let columns = names.into_iter().zip(inferred).map(|(name, inference)| {
            let format = find(&options.formats, &name);
            let set = find(&options.types, &name).or(format.as_ref().map(|_| Type::Date));
            let set = set.or_else(|| roles.iter().find(|role| role.field == name)?.of);
            Column {
                of: set.unwrap_or_else(|| inference.result()),
                is_inferred: set.is_none(),
                format,
                name,
            }
        });
        Ok(Self {
            columns: columns.collect(),
            nulls: options.nulls.clone(),
        })
    }

    /// Returns the types of the columns, as --types takes them.
    pub(super) fn types(&self) -> String {
        let types = self.columns.iter();
        let types: Vec<_> = types
            .map(|column| format!("{}:{}", column.name, column.of.name()))
            .collect();
        types.join(",")
    }

    /// Returns the document of a record. Empty cells are omitted.
    pub(super) fn document(&self, record: &Record) -> Result<Document, Problem> {
        let (cells, columns) = (record.cells().len(), self.columns.len());
        if cells != columns {
            return Err(Problem::new(
                Reason::Columns,
                format!("the number of its columns is {cells}, and that of the header is {columns}"),
            ));
        }
        let filled = self.columns.iter().zip(record.cells());
        filled
            .filter(|(_, text)| !is_null(text, &self.nulls))
            .map(|(column, text)| Ok((column.name.clone(), column.value(text)?)))
            .collect()
    }
}

impl Column {
    fn value(&self, text: &str) -> Result<Bson, Problem> {
        let value = match &self.format {
            Some(format) => format.parse(text).map(Bson::DateTime),
            None if self.is_inferred => inferred_value(self.of, text),
            None => self.of.value(text),
        };
        value.ok_or_else(|| Problem::new(Reason::Type, self.mismatch(text)))
    }

    fn mismatch(&self, text: &str) -> String {
        let (name, of) = (&self.name, self.of.name());
        match (&self.format, self.of) {
            (Some(_), _) => format!("the column `{name}` does not match its --date-format"),
            (None, _) if self.is_inferred => format!(
                "the column `{name}` is inferred as {of} from the first rows, and this value is not: pass --types '{name}:string', or correct the value"
            ),
            (None, Type::Date) => format!(
                "the column `{name}` is not a date, such as 2023-10-26T15:47:03Z: {}",
                dates::advice(name, text)
            ),
            _ => format!("the column `{name}` is not of type {of}"),
        }
    }
}

fn is_null(text: &str, nulls: &[String]) -> bool {
    text.is_empty() || nulls.iter().any(|null| null == text)
}

fn find<T: Clone>(named: &[(String, T)], name: &str) -> Option<T> {
    named
        .iter()
        .find(|(column, _)| column == name)
        .map(|(_, value)| value.clone())
}

fn twice<T>(named: &[(String, T)]) -> Option<&str> {
    let is_earlier = |position: usize| named[..position].iter().any(|(name, _)| *name == named[position].0);
    let position = (0..named.len()).find(|&position| is_earlier(position))?;
    Some(&named[position].0)
}

/// Refuses names that cannot be fields. Names are no values, but the header of a file without one is its first row, so
/// errors have the number of the column.
fn check_names(line: u64, names: &[String]) -> Result<(), Failure> {
    for (number, name) in (1..).zip(names) {
        let earlier = names[..number - 1].iter().position(|earlier| earlier == name);
        let problem = match (earlier, name) {
            (_, name) if name.trim().is_empty() => "has no name: name it".to_owned(),
            (Some(earlier), _) => format!("has the name of column {}: rename one of them", earlier + 1),
            (_, name) if name.starts_with('$') => "has a name that starts with `$`: rename it".to_owned(),
            (_, name) if name.contains('.') => "has a name with a dot: rename it".to_owned(),
            (_, name) if name.contains('\0') => "has a name with a NUL character: rename it".to_owned(),
            _ => continue,
        };
        return Err(refused(line, &format!("column {number} {problem}")));
    }
    Ok(())
}

fn check_options(names: &[String], options: &CellOptions) -> Result<(), Failure> {
    let types = options.types.iter().map(|(name, _)| ("--types", name));
    let formats = options.formats.iter().map(|(name, _)| ("--date-format", name));
    if let Some((option, column)) = types.chain(formats).find(|(_, name)| !names.contains(name)) {
        return Err(Failure::usage(format!(
            "{option} names the column `{column}`, which the file does not have"
        )));
    }
    if let Some(column) = twice(&options.types).or_else(|| twice(&options.formats)) {
        return Err(Failure::usage(format!(
            "--types or --date-format names the column `{column}` twice: pass it once"
        )));
    }
    for (column, _) in &options.formats {
        if find(&options.types, column).is_some_and(|of| of != Type::Date) {
            return Err(Failure::usage(format!(
                "the column `{column}` has a --date-format, and --types sets another type than date: pass one of them"
            )));
        }
    }
    Ok(())
}

/// Refuses a file without a column that every row needs.
fn check_roles(line: u64, names: &[String], roles: &[Role]) -> Result<(), Failure> {
    let Some(role) = roles.iter().find(|role| !names.contains(&role.field)) else {
        return Ok(());
    };
    let (field, is) = (&role.field, role.text);
    let delimiter = if names.len() == 1 {
        "; the header has only one column: check --delimiter"
    } else {
        ""
    };
    Err(refused(
        line,
        &format!("there is no column `{field}`, which {is}{delimiter}"),
    ))
}

fn refused(line: u64, what: &str) -> Failure {
    Failure::new(
        Exit::Findings,
        format!("the header in line {line}: {what}; nothing was stored"),
    )
}
