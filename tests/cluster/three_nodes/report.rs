//! What a run came to, as the text of a page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::bucket_load::{Judged, Level};
use super::calls::Counts;
use super::nemesis::Faults;

/// All that is told of a run.
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

/// What is stored at the end.
#[derive(Debug)]
pub struct Stored {
    /// Of each kind: acknowledged, unknown, unknown but stored.
    pub by_kind: Vec<(&'static str, (usize, usize, usize))>,
    /// How many reviews of repositories, and how many of their products were mended.
    pub reviews: usize,
    pub mended: usize,
    /// How many changes the follower took.
    pub followed: u64,
    /// How many moves, and how many of them took several calls.
    pub moves: (u64, u64),
}

impl Report {
    /// As Markdown.
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
            All patterns write to a replica set of three processes, with write concern `majority`, while its primary is\n\
            killed hard (SIGKILL), frozen (SIGSTOP), or told to step down, again and again.\n"
        )?;
        writeln!(
            text,
            "{} in {} seconds, {} elections, MongoDB {}. {done} calls done.\n",
            self.faults,
            self.time.as_secs(),
            self.elections,
            self.version
        )?;
        writeln!(
            text,
            "## What callers were told\n\n\
            Dropped: the caller waited no longer, after 1.5 seconds for one call in four. Calls with ids are made again until\n\
            they are done, so some find that an earlier one did it. \"Subset look\" reads products and reviews in one snapshot.\n"
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
        writeln!(text, "\n## What is stored\n")?;
        writeln!(
            text,
            "| what | acknowledged | lost | doubled | unknown at the end | of these stored |\n|---|---:|---:|---:|---:|---:|"
        )?;
        for (what, (acknowledged, unknown, found)) in &self.stored.by_kind {
            writeln!(text, "| {what} | {acknowledged} | 0 | 0 | {unknown} | {found} |")?;
        }
        writeln!(
            text,
            "\nOf {} reviews none is lost or another than it should be. {} products of eventual writers were stale at the end and repaired, none of the transactional ones. The follower took {} changes, and all its subsets were right when it had caught up. {} moves from flat collections, {} of them in several calls, each with all items once.\n",
            self.stored.reviews, self.stored.mended, self.stored.followed, self.stored.moves.0, self.stored.moves.1
        )?;
        writeln!(
            text,
            "## What readers saw\n\n\
            Each append and each read of a bucket's pages, items or newest items, with its begin and its end. How often a read\n\
            showed an item that nobody had begun to append (foreign), or twice (doubled), or an acknowledged one at another\n\
            place than at the end (moved); lacked one that was acknowledged before the read began (missing); showed one that\n\
            was not acknowledged yet and was taken back (vanished); or lacked one that an earlier read had shown (backwards).\n"
        )?;
        let names = ["foreign", "doubled", "moved", "missing", "vanished", "backwards"];
        writeln!(text, "| reads | number | {} |", names.join(" | "))?;
        writeln!(text, "|---|---:|{}", "---:|".repeat(names.len()))?;
        for (level, judged) in &self.levels {
            let times = names.map(|name| judged.wrong.get(name).copied().unwrap_or(0).to_string());
            writeln!(text, "| {} | {} | {} |", level.name(), judged.reads, times.join(" | "))?;
        }
        Ok(())
    }
}
