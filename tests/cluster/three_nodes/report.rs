//! The results of a run, as the text of a page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::nemesis::Faults;
use crate::cluster::load::bucket::{Judged, Level};
use crate::cluster::load::calls::Counts;
use crate::cluster::load::stage::Stored;

/// The time between checkpoints. A killed node starts with the last one, and repeats what it has replicated since, beside
/// the load. With the server's default, a minute, that took longer than a start may take.
pub(super) const CHECKPOINT_SECONDS: u32 = 10;

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    pub version: String,
    pub faults: Faults,
    pub elections: i64,
    pub time: Duration,
    pub calls: BTreeMap<&'static str, Counts>,
    pub stored: Stored,
    pub levels: BTreeMap<Level, Judged>,
}

impl Report {
    /// Returns the report as Markdown.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).unwrap();
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let done: u64 = self.calls.values().map(|counts| counts.done).sum();
        writeln!(
            text,
            "# Three nodes\n\n\
            The last run of `cargo xtask long primary`, which writes this page.\n\
            Six patterns write to a replica set of three processes, with write concern `majority`, while its primary is\n\
            repeatedly killed (SIGKILL), frozen (SIGSTOP), or stepped down. Each process writes a checkpoint every\n\
            {CHECKPOINT_SECONDS} seconds.\n"
        )?;
        writeln!(
            text,
            "{} in {} seconds, {} elections, MongoDB {}. {done} successful calls.\n",
            self.faults,
            self.time.as_secs(),
            self.elections,
            self.version
        )?;
        writeln!(
            text,
            "## Outcomes of the calls\n\n\
            Dropped: the call timed out, after 1.5 seconds for one call in four. Calls with ids are retried until they succeed,\n\
            so some fail because an earlier attempt took effect. \"Subset snapshot read\" reads products and reviews in one\n\
            snapshot.\n"
        )?;
        writeln!(
            text,
            "| call | done | unknown | dropped | errors |\n|---|---:|---:|---:|---|"
        )?;
        for (kind, counts) in &self.calls {
            let errors = counts.errors.iter().map(|(error, times)| format!("{error}: {times}"));
            let errors: Vec<String> = errors.collect();
            let Counts {
                done, unknown, dropped, ..
            } = counts;
            writeln!(
                text,
                "| {kind} | {done} | {unknown} | {dropped} | {} |",
                errors.join(", ")
            )?;
        }
        writeln!(text, "\n## Stored data\n")?;
        writeln!(
            text,
            "| what | acknowledged | lost | doubled | unknown at the end | unknown but stored |\n|---|---:|---:|---:|---:|---:|"
        )?;
        for (what, (acknowledged, unknown, found)) in &self.stored.by_kind {
            writeln!(text, "| {what} | {acknowledged} | 0 | 0 | {unknown} | {found} |")?;
        }
        writeln!(
            text,
            "\nOf {} reviews, none is lost or differs from its last write. At the end, no product was stale. The follower read {} changes, and all its subsets were correct after it had caught up. {} migrations from flat collections, {} of them in several calls, stored each item once.\n",
            self.stored.reviews,
            self.stored.followed.unwrap_or(0),
            self.stored.migrations.0,
            self.stored.migrations.1
        )?;
        writeln!(
            text,
            "## Anomalies of reads\n\n\
            The test records each append and each read of a bucket's pages, items or newest items, with its begin and its end.\n\
            It counts the reads that return an item whose append had not begun (foreign), an item twice (doubled), an\n\
            acknowledged item at another position than at the end (displaced), or an item that was not acknowledged yet and\n\
            was rolled back (vanished). It also counts the reads that lack an item that was acknowledged before the read began\n\
            (missing), or that an earlier read returned (backwards).\n"
        )?;
        let names = ["foreign", "doubled", "displaced", "missing", "vanished", "backwards"];
        writeln!(text, "| reads | number | {} |", names.join(" | "))?;
        writeln!(text, "|---|---:|{}", "---:|".repeat(names.len()))?;
        for (level, judged) in &self.levels {
            let times = names.map(|name| judged.wrong.get(name).copied().unwrap_or(0).to_string());
            writeln!(text, "| {} | {} | {} |", level.name(), judged.reads, times.join(" | "))?;
        }
        Ok(())
    }
}
