//! Figures as tables and charts.

use serde_json::{Value, json};

use crate::measure::{Entry, Sample, median};
use crate::svg::{Bar, Chart};

/// One subject of the report.
pub(crate) struct Section {
    /// Its name on the command line.
    pub(crate) name: String,
    pub(crate) title: String,
    /// What is measured, and what the rows mean, as Markdown.
    pub(crate) text: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) comparisons: Vec<Comparison>,
    /// All figures, for the JSON file of the run.
    pub(crate) raw: Vec<Value>,
}

impl Section {
    pub(crate) fn new(name: &'static str, title: &'static str, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            text: text.into(),
            tables: Vec::new(),
            charts: Vec::new(),
            comparisons: Vec::new(),
            raw: Vec::new(),
        }
    }

    /// Adds a comparison: a table, a chart of the rates, and the raw figures.
    pub(crate) fn add(&mut self, comparison: &Comparison) {
        self.comparisons.push(comparison.clone());
        self.tables.push(comparison.table());
        let file = format!("{}-{}.svg", self.name, self.charts.len() + 1);
        self.charts.push(comparison.chart(file));
        self.raw.push(json!({
            "title": comparison.title,
            "operation": comparison.operation,
            "entries": comparison.entries,
        }));
    }

    pub(crate) fn terminal(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(Table::titled).collect();
        format!("## {} ({})\n\n{}", self.title, self.name, tables.join("\n\n"))
    }
}

/// Variants side by side.
#[derive(Clone)]
pub(crate) struct Comparison {
    pub(crate) title: String,
    /// The operation that is counted, such as `append`.
    pub(crate) operation: String,
    pub(crate) entries: Vec<Entry>,
}

impl Comparison {
    pub(crate) fn new(title: impl Into<String>, operation: &'static str, entries: Vec<Entry>) -> Self {
        Self {
            title: title.into(),
            operation: operation.into(),
            entries,
        }
    }

    /// Adds a figure of one variant, in a column of its own.
    pub(crate) fn figure(&mut self, entry: &str, column: &str, value: f64) {
        let entry = self.entries.iter_mut().find(|known| known.name == entry);
        debug_assert!(entry.is_some(), "a figure of no variant: {column}");
        if let Some(entry) = entry {
            entry.figures.push((column.to_owned(), value));
        }
    }

    /// Adds a column of the rates, compared with another baseline.
    pub(crate) fn also_against(&mut self, baseline: &str, column: &str) {
        self.also_ratios(baseline, column, |sample| Some(sample.rate()));
    }

    /// Adds a column of the client's CPU time, compared with another baseline.
    pub(crate) fn also_client_cpu(&mut self, baseline: &str, column: &str) {
        self.also_ratios(baseline, column, Sample::client_us);
    }

    fn also_ratios(&mut self, baseline: &str, column: &str, of: fn(&Sample) -> Option<f64>) {
        let entries = self.entries.iter();
        let ratios: Vec<_> = entries.map(|entry| median(self.ratios(entry, baseline, of))).collect();
        for (entry, ratio) in self.entries.iter_mut().zip(ratios) {
            entry.figures.extend(ratio.map(|ratio| (column.to_owned(), ratio)));
        }
    }

    /// Adds a column of the server's CPU time, compared with the baseline.
    pub(crate) fn with_server_ratios(mut self) -> Self {
        let entries = self.entries.iter();
        let ratios: Vec<_> = entries
            .map(|entry| median(self.ratios(entry, &entry.baseline, Sample::server_us)))
            .collect();
        for (entry, ratio) in self.entries.iter_mut().zip(ratios) {
            let ratio = ratio.map(|ratio| ("server CPU ratio".to_owned(), ratio));
            entry.figures.extend(ratio);
        }
        self
    }

    /// Returns the ratio of an entry to a baseline in each round.
    pub(crate) fn ratios(&self, entry: &Entry, baseline: &str, of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        let Some(baseline) = self.entries.iter().find(|other| other.name == baseline) else {
            return Vec::new();
        };
        let rounds = entry.samples.iter().zip(&baseline.samples);
        rounds
            .filter_map(|(sample, baseline)| Some(of(sample)? / of(baseline)?))
            .filter(|ratio| ratio.is_finite())
            .collect()
    }

