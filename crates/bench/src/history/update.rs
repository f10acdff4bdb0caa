//! Updates with a history, and without one.

use anyhow::Result;

use super::by_hand;
use super::policies::{Policies, change};
use crate::bench::Bench;
use crate::counts::round_trips;
use crate::measure::{Variant, Work, compare, in_tasks, operation};
use crate::report::{Comparison, Section};

const TEXT: &str = "\
Each operation changes one field of a policy, and its revision is recorded. First one writer changes 64 policies in \
turn, then 64 tasks change one policy each, then 64 tasks change the same one. By hand, a transaction has the same two \
writes, and is retried by the driver after a conflict; a repository sends the writes of one process to one policy one \
after another. The manual's two commands lose revisions: see [What the recipes lose](../reference/hazards.md). Rows are compared with the transaction \
by hand.";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Repository,
    ByHand,
    Manual,
    Plain,
}

impl Form {
    const ALL: [Self; 4] = [Self::Repository, Self::ByHand, Self::Manual, Self::Plain];

    fn name(self) -> &'static str {
        match self {
            Self::Repository => "update",
            Self::ByHand => "the same transaction by hand",
            Self::Manual => "the manual's update and $merge",
            Self::Plain => "update_one, no history",
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let mut section = Section::new("update-policy", "Update a document with a history", TEXT);
    for (title, tasks, policies, updates) in [
        ("One writer, 64 policies", 1, 64, bench.pick(1000, 64)),
        ("64 tasks, one policy each", 64, 64, bench.pick(3200, 128)),
        ("64 tasks on one policy", 64, 1, bench.pick(640, 64)),
    ] {
        let variants = Form::ALL.map(|form| {
            let collections = Policies::timed(bench, "updated");
            let variant = Variant::new(form.name(), updates, move || {
                let collections = collections.clone();
                async move {
                    collections.filled(policies, form != Form::Manual).await?;
                    prepare(form, &collections, tasks, policies, updates).await
                }
            });
            let variant = variant.against(Form::ByHand.name());
            match form {
                Form::Repository => variant.ours(),
                _ => variant,
            }
        });
        let entries = compare(bench, title, variants.into()).await?;
        let mut comparison = Comparison::new(title, "update", entries).with_server_ratios();
        comparison.also_against(Form::Plain.name(), "rate ratio to update_one");
        for form in Form::ALL {
            let counted = 64;
            let collections = Policies::recorded(bench, "counted");
            collections.filled(policies, form != Form::Manual).await?;
            let work = prepare(form, &collections, 1, policies, counted).await?;
            comparison.figure(form.name(), "round trips", round_trips(bench, counted, work).await?);
            if form == Form::Repository {
                collections.ensure_recorded(policies, counted + 1).await?;
            }
        }
        section.add(&comparison);
    }
    Ok(section)
}

async fn prepare(form: Form, collections: &Policies, tasks: u64, policies: u64, updates: u64) -> Result<Work> {
    let collections = collections.clone();
    let repository = collections.repository()?;
    if form == Form::Repository {
        // Checks the indexes, as the first write does once.
        repository.update(0_i64, change(0)).await?;
    }
    let update = operation(move |number| {
        let (collections, repository) = (collections.clone(), repository.clone());
        let id = (number % policies) as i64;
        async move {
            match form {
                Form::Repository => drop(repository.update(id, change(number)).await?),
                Form::ByHand => by_hand::in_a_transaction(&collections, id, number).await?,
                Form::Manual => by_hand::update_and_merge(&collections, id, number).await?,
                Form::Plain => by_hand::update_one(&collections, id, number).await?,
            }
            Ok(())
        }
    });
    Ok(in_tasks(tasks, updates, update))
}
