//! Rows that are not stored: counted by reason, and written to the file of rejected rows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::problem::{Problem, Reason};
use super::row::BadRow;
use crate::failure::Failure;
use crate::output::Summary;

/// The file of rejected rows, with a JSON object per row.
pub(super) struct Rejects {
    path: PathBuf,
    file: File,
    /// Whether it did not exist. Only such a file is removed: another one can be a device.
    is_new: bool,
    counts: BTreeMap<Reason, u64>,
}

impl Rejects {
    /// Creates the file. A file with content is refused: it may contain the rows of an earlier run, or be the input.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::usage(format!("--reject-file {}: {error}", path.display()));
        if fs::metadata(path).is_ok_and(|known| known.is_file() && known.len() > 0) {
            return Err(Failure::usage(format!(
                "--reject-file {}: the file has content: remove it, or pass another name",
                path.display()
            )));
        }
        let is_new = !path.exists();
        Ok(Self {
            path: path.to_owned(),
            is_new,
            file: File::options().create(true).append(true).open(path).map_err(failed)?,
            counts: BTreeMap::new(),
        })
    }

    /// Writes a row. Each row is written at once, so that a stopped load has them all.
    pub(super) fn add(&mut self, row: &BadRow) -> Result<(), Failure> {
        let BadRow { line, problem, raw } = row;
        let Problem { reason, text } = problem;
        let object = json!({ "line": line, "reason": reason.name(), "text": text, "row": raw });
        *self.counts.entry(*reason).or_default() += 1;
        self.file
            .write_all(format!("{object}\n").as_bytes())
            .map_err(|error| Failure::usage(format!("--reject-file {}: {error}", self.path.display())))
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Adds the counts to the summary.
    pub(super) fn summary(&self, summary: Summary) -> Summary {
        let summary = summary.row("rejected", self.total());
        self.counts
            .iter()
            .fold(summary, |summary, (reason, count)| summary.row(reason.row(), *count))
    }
}

/// Removes a file without rows.
impl Drop for Rejects {
    fn drop(&mut self) {
        if self.is_new && self.counts.is_empty() {
            // An empty file is as good as none.
            let _ = fs::remove_file(&self.path);
        }
    }
}
