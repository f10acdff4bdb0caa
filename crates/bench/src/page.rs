//! The files of a run: a page, its charts, and all figures.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use mongodb::bson::DateTime;
use serde_json::json;

use crate::bench::Bench;
use crate::part::Part;
use crate::report::Section;
use crate::svg::Chart;

/// The conditions of a run.
pub(crate) struct Run {
    server: String,
    own_server: bool,
    date: String,
    cores: usize,
    rounds: usize,
    quick: bool,
}

impl Run {
    pub(crate) fn new(bench: &Bench<'_>) -> Self {
        let now = DateTime::now().try_to_rfc3339_string().unwrap_or_default();
        Self {
            server: bench.db.server().version().to_owned(),
            own_server: bench.db.server().is_own(),
            date: now.split('T').next().unwrap_or_default().to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            rounds: bench.rounds,
            quick: bench.quick,
        }
    }

    /// Returns the conditions in one or two sentences.
    pub(crate) fn summary(&self) -> String {
        let location = if self.own_server {
            "on the machine of the client, a replica set of one node"
        } else {
            "at MONGODB_URI"
        };
        let mut text = format!(
            "MongoDB {} {location}, {}, {} cores, {} after one to warm up.",
            self.server,
            self.date,
            self.cores,
            if self.rounds == 1 {
                "one round".to_owned()
            } else {
                format!("{} rounds", self.rounds)
            }
        );
        if self.quick {
            text += " A quick run, with smaller sizes than in the text: the figures are not meaningful.";
        }
        if cfg!(debug_assertions) {
            text += " An unoptimized build: the client CPU is not meaningful.";
        }
        text
    }
}

/// The page that explains all of them.
const FIRST: &str = "README.md";

const HOW: &str = "\
This page is written by

```text
cargo run --release -p mongo-patterns-bench
```

To measure your own machine and server, run the same command. `--quick` runs smaller sizes, `--only NAME` runs one \
section.

Absolute figures are those of one machine, with the server and the client on the same cores; compare the ratios. In \
every round, the rows of a table take turns. A ratio is that of two rows in one round, and the table has the median \
of the rounds, with the smallest and the largest in brackets. Each section names the row that the others are compared \
with. A rate ratio above 1 is faster than that row; a CPU ratio above 1 takes more CPU time in the client. CPU is \
that of each process, in microseconds per operation. Round trips per operation are counted on the wire, and documents \
and index keys examined are those of the server's `explain`; both are counted in separate passes. Every write has the \
write concern `majority`, the server's default. In the charts, blue is this project.
";

/// Writes all files of a part to a folder. The page begins with the summary.
pub(crate) fn write(folder: &Path, run: &Run, part: &Part, sections: &[Section], summary: &str) -> Result<()> {
    let save = |file: &str, text: &str| {
        let path = folder.join(file);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for chart in sections.iter().flat_map(|section| &section.charts) {
        save(&format!("{}-{}", part.name, chart.file), &chart.svg())?;
    }
    save(part.page, &page(run, part, sections, summary))?;
    let figures: Vec<_> = sections
        .iter()
        .map(|section| json!({ "name": section.name, "title": section.title, "comparisons": section.raw }))
        .collect();
    let json = json!({
        "server_version": run.server,
        "date": run.date,
        "cores": run.cores,
        "rounds": run.rounds,
        "quick": run.quick,
        "optimised_build": !cfg!(debug_assertions),
        "sections": figures,
    });
    save(
        &format!("{}.json", part.name),
        &(serde_json::to_string_pretty(&json)? + "\n"),
    )
}

fn page(run: &Run, part: &Part, sections: &[Section], summary: &str) -> String {
    let how = match part.page {
        FIRST => HOW,
        _ => "[How to read this page, and how to run it](README.md).\n",
    };
    let mut text = format!(
        "# Benchmarks: the {} pattern\n\n{} All figures are in [{}.json]({}.json).\n\n{how}{summary}",
        part.name,
        run.summary(),
        part.name,
        part.name
    );
    for section in sections {
        text += &format!("\n## {}\n\n{}\n", section.title, section.text);
        let mut charts = section.charts.iter();
        for table in &section.tables {
            text += &format!("\n**{}**\n\n", table.title);
            let figures = table.markdown();
            text += &match charts.next() {
                None => figures,
                // The chart shows what a reader decides by.
                Some(Chart { title, file, .. }) => format!(
                    "![{title}]({}-{file})\n\n<details>\n<summary>All figures</summary>\n\n{figures}\n</details>\n",
                    part.name
                ),
            };
        }
    }
    text
}
