//! What is left of purchases that come at the same time.

use std::collections::HashMap;

use anyhow::Result;
use futures::TryStreamExt;
use mongodb::bson::{Document, doc};
use serde_json::json;

use super::by_hand;
use super::place::{Place, book, operation, user};
use crate::Bench;
use crate::measure::in_tasks;
use crate::report::{self, Section, Table};

const WRITERS: u64 = 64;
/// How often in a round, since what goes wrong does not go wrong every time.
const RUNS: usize = 2;
/// How many writers add the same customer, where they are to be there once.
const SAME: u64 = 8;

const TEXT: &str = "\
64 writers add purchases to one book, by the manual's logic and by ours, several times. The book should have 50 of them in \
its array and the rest in its extras, each once. The manual proposes an index on the extras, which is not unique. Where \
customers are to be there once, eight writers add each at about the same time. A column has the least and the most of all \
runs.";

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
            Self::CheckThenPush => "the manual's, if not there yet",
            Self::PushUnique => "push_unique",
        }
    }

    /// Whether a customer is to be there once.
    fn once(self) -> bool {
        matches!(self, Self::CheckThenPush | Self::PushUnique)
    }
}

/// What a run left of its purchases.
#[derive(Clone, Copy, Debug)]
struct Left {
    inline: u64,
    extras: u64,
    lost: u64,
    doubled: u64,
    round_trips: f64,
}

type Column = (&'static str, fn(&Left) -> f64);

const COLUMNS: [Column; 5] = [
    ("in the array", |left| left.inline as f64),
    ("extras documents", |left| left.extras as f64),
    ("lost", |left| left.lost as f64),
    ("doubled", |left| left.doubled as f64),
    ("round trips", |left| left.round_trips),
];

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let purchases = bench.pick(2000, 256);
    let (mut rows, mut raw) = (Vec::new(), Vec::new());
    for form in Form::ALL {
        let mut runs = Vec::new();
        for _ in 0..bench.rounds * RUNS {
            runs.push(left_of(bench, form, purchases).await?);
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
    let mut section = Section::new("hazards", "What is left of purchases at the same time", TEXT);
    section.raw.push(json!({ "title": title, "entries": raw }));
    let names = COLUMNS.map(|(column, _)| column.to_owned());
    section.tables.push(Table {
        title,
        columns: std::iter::once(String::new()).chain(names).collect(),
        rows,
    });
    Ok(section)
}

async fn left_of(bench: &Bench<'_>, form: Form, purchases: u64) -> Result<Left> {
    let place = Place::recorded(bench, "hazards");
    let books = match form {
        Form::Push => place.fresh().await?,
        Form::PushUnique => place.fresh_of(place.builder().unique_elements()).await?,
        _ => {
            place.as_in_the_manual().await?;
            place.books()?
        }
    };
    place.insert_unbounded([book(2, 0)]).await?;
    let to = place.clone();
    let push = operation(move |n| {
        let (place, books) = (to.clone(), books.clone());
        async move {
            let user = user(if form.once() { n / SAME } else { n });
            match form {
                Form::Manual => by_hand::push_as_in_the_manual(&place, 2, &user).await?,
                Form::WriteBack => by_hand::write_back(&place, 2, &user).await?,
                Form::Push => drop(books.push(2, &user).await?),
                Form::CheckThenPush => by_hand::check_then_push(&place, 2, &user).await?,
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

    let wanted = if form.once() { purchases / SAME } else { purchases };
    let main = place.sales.find_one(doc! {}).await?.unwrap_or_default();
    let extras: Vec<Document> = place.extras.find(doc! {}).await?.try_collect().await?;
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
    Ok(Left {
        inline: inline.len() as u64,
        extras: extras.len() as u64,
        lost: wanted - stored.len() as u64,
        doubled: stored.values().map(|times| times - 1).sum(),
        round_trips,
    })
}
