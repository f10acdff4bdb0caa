//! The example of MongoDB's manual, "Keep a History of Document Versions": insurance policies, and every revision of each.
//! Eight tasks change one policy and eight others concurrently. Then the program reads the past, compares two revisions,
//! and restores one.
//!
//! `cargo run --example policy_history`

mod support;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use mongo_patterns::history::HistoryRepository;
use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit::CommandRecorder;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};
use serde::{Deserialize, Serialize};
use support::shell;

const TASKS: i32 = 8;
/// The changes that each task makes to policy 1, and to the others together.
const CHANGES: i32 = 40;
const OTHERS: i32 = 8;

/// The revision and its time belong to the repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    policy_id: i32,
    customer_name: String,
    items_insured: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("policy_history").await?;
    let policies = HistoryRepository::<Policy>::builder(
        database.collection::<Document>("currentPolicies"),
        database.collection::<Document>("policyRevisions"),
    )
    .id_field("policyId")
    .revision_field("revision")
    .time_field("dateSet")
    .build()?;
    policies.ensure_indexes().await?;

    println!("# A policy is changed: the current document, and a copy of each of its revisions\n");
    policies.insert(&policy(1, "Michelle", &["Car", "Watch"])).await?;
    let insure = |item: &str| doc! { "$push": { "itemsInsured": item } };
    recorder.clear();
    policies.update(1, insure("Ring")).await?;
    print_wire(&recorder);
    print_stored(&database, 1).await?;

    println!("# A change of what another one has read is refused\n");
    let stale = policies.update(1, insure("Boat")).expecting(1).await;
    let error = stale.err().context("a change at revision 1 was accepted")?;
    ensure!(error.kind() == ErrorKind::RevisionMismatch);
    println!("{:?}: {error}\n", error.kind());

    println!("# {TASKS} tasks make {CHANGES} changes each to policy 1, and {CHANGES} to {OTHERS} others\n");
    for id in 2..2 + OTHERS {
        policies.insert(&policy(id, "Arlo", &["Car"])).await?;
    }
    let tasks = (0..TASKS).map(|task| {
        let policies = policies.clone();
        tokio::spawn(async move {
            for change in 0..CHANGES {
                let item = format!("Item {task}-{change}");
                policies.update(1, insure(&item)).await?;
                policies.update(2 + change % OTHERS, insure(&item)).await?;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    let changes = TASKS * CHANGES;
    let revisions = check_revisions(&database).await?;
    for (id, revisions) in &revisions {
        let expected = if *id == 1 { 2 + changes } else { 1 + changes / OTHERS };
        ensure!(*revisions == expected, "policy {id} has {revisions} revisions");
    }
    println!(
        "policy 1 has the revisions 1 to {}, without a gap or a double",
        revisions[&1]
    );
    println!("the others have the revisions 1 to {}\n", revisions[&2]);

    println!("# What was insured at some time\n");
    let past = policies.at(1, 100).await?.context("revision 100 is missing")?;
    let found = policies
        .as_of(1, past.time)
        .await?
        .context("no revision at that time")?;
    ensure!(found == past);
    let policy_then = found.document.context("the policy was deleted")?;
    println!(
        "revision {}: {} items\n",
        found.revision,
        policy_then.items_insured.len()
    );

    println!("# What the last change was\n");
    let last = u64::try_from(revisions[&1])?;
    for change in policies.diff(1, last - 1, last).await?.changes {
        ensure!(change.before.is_none() && change.after.is_some());
        println!("{} was added\n", change.path);
    }

    println!("# A restored revision is a new one\n");
    let restored = policies.restore(1, 2).await?;
    let now = policies.get(1).await?.context("the policy does not exist")?;
    println!("revision {}: {:?}\n", restored.revision, now.document.items_insured);

    println!("# The newest revisions\n");
    let page = policies.revisions(1).newest_first().limit(3).page().await?;
    for revision in &page.items {
        let items = revision
            .document
            .as_ref()
            .map_or(0, |policy| policy.items_insured.len());
        println!("revision {}: {items} items", revision.revision);
    }
    ensure!(page.next.is_some());

    check_revisions(&database).await?;
    let findings: Vec<_> = policies.verify().stream().try_collect().await?;
    ensure!(findings.is_empty(), "{findings:?}");
    Ok(())
}

fn policy(policy_id: i32, customer_name: &str, items: &[&str]) -> Policy {
    Policy {
        policy_id,
        customer_name: customer_name.to_owned(),
        items_insured: items.iter().map(|item| (*item).to_owned()).collect(),
    }
}

/// Checks, without the repository, that each policy has the revisions 1 to n, and that the current document is revision n.
/// Returns n for each policy.
async fn check_revisions(database: &Database) -> Result<BTreeMap<i32, i32>> {
    let mut numbers = BTreeMap::new();
    for now in sorted(&database.collection("currentPolicies"), doc! {}).await? {
        let id = now.get_i32("policyId")?;
        let revisions = sorted(&database.collection("policyRevisions"), doc! { "policyId": id }).await?;
        for (revision, number) in revisions.iter().zip(1..) {
            ensure!(
                revision.get_i32("revision")? == number,
                "policy {id} lacks revision {number}"
            );
        }
        let newest = revisions.last().context("a policy without a revision")?;
        ensure!(
            without_id(&now) == without_id(newest),
            "policy {id} differs from its newest revision"
        );
        numbers.insert(id, newest.get_i32("revision")?);
    }
    Ok(numbers)
}

async fn sorted(collection: &Collection<Document>, filter: Document) -> Result<Vec<Document>> {
    let found = collection.find(filter).sort(doc! { "policyId": 1, "revision": 1 });
    Ok(found.await?.try_collect().await?)
}

fn without_id(document: &Document) -> Document {
    let mut document = document.clone();
    document.remove("_id");
    document
}

/// Replaces the times, which differ in each run.
fn without_times(value: Bson) -> Bson {
    match value {
        Bson::DateTime(_) => Bson::String("(time)".to_owned()),
        Bson::Document(document) => {
            let fields = document.into_iter().map(|(name, value)| (name, without_times(value)));
            Bson::Document(fields.collect())
        }
        Bson::Array(values) => Bson::Array(values.into_iter().map(without_times).collect()),
        other => other,
    }
}

fn print_wire(recorder: &CommandRecorder) {
    println!("On the wire:");
    for mut command in recorder.commands() {
        if let Bson::Document(sent) = without_times(Bson::Document(command.command.clone())) {
            command.command = sent;
        }
        println!("  {}", shell::call(&command));
    }
    println!();
}

async fn print_stored(database: &Database, id: i32) -> Result<()> {
    for name in ["currentPolicies", "policyRevisions"] {
        let stored = sorted(&database.collection(name), doc! { "policyId": id }).await?;
        println!("Stored in {name}:");
        for document in stored {
            println!("  {}", shell::compact(&without_times(Bson::Document(document))));
        }
    }
    println!();
    Ok(())
}
