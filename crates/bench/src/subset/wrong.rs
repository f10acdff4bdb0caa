//! The result of concurrent writes.

use anyhow::{Context, Result};
use futures::TryStreamExt;
use mongo_patterns_core::ErrorKind;
use mongo_patterns_subset::Problem;
use mongodb::bson::doc;
use serde_json::json;

use super::by_hand::shown;
use super::collections::{Collections, Products, review};
use super::naive::Naive;
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::measure::{in_tasks, operation};
use crate::report::{self, Section, Table};

const TEXT: &str = "\
Writers change the reviews of 40 products: half of the operations insert one, three in ten delete one and two in ten \
change its text and date, mostly of a review in the subset. In the end, each product should have its ten newest \
reviews as they are stored. The naive forms: `$pull` the review and `$push` the next ones; read the ten newest and \
`$set` them; `$push` a new one, and after other changes write the ten newest by an aggregation with `$merge`. Ours \
runs in one process and in eight independent ones. A column has the smallest and the largest \
value of all runs. Commands do not include the finds by which the writers choose a review.";

const WRITERS: [u64; 2] = [16, 64];
/// The maximum number of runs, which are slow.
const RUNS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Form {
    Naive(Naive),
    Ours(usize),
}

impl Form {
    const ALL: [Self; 5] = [
        Self::Naive(Naive::PullAndPush),
        Self::Naive(Naive::ReadAndSet),
        Self::Naive(Naive::PushAndMerge),
        Self::Ours(1),
        Self::Ours(8),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Naive(Naive::PullAndPush) => "$pull, $push the next",
            Self::Naive(Naive::ReadAndSet) => "read the newest, $set them",
            Self::Naive(Naive::PushAndMerge) => "$push new ones, $merge the rest",
            Self::Ours(1) => "ours",
            Self::Ours(_) => "ours, eight processes",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let (products, operations) = bench.pick((40, 2400), (8, 128));
    let mut section = Section::new("wrong-subsets", "Wrong subsets", TEXT);
    let mut rows: Vec<Vec<String>> = Form::ALL.map(|form| vec![form.name().to_owned()]).into();
    let mut columns = vec![String::new()];
    for writers in WRITERS {
        columns.push(format!("wrong, {writers} writers"));
        columns.push(format!("commands per operation, {writers} writers"));
        let mut raw = Vec::new();
        for (form, row) in Form::ALL.into_iter().zip(&mut rows) {
            let (mut wrong, mut commands) = (Vec::new(), Vec::new());
            for run in 0..bench.rounds.min(RUNS) {
                let result = run_once(bench, form, writers, products, operations, run as u64).await?;
                wrong.push(result.0);
                commands.push(result.1);
            }
            row.push(report::least_and_most(&wrong));
            row.push(report::least_and_most(&commands));
            let figures = json!({ "wrong": wrong, "commands per operation": commands });
            raw.push(json!({ "name": form.name(), "figures": figures }));
        }
        section
            .raw
            .push(json!({ "title": format!("{writers} writers"), "entries": raw }));
    }
    let title = format!(
        "Wrong subsets of {products} after {} operations",
        report::number(operations as f64)
    );
    section.tables.push(Table { title, columns, rows });
    Ok(section)
}

/// Runs once. Returns the number of incorrect subsets, and the number of commands per operation.
async fn run_once(
    bench: &Bench<'_>,
    form: Form,
    writers: u64,
    products: i32,
    operations: u64,
    run: u64,
) -> Result<(f64, f64)> {
    let (collections, plain) = (
        Collections::recorded(bench, "wrong"),
        Collections::timed(bench, "wrong"),
    );
    plain.filled(products, 5).await?;
    let processes = match form {
        Form::Ours(processes) => processes,
        Form::Naive(_) => 1,
    };
    let repositories: Result<Vec<Products>> = (0..processes).map(|_| collections.repository()).collect();
    let repositories = repositories?;
    let chooser = plain.clone();
    let write = operation(move |n| {
        let (collections, plain) = (collections.clone(), chooser.clone());
        let ours = repositories[(n % writers) as usize % repositories.len()].clone();
        async move {
            let bits = scatter((run << 32) | n);
            let product = (bits % products as u64) as i32;
            let minute = (bits >> 8) as i64 % 60;
            let what = (bits >> 16) % 10;
            if what < 5 {
                let new = review(product, 100 + n as i64, minute);
                return match form {
                    Form::Naive(naive) => naive.insert(&collections, &new).await,
                    Form::Ours(_) => Ok(ours.insert(&new).await.map(|_| ())?),
                };
            }
            let shown = shown(
                &plain
                    .products
                    .find_one(doc! { "_id": product })
                    .await?
                    .unwrap_or_default(),
            );
            if shown.is_empty() {
                return Ok(());
            }
            let id = shown[(bits >> 24) as usize % shown.len()];
            if what < 8 {
                return match form {
                    Form::Naive(naive) => naive.delete(&collections, product, id).await,
                    Form::Ours(_) => Ok(ours.delete(product, id).await.map(|_| ())?),
                };
            }
            let new = review(product, id, minute);
            let set = doc! { "published_date": new.published_date, "review_text": format!("edit {n}") };
            match form {
                Form::Naive(naive) => naive.update(&collections, product, id, set).await,
                Form::Ours(_) => match ours.update(product, id, doc! { "$set": set }).await {
                    Err(error) if error.kind() != ErrorKind::ChildNotFound => Err(error.into()),
                    _ => Ok(()),
                },
            }
        }
    });
    let recorder = bench.db.recorder();
    recorder.clear();
    in_tasks(writers, operations, write).await?;
    let commands = recorder.round_trips() as f64 / operations as f64;
    recorder.clear();
    Ok((wrong(&plain).await? as f64, commands))
}

/// Returns the number of products whose subset is not that of their newest reviews.
async fn wrong(collections: &Collections) -> Result<usize> {
    let repository = collections.repository()?;
    let findings = repository.verify().stream();
    let findings: Vec<_> = findings.try_collect().await.context("verify")?;
    Ok(findings
        .iter()
        .filter(|finding| finding.problem == Problem::Stale)
        .count())
}
