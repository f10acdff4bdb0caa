//! The result of concurrent purchases.

use std::collections::HashMap;

use anyhow::Result;
use futures::TryStreamExt;
use mongodb::bson::{Document, doc};
use serde_json::json;

use super::by_hand;
use super::collections::{Collections, book, operation, user};
use crate::bench::Bench;
use crate::measure::in_tasks;
use crate::report::{self, Section, Table};

const WRITERS: u64 = 64;
/// The number of runs in a round, because the anomalies do not occur in every run.
const RUNS: usize = 2;
/// The number of writers that add the same unique customer.
const SAME: u64 = 8;

const TEXT: &str = "\
64 writers add purchases to one book, by the manual's logic and by ours, several times. The book should have 50 of \
them in its array and the rest in overflow documents, each once. The index that the manual proposes for these is not \
unique. In the rows with unique customers, eight writers add each customer concurrently. A column has the smallest \
and the largest value of all runs.";

#[derive(Clone, Copy, Debug)]
enum Form {
    Manual,
    WriteBack,
    Push,
    CheckThenPush,
    PushUnique,
}

impl Form {
    const ALL: [Self; 5] = [
        Self::Manual,
        Self::WriteBack,
        Self::Push,
        Self::CheckThenPush,
        Self::PushUnique,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Manual => "the manual's logic",
            Self::WriteBack => "the same, writing the array back",
            Self::Push => "push",
            Self::CheckThenPush => "the manual's, if absent",
            Self::PushUnique => "push_unique",
        }
    }

    /// Returns whether customers are unique.
    fn is_unique(self) -> bool {
        matches!(self, Self::CheckThenPush | Self::PushUnique)
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct RunResult {
    inline: u64,
    extras: u64,
    lost: u64,
    doubled: u64,
    round_trips: f64,
}

type Column = (&'static str, fn(&RunResult) -> f64);

const COLUMNS: [Column; 5] = [
    ("in the array", |result| result.inline as f64),
    ("overflow documents", |result| result.extras as f64),
    ("lost", |result| result.lost as f64),
    ("doubled", |result| result.doubled as f64),
    ("round trips", |result| result.round_trips),
];

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let purchases = bench.pick(2000, 256);
    let (mut rows, mut raw) = (Vec::new(), Vec::new());
    for form in Form::ALL {
        let mut runs = Vec::new();
        for _ in 0..bench.rounds * RUNS {
            runs.push(run_once(bench, form, purchases).await?);
        }
        let mut row = vec![form.name().to_owned()];
        let mut figures = serde_json::Map::new();
        for (column, of) in COLUMNS {
            let values: Vec<f64> = runs.iter().map(of).collect();
            row.push(report::least_and_most(&values));
            figures.insert(column.to_owned(), json!(values));
        }
        rows.push(row);
        raw.push(json!({ "name": form.name(), "figures": figures }));
    }
    let title = format!(
        "{} purchases of one book by 64 writers",
        report::number(purchases as f64)
    );
    let mut section = Section::new("hazards", "Concurrent purchases", TEXT);
    section.raw.push(json!({ "title": title, "entries": raw }));
    let names = COLUMNS.map(|(column, _)| column.to_owned());
    section.tables.push(Table {
        title,
        columns: std::iter::once(String::new()).chain(names).collect(),
        rows,
    });
    Ok(section)
}

async fn run_once(bench: &Bench<'_>, form: Form, purchases: u64) -> Result<RunResult> {
    let collections = Collections::recorded(bench, "hazards");
    let books = match form {
        Form::Push => collections.fresh().await?,
        Form::PushUnique => collections.fresh_of(collections.builder().unique_elements()).await?,
        _ => {
            collections.as_in_the_manual().await?;
            collections.books()?
        }
    };
    collections.insert_unbounded([book(2, 0)]).await?;
    let to = collections.clone();
    let push = operation(move |n| {
        let (collections, books) = (to.clone(), books.clone());
        async move {
            let user = user(if form.is_unique() { n / SAME } else { n });
            match form {
                Form::Manual => by_hand::push_as_in_the_manual(&collections, 2, &user).await?,
                Form::WriteBack => by_hand::write_back(&collections, 2, &user).await?,
                Form::Push => drop(books.push(2, &user).await?),
                Form::CheckThenPush => by_hand::check_then_push(&collections, 2, &user).await?,
                Form::PushUnique => drop(books.push_unique(2, &user).await?),
            }
            Ok(())
        }
    });
    let recorder = bench.db.recorder();
    recorder.clear();
    in_tasks(WRITERS, purchases, push).await?;
    let round_trips = recorder.round_trips() as f64 / purchases as f64;
    recorder.clear();

    let wanted = if form.is_unique() { purchases / SAME } else { purchases };
    let main = collections.sales.find_one(doc! {}).await?.unwrap_or_default();
    let extras: Vec<Document> = collections.extras.find(doc! {}).await?.try_collect().await?;
    let inline = main.get_array("customers_purchased")?;
    let mut stored: HashMap<&str, u64> = HashMap::new();
    let arrays = extras
        .iter()
        .map(|extras| extras.get_array("customers_purchased_extra"));
    for array in arrays.chain([Ok(inline)]) {
        for user in array?.iter().filter_map(|user| user.as_str()) {
            *stored.entry(user).or_default() += 1;
        }
    }
    Ok(RunResult {
        inline: inline.len() as u64,
        extras: extras.len() as u64,
        lost: wanted - stored.len() as u64,
        doubled: stored.values().map(|times| times - 1).sum(),
        round_trips,
    })
}
