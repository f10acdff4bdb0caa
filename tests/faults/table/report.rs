//! The outcomes of all cases, as a Markdown table.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::case::{Ended, Outcome};
use super::fault::Fault;
use super::routing::Routes;
use super::traces::Traces;

#[derive(Default)]
pub(super) struct Report {
    operations: BTreeMap<(&'static str, String), Row>,
    faults: BTreeMap<Fault, Row>,
    failed: Vec<String>,
    drops: usize,
    held_drops: usize,
    routes: Routes,
    traces: Traces,
}

#[derive(Default)]
struct Row {
    commands: Vec<String>,
    cases: usize,
    outcomes: BTreeMap<Outcome, usize>,
    partly_stored: usize,
    found: usize,
}

impl Report {
    pub(super) fn add(
        &mut self,
        pattern: &'static str,
        operation: &str,
        commands: &[String],
        fault: Fault,
        ended: &Ended,
    ) {
        let row = self.operations.entry((pattern, operation.to_owned())).or_default();
        row.commands = commands.to_vec();
        row.add(ended);
        self.faults.entry(fault).or_default().add(ended);
    }

    pub(super) fn fail(&mut self, case: String) {
        self.failed.push(case);
    }

    pub(super) fn routes(&mut self) -> &mut Routes {
        &mut self.routes
    }

    pub(super) fn traces(&mut self) -> &mut Traces {
        &mut self.traces
    }

    /// Returns how many futures were dropped before their end.
    pub(super) fn drops(&self) -> usize {
        self.drops
    }

    pub(super) fn add_drop(&mut self, is_dropped: bool) {
        self.drops += usize::from(is_dropped);
    }

    /// Returns how many of the operations that were dropped while another client held their documents waited for it.
    pub(super) fn held_drops(&self) -> usize {
        self.held_drops
    }

    pub(super) fn add_held_drop(&mut self, is_dropped: bool) {
        self.held_drops += usize::from(is_dropped);
    }

    pub(super) fn failed(&self) -> &[String] {
        &self.failed
    }

    pub(super) fn cases(&self) -> usize {
        self.faults.values().map(|row| row.cases).sum()
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").unwrap();
        line(format!(
            "{} cases of {} operations.\n",
            self.cases(),
            self.operations.len()
        ));
        line("| fault at a command | cases | returned | errors | dropped | partly stored | damage reported by `verify` |".to_owned());
        line("|---|---|---|---|---|---|---|".to_owned());
        for (fault, row) in &self.faults {
            line(format!("| {} | {} |", fault.name(), row.cells()));
        }
        line("\n<details>\n<summary>Each operation</summary>\n".to_owned());
        line("| operation | commands | cases | returned | errors | dropped | partly stored | damage reported by `verify` |".to_owned());
        line("|---|---|---|---|---|---|---|---|".to_owned());
        for ((pattern, operation), row) in &self.operations {
            line(format!(
                "| {pattern} `{operation}` | {} | {} |",
                in_short(&row.commands),
                row.cells()
            ));
        }
        line("\n</details>".to_owned());
        text
    }
}

impl Row {
    fn add(&mut self, ended: &Ended) {
        self.cases += 1;
        *self.outcomes.entry(ended.outcome.clone()).or_default() += 1;
        let is_done = matches!(ended.outcome, Outcome::Done | Outcome::NotHit);
        self.partly_stored += usize::from(ended.stored && !is_done);
        self.found += usize::from(ended.found && !is_done);
    }

    fn cells(&self) -> String {
        let of = |outcome: &Outcome| self.outcomes.get(outcome).copied().unwrap_or(0);
        let errors = self.outcomes.iter().filter_map(|(outcome, count)| match outcome {
            Outcome::Failed(kind) => Some(format!("{kind} {count}")),
            _ => None,
        });
        let errors: Vec<String> = errors.collect();
        [
            self.cases.to_string(),
            (of(&Outcome::Done) + of(&Outcome::NotHit)).to_string(),
            errors.join(", "),
            of(&Outcome::Dropped).to_string(),
            self.partly_stored.to_string(),
            self.found.to_string(),
        ]
        .join(" | ")
    }
}

/// Returns the names, consecutive ones once with their number.
fn in_short(commands: &[String]) -> String {
    let mut short: Vec<(&str, usize)> = Vec::new();
    for command in commands {
        match short.last_mut() {
            Some((last, count)) if last == command => *count += 1,
            _ => short.push((command, 1)),
        }
    }
    let words = short.iter().map(|(command, count)| match count {
        1 => (*command).to_owned(),
        count => format!("{count} {command}"),
    });
    words.collect::<Vec<_>>().join(", ")
}
