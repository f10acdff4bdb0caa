//! Reads of earlier revisions.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use mongo_patterns_history::HistoryRepository;
use mongodb::bson::{DateTime, Document, doc};

use super::policies::{Policies, policy};
use crate::bench::Bench;
use crate::bucket::scatter;
use crate::counts::{examined, round_trips};
use crate::measure::{Operation, Variant, compare, in_tasks, operation, settle};
use crate::report::{Comparison, Section, number};

/// Documents of one insert.
const BATCH: usize = 1000;
const MINUTE: i64 = 60_000;

const TEXT: &str = "\
Random revisions of one policy, with few and with many of them. Rows are compared with the same call for the shorter \
history. The figures of the server are those of the command that reads the revision.";

#[derive(Clone, Copy, Debug)]
enum Call {
    AsOf,
    At,
    Newest,
}

impl Call {
    const ALL: [Self; 3] = [Self::AsOf, Self::At, Self::Newest];

    fn name(self, length: u64) -> String {
        let call = match self {
            Self::AsOf => "as_of",
            Self::At => "at",
            Self::Newest => "revisions, newest 20",
        };
        format!("{call}, {} revisions", number(length as f64))
    }
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let lengths: [u64; 2] = bench.pick([10, 100_000], [10, 1000]);
    let calls = bench.pick(1000, 10);
    for length in lengths {
        fill(&Policies::timed(bench, &format!("long_{length}")), length).await?;
    }
    let mut variants = Vec::new();
    for call in Call::ALL {
        for length in lengths {
            let policies = Policies::timed(bench, &format!("long_{length}"));
            let read = prepare(call, policies.repository()?, length);
            let variant = Variant::new(call.name(length), calls, move || {
                let read = Arc::clone(&read);
                async move { Ok(in_tasks(1, calls, read)) }
            });
            variants.push(variant.against(call.name(lengths[0])).ours());
        }
    }
    let title = "One policy";
    let mut comparison = Comparison::new(title, "call", compare(bench, title, variants).await?);
    for call in Call::ALL {
        for length in lengths {
            let policies = Policies::recorded(bench, &format!("long_{length}"));
            let read = prepare(call, policies.repository()?, length);
            let name = call.name(length);
            let trips = round_trips(bench, 10, in_tasks(1, 10, Arc::clone(&read))).await?;
            comparison.figure(&name, "round trips", trips);
            let examined = examined(bench, read(0)).await?;
            comparison.figure(&name, "documents examined", examined.documents);
        }
    }
    let mut section = Section::new("as-of", "Read a revision", TEXT);
    section.add(&comparison);
    Ok(section)
}

/// Stores a policy with this number of revisions, one each minute.
async fn fill(policies: &Policies, length: u64) -> Result<()> {
    policies.filled(1, true).await?;
    let mut copies = Vec::new();
    for revision in 2..=length as i64 {
        copies.push(copy(revision)?);
        if copies.len() == BATCH || revision == length as i64 {
            policies.revisions.insert_many(std::mem::take(&mut copies)).await?;
        }
    }
    policies
        .current
        .replace_one(doc! { "policyId": 0_i64 }, copy(length as i64)?)
        .await?;
    settle(policies.current.client()).await
}

fn copy(revision: i64) -> Result<Document> {
    let mut copy = policy(0);
    let first = *copy.get_datetime("dateSet").context("a policy has a time")?;
    copy.insert("revision", i32::try_from(revision)?);
    copy.insert("dateSet", time(first, revision));
    Ok(copy)
}

fn time(first: DateTime, revision: i64) -> DateTime {
    DateTime::from_millis(first.timestamp_millis() + (revision - 1) * MINUTE)
}

fn prepare(call: Call, policies: HistoryRepository<Document>, length: u64) -> Operation {
    let first = policy(0).get_datetime("dateSet").copied();
    operation(move |n| {
        let (policies, first) = (policies.clone(), first.clone());
        async move {
            // The newest revision is also the current document.
            let revision = scatter(n) % (length - 1) + 1;
            let found = match call {
                Call::AsOf => policies.as_of(0_i64, time(first?, revision as i64)).await?,
                Call::At => policies.at(0_i64, revision).await?,
                Call::Newest => {
                    let page = policies.revisions(0_i64).newest_first().limit(20).page().await?;
                    ensure!(page.revisions.len() as u64 == length.min(20), "revisions are missing");
                    return Ok(());
                }
            };
            ensure!(
                found.context("the revision is missing")?.revision == revision,
                "another revision"
            );
            Ok(())
        }
    })
}
