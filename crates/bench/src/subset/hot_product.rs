//! Many writers on one product.

use anyhow::{Result, ensure};
use mongo_patterns_subset::Consistency;
use mongodb::bson::doc;

use super::by_hand;
use super::collections::{Collections, Products, review};
use crate::Bench;
use crate::measure::{Variant, Work, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const WRITERS: u64 = 16;

const TEXT: &str = "\
Sixteen writers insert reviews of one product, each newer than those before. In one process, \
eventual writers share the writes of the product, and transactional ones share transactions; in \
four processes, they conflict. An attempt is a transaction that was started, \
or a write of the product. Rows are compared with the eventual insert by one process.";

#[derive(Clone, Copy, Debug)]
struct Form {
    consistency: Consistency,
    processes: usize,
}

impl Form {
    const ALL: [Self; 4] = [
        Self::of(Consistency::Eventual, 1),
        Self::of(Consistency::Eventual, 4),
        Self::of(Consistency::Transactional, 1),
        Self::of(Consistency::Transactional, 4),
    ];

    const fn of(consistency: Consistency, processes: usize) -> Self {
        Self { consistency, processes }
    }

    fn name(self) -> String {
        let processes = match self.processes {
            1 => "one process".to_owned(),
            many => format!("{many} processes"),
        };
        format!("{}, {processes}", name(self.consistency))
    }
}

fn name(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Transactional => "transactional",
        _ => "eventual",
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let operations = bench.pick(480, 32);
    let variants = Form::ALL.map(|form| {
        let collections = Collections::timed(bench, "hot");
        let variant = Variant::new(form.name(), operations, move || {
            prepare(form, collections.clone(), operations)
        });
        variant.against(Form::ALL[0].name()).ours()
    });
    let title = "16 writers on one product";
    let entries = compare(bench, title, variants.into()).await?;
    let mut comparison = Comparison::new(title, "review", entries).with_server_ratios();
    for form in Form::ALL {
        let collections = Collections::recorded(bench, "hot");
        let work = prepare(form, collections.clone(), operations).await?;
        let recorder = bench.db.recorder();
        recorder.clear();
        work.await?;
        let commands = recorder.commands();
        let tries = match form.consistency {
            Consistency::Transactional => commands
                .iter()
                .filter(|command| command.command.contains_key("startTransaction"))
                .count(),
            _ => commands.iter().filter(|command| command.name == "update").count(),
        };
        comparison.figure(&form.name(), "attempts", tries as f64 / operations as f64);
        let trips = commands.len() as f64 / operations as f64;
        comparison.figure(&form.name(), "round trips", trips);
        let product = collections.products.find_one(doc! {}).await?.unwrap_or_default();
        let newest: Vec<i64> = (0..10).map(|n| operations as i64 - 1 - n).collect();
        ensure!(
            by_hand::shown(&product) == newest,
            "{}: the subset is incorrect",
            form.name()
        );
        recorder.clear();
    }
    let mut section = Section::new("hot-product", "Many writers on one product", TEXT);
    section.add(&comparison);
    Ok(section)
}

async fn prepare(form: Form, collections: Collections, operations: u64) -> Result<Work> {
    collections.filled(1, 0).await?;
    let mut repositories: Vec<Products> = Vec::new();
    for _ in 0..form.processes {
        let repository = collections.repository(form.consistency)?;
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
