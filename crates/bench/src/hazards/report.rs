//! The tables of the hazards and their picture.

use std::fs;

use anyhow::{Context, Result};
use mongodb::bson::DateTime;
use serde::{Deserialize, Serialize};

use super::block;
use super::cluster::WRITERS;
use super::load::{CLIENTS, Fate, Ledger, Size, TIME_LIMIT};
use super::recipe::{Hazards, Pattern, Source};
use crate::report::{Table, number};
use crate::svg::{Bar, Chart, NARROW};

const PAGE: &str = "book/src/reference/hazards.md";
const JSON: &str = "book/src/hazards.json";
const PICTURE: &str = "book/src/hazards.svg";

/// What one recipe did.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pattern: Pattern,
    source: Source,
    acknowledged: u64,
    full: u64,
    no_answer: u64,
    refused: u64,
    hazards: Hazards,
    commands_per_operation: f64,
}

impl Row {
    /// Returns whether it is the row of a recipe.
    pub(super) fn is_of(&self, pattern: Pattern, source: Source) -> bool {
        self.pattern == pattern && self.source == source
    }

    pub(super) fn new(pattern: Pattern, source: Source, ledger: &Ledger, hazards: Hazards, commands: f64) -> Self {
        Self {
            pattern,
            source,
            acknowledged: ledger.count(Fate::Acknowledged),
            full: ledger.count(Fate::Full),
            no_answer: ledger.count(Fate::Unknown),
            refused: ledger.count(Fate::Refused),
            hazards,
            commands_per_operation: commands,
        }
    }

    /// Returns how many operations were damaged, at least: one that is stored twice can also leave a wrong document.
    fn damage(&self) -> u64 {
        let Hazards {
            lost,
            doubled,
            stale,
            gaps,
            wrong,
        } = self.hazards;
        let wrong = stale.unwrap_or(0) + gaps.unwrap_or(0) + wrong;
        self.refused + lost + doubled.max(wrong)
    }
}

/// The report of a run.
#[derive(Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) server: String,
    pub(super) size: Size,
    pub(super) rows: Vec<Row>,
}

impl Report {
    /// Returns that of the book.
    pub(super) fn stored() -> Result<Self> {
        let json = fs::read_to_string(JSON).context(JSON)?;
        serde_json::from_str(&json).context(JSON)
    }

    /// Returns its rows, if they are of runs of this size.
    pub(super) fn of(self, size: Size) -> Result<Vec<Row>> {
        anyhow::ensure!(self.size == size, "the rows of the book are of runs of another size");
        Ok(self.rows)
    }

    /// Returns the whole table with its conditions, as Markdown.
    pub(super) fn whole(&self) -> String {
        let columns = [
            "recipe",
            "acknowledged",
            "no answer",
            "refused",
            "lost",
            "doubled",
            "stale",
            "gaps",
            "wrong documents",
            "commands per operation",
        ];
        let count = |count: u64| number(count as f64);
        let optional = |counted: Option<u64>| counted.map_or_else(|| "-".to_owned(), count);
        let cells = |row: &Row| {
            vec![
                format!("{}: {}", row.pattern.name(), row.source.name()),
                count(row.acknowledged),
                count(row.no_answer),
                count(row.refused),
                count(row.hazards.lost),
                count(row.hazards.doubled),
                optional(row.hazards.stale),
                optional(row.hazards.gaps),
                count(row.hazards.wrong),
                number(row.commands_per_operation),
            ]
        };
        let table = table(&columns, self.rows.iter().map(cells).collect());
        format!("{}\n\n{table}\n{LEGEND}", self.conditions())
    }

    /// Returns the rows of the manual's recipe and of ours, for each pattern of the manual.
    fn pairs(&self) -> impl Iterator<Item = (&Row, &Row)> {
        let of = |source: Source| self.rows.iter().filter(move |row| row.source == source);
        of(Source::Manual).filter_map(move |manual| {
            let ours = of(Source::Ours).find(|ours| ours.pattern == manual.pattern)?;
            Some((manual, ours))
        })
    }

    fn conditions(&self) -> String {
        let now = DateTime::now().try_to_rfc3339_string().unwrap_or_default();
        let date = now.split('T').next().unwrap_or_default();
        let kills = match self.size.kills {
            1 => "once".to_owned(),
            kills => format!("{kills} times"),
        };
        format!(
            "Measured on {date} with mongo-patterns {} and MongoDB {}: {} operations on each recipe, without pauses, by\n\
             {WRITERS} writers of {CLIENTS} clients, on three nodes whose primary is killed {kills}. A caller retries \
             once, after a\nnetwork error or a time-out of {} s. A twentieth of the operations is dropped midway, as if \
             the process died.",
            env!("CARGO_PKG_VERSION"),
            self.server,
            number(self.size.operations as f64),
            TIME_LIMIT.as_secs(),
        )
    }

