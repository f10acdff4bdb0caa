//! Many writers on one product.

use anyhow::{Result, ensure};
use mongodb::bson::doc;

use super::by_hand;
use super::collections::{Collections, Products, review};
use crate::bench::Bench;
use crate::measure::{Variant, Work, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const WRITERS: u64 = 16;

const TEXT: &str = "\
Sixteen writers insert reviews of one product, each newer than those before. In one process, \
they share transactions; in four processes, they conflict. An attempt is a transaction that was started. Rows are \
compared with one process.";

/// The names of the rows, with their numbers of processes.
const FORMS: [(&str, usize); 2] = [("one process", 1), ("4 processes", 4)];

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let operations = bench.pick(480, 32);
    let variants = FORMS.map(|(name, processes)| {
        let collections = Collections::timed(bench, "hot");
        let variant = Variant::new(name, operations, move || {
            prepare(processes, collections.clone(), operations)
        });
        variant.against(FORMS[0].0).ours()
    });
    let title = "16 writers on one product";
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "review", entries).with_server_ratios();
    for (name, processes) in FORMS {
        let collections = Collections::recorded(bench, "hot");
        let work = prepare(processes, collections.clone(), operations).await?;
        let recorder = bench.db.recorder();
        recorder.clear();
        work.await?;
        let commands = recorder.commands();
        let tries = commands
            .iter()
            .filter(|command| command.command.contains_key("startTransaction"));
        comparison.figure(name, "attempts", tries.count() as f64 / operations as f64);
        let trips = commands.len() as f64 / operations as f64;
        comparison.figure(name, "round trips", trips);
        let product = collections.products.find_one(doc! {}).await?.unwrap_or_default();
        let newest: Vec<i64> = (0..10).map(|n| operations as i64 - 1 - n).collect();
        ensure!(by_hand::shown(&product) == newest, "{name}: the subset is incorrect");
        recorder.clear();
    }
    let mut section = Section::new("hot-product", "Many writers on one product", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn prepare(processes: usize, collections: Collections, operations: u64) -> Result<Work> {
    collections.filled(1, 0).await?;
    let mut repositories: Vec<Products> = Vec::new();
    for _ in 0..processes {
        let repository = collections.repository()?;
        repository.delete(0, -1).await?; // checks the indexes, as the first write does once
        repositories.push(repository);
    }
    collections.settle().await?;
    let insert = operation(move |n| {
        let repository = repositories[n as usize % repositories.len()].clone();
        async move {
            repository.insert(&review(0, n as i64, n as i64)).await?;
            Ok(())
        }
    });
    Ok(in_tasks(WRITERS, operations, insert))
}