    fn table(&self) -> Table {
        let mut columns: Vec<String> = [
            "",
            "per second",
            "rate ratio",
            "client CPU us",
            "CPU ratio",
            "server CPU us",
        ]
        .map(str::to_owned)
        .to_vec();
        columns[1] = format!("{}s per second", self.operation);
        let timed = columns.len();
        for (column, _) in self.entries.iter().flat_map(|entry| &entry.figures) {
            if !columns[timed..].contains(column) {
                columns.push(column.clone());
            }
        }
        let rows = self.entries.iter().map(|entry| {
            let middle = |of: fn(&Sample) -> Option<f64>| {
                let values = entry.samples.iter().filter_map(of).collect();
                median(values).map_or_else(|| "-".to_owned(), number)
            };
            let mut row = vec![
                entry.name.clone(),
                middle(|sample| Some(sample.rate())),
                spread(self.ratios(entry, &entry.baseline, |sample| Some(sample.rate()))),
                middle(Sample::client_us),
                spread(self.ratios(entry, &entry.baseline, Sample::client_us)),
                middle(Sample::server_us),
            ];
            row.extend(columns[timed..].iter().map(|column| {
                let figure = entry.figures.iter().find(|(name, _)| name == column);
                figure.map_or_else(|| "-".to_owned(), |(_, value)| number(*value))
            }));
            row
        });
        Table {
            title: self.title.clone(),
            rows: rows.collect(),
            columns,
        }
    }

    fn chart(&self, file: String) -> Chart {
        let bars = self.entries.iter().filter_map(|entry| {
            let rate = median(entry.samples.iter().map(Sample::rate).collect())?;
            let ratio = median(self.ratios(entry, &entry.baseline, |sample| Some(sample.rate()))).unwrap_or(1.0);
            let text = if entry.name == entry.baseline {
                number(rate)
            } else {
                format!("{}  ({} x)", number(rate), number(ratio))
            };
            Some(Bar {
                label: entry.name.clone(),
                parts: vec![rate],
                text,
                ours: entry.ours,
            })
        });
        Chart {
            file,
            title: format!("{}: {}s per second", self.title, self.operation),
            bars: bars.collect(),
            parts: Vec::new(),
        }
    }
}

/// A table whose first column has the names of the rows.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns Markdown that is also readable in a terminal.
    pub(crate) fn markdown(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells
                .chain([self.columns[column].chars().count(), 3])
                .max()
                .unwrap_or(3)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(&widths).enumerate();
            let padded = cells.map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| "-".repeat(width - usize::from(column > 0)) + if column > 0 { ":" } else { "" })
            .collect();
        let mut text = line(&self.columns) + &line(&rule);
        for row in &self.rows {
            text += &line(row);
        }
        text
    }

    fn titled(&self) -> String {
        format!("{}\n\n{}", self.title, self.markdown())
    }
}

/// Returns the median of ratios, with the smallest and the largest.
pub(crate) fn spread(ratios: Vec<f64>) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    match median(ratios) {
        None => "-".to_owned(),
        Some(middle) if least == most => number(middle),
        Some(middle) => format!("{} ({}-{})", number(middle), number(least), number(most)),
    }
}

/// Returns a number with about three significant digits, and separators between thousands.
pub(crate) fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 99.95 {
        return thousands(value.round());
    }
    let decimals = match value.abs() {
        size if size >= 9.995 => 1,
        size if size >= 0.0995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        let values = [0.0, 1.0, 0.0314, 0.314, 2.7651, 9.9999, 27.651, 276.51, 27_651.4];
        let texts = ["0", "1", "0.031", "0.31", "2.77", "10.0", "27.7", "277", "27,651"];
        assert_eq!(values.map(number), texts);
    }

    #[test]
    fn ratios_are_computed_for_each_round() {
        let entry = |name: &str, seconds: [f64; 3]| Entry {
            name: name.to_owned(),
            baseline: "slow".to_owned(),
            ours: false,
            samples: seconds
                .map(|seconds| Sample {
                    operations: 10,
                    seconds,
                    client_cpu_seconds: None,
                    server_cpu_seconds: None,
                })
                .to_vec(),
            figures: Vec::new(),
        };
        // The machine is half as fast in the second round, and the ratio is the same.
        let entries = vec![entry("slow", [1.0, 2.0, 1.0]), entry("fast", [0.5, 1.0, 0.25])];
        let table = Comparison::new("t", "append", entries).table();
        assert_eq!(table.rows[1], ["fast", "20", "2 (2-4)", "-", "-", "-"]);
    }
}