    fn picture(&self) -> Chart {
        let bar = |label: &str, damage: u64, ours: bool| Bar {
            label: label.to_owned(),
            parts: vec![damage as f64],
            text: number(damage as f64),
            ours,
        };
        let manuals = self
            .pairs()
            .map(|(manual, _)| bar(manual.pattern.name(), manual.damage(), false));
        let ours: u64 = self.pairs().map(|(_, ours)| ours.damage()).sum();
        let operations = number(self.size.operations as f64);
        Chart {
            file: String::new(),
            title: format!("Refused, lost, doubled or wrong, of {operations}"),
            bars: manuals.chain([bar("mongo-patterns, all", ours, true)]).collect(),
            parts: Vec::new(),
        }
    }

    /// Replaces the table and the picture of the book, in the current folder.
    pub(super) fn write(&self) -> Result<()> {
        let old = fs::read_to_string(PAGE).context(PAGE)?;
        fs::write(PAGE, block::replace(&old, &self.whole()).context(PAGE)?).context(PAGE)?;
        let json = serde_json::to_string_pretty(self)? + "\n";
        fs::write(JSON, json).context(JSON)?;
        fs::write(PICTURE, self.picture().svg_of(NARROW)).context(PICTURE)
    }
}

fn table(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let table = Table {
        title: String::new(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows,
    };
    table.markdown()
}

const LEGEND: &str = "\
The manual and MongoDB's [agent skills](https://github.com/mongodb/agent-skills) have these recipes. Operations with
*no answer* were dropped, or their retry failed too: whether they are stored is unknown, so they count neither as lost nor as
right. *Refused* operations are valid, and got an error that no retry solves, such as a duplicate key. A program that ignores
the error loses them. The manual's bucket refuses most of them because it names a bucket by its key and the second: the writers open
several buckets of a key within a second, and only one gets the name.

- *Lost* operations are acknowledged and not stored. *Doubled* operations are stored more than once.
- *Stale* documents contradict the data: a subset, a count, a total, a sum, a newest revision or a copy.
- *Gaps* are partial pages before the last page, missing revisions, or, for *intervals*, times without a price.
- *Wrong documents* exceed a bound (embedded), or have overflow documents that no reader finds or that share a position (outlier).
  Others have data in the field of another version (schema versions), or are in the archive and in the collection (archive).
- *Computed fields* are sums in a parent, as the figures of a subset.
- For *intervals*, *doubled* means that an item has two valid prices, and *wrong* that two prices overlap.

Half of the writers of *schema versions* are of the first release, and half of the second, which converts. The writers of *archive*
update sales beside a job. An update that finds no sale, because it is archived, is counted nowhere. A sixth of the operations of
*embedded* would exceed the bound of a list. A correct refusal at the bound is counted nowhere. Two operations set each of the
*attributes*, and either value is right. The counter processes shut down normally: the losses shown happen at every deployment. The
calls of mongo-patterns have the ids that make them idempotent. To repeat the run: `cargo run --release -p mongo-patterns-bench -- hazards`.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(source: Source, refused: u64, hazards: Hazards) -> Row {
        Row {
            pattern: Pattern::Bucket,
            source,
            acknowledged: 1,
            full: 0,
            no_answer: 2,
            refused,
            hazards,
            commands_per_operation: 1.04,
        }
    }

    #[test]
    fn the_picture_compares_the_recipe_of_the_manual_with_ours() {
        let hazards = Hazards {
            lost: 1,
            doubled: 2,
            stale: Some(4),
            gaps: None,
            wrong: 8,
        };
        let report = Report {
            server: "6.0.5".to_owned(),
            size: Size::QUICK,
            rows: vec![
                row(Source::Manual, 3285, hazards),
                row(Source::AgentSkills, 7, Hazards::default()),
                row(Source::Ours, 0, Hazards::default()),
            ],
        };
        let bars = report.picture().bars;
        let bars: Vec<(&str, &str, bool)> = bars.iter().map(|bar| (&*bar.label, &*bar.text, bar.ours)).collect();
        assert_eq!(bars, [("bucket", "3,298", false), ("mongo-patterns, all", "0", true)]);
        assert_eq!(
            report
                .whole()
                .lines()
                .filter(|line| line.starts_with("| bucket"))
                .count(),
            3
        );
    }
}
