//! Policies, and their revisions.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns_core::Repository;
use mongo_patterns_history::HistoryRepository;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::{Collection, Database, IndexModel};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, elements, integer};

const POLICIES: i64 = 8;
const CURRENT: &str = "currentPolicies";
const REVISIONS: &str = "policyRevisions";

fn policies(database: &Database) -> Result<HistoryRepository<Document>> {
    let (current, revisions) = (
        database.collection::<Document>(CURRENT),
        database.collection::<Document>(REVISIONS),
    );
    let builder = HistoryRepository::builder(current, revisions)
        .id_field("policyId")
        .revision_field("revision")
        .time_field("dateSet");
    Ok(builder.build()?)
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    database.create_collection(CURRENT).await?;
    database.create_collection(REVISIONS).await?;
    match source {
        Source::Ours => drop(policies(database)?.ensure_indexes().await?),
        _ => {
            let keys = doc! { "policyId": 1, "revision": -1 };
            let revisions = database.collection::<Document>(REVISIONS);
            revisions.create_index(IndexModel::builder().keys(keys).build()).await?;
        }
    }
    for id in 0..POLICIES {
        let policy = doc! {
            "policyId": id, "customerName": "Michelle", "revision": 1, "itemsInsured": [], "dateSet": DateTime::now(),
        };
        database.collection::<Document>(CURRENT).insert_one(&policy).await?;
        // The recipe of the agent skills stores earlier revisions only.
        if source != Source::AgentSkills {
            database.collection::<Document>(REVISIONS).insert_one(&policy).await?;
        }
    }
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let (ours, current) = (policies(database)?, database.collection(CURRENT));
        let revisions = database.collection(REVISIONS);
        Ok(write(move |number| {
            let (ours, current, revisions) = (ours.clone(), current.clone(), revisions.clone());
            async move {
                let (policy, item) = (number as i64 % POLICIES, number as i64);
                match source {
                    Source::Ours => {
                        // A retry adds the item once.
                        let insure = doc! { "$addToSet": { "itemsInsured": item } };
                        ours.update(policy, insure).await?;
                    }
                    Source::AgentSkills => copy_and_update(&current, &revisions, policy, item).await?,
                    _ => {
                        update_and_merge(&current, policy, item).await?;
                    }
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

/// Follows the manual, "Keep a History of Document Versions".
async fn update_and_merge(current: &Collection<Document>, policy: i64, item: i64) -> Result<(), Failure> {
    let update = doc! {
        "$push": { "itemsInsured": item }, "$inc": { "revision": 1 }, "$currentDate": { "dateSet": true },
    };
    current.update_one(doc! { "policyId": policy }, update).await?;
    let copy = [
        doc! { "$match": { "policyId": policy } },
        doc! { "$set": { "_id": ObjectId::new() } },
        doc! { "$merge": { "into": REVISIONS, "on": "_id", "whenNotMatched": "insert" } },
    ];
    let _: Vec<Document> = current.aggregate(copy).await?.try_collect().await?;
    Ok(())
}

/// Follows `mongodb/agent-skills`, `mongodb-schema-design/references/pattern-document-versioning.md`: a read, a copy, and an
/// update of what was read.
async fn copy_and_update(
    current: &Collection<Document>,
    revisions: &Collection<Document>,
    policy: i64,
    item: i64,
) -> Result<(), Failure> {
    let found = current.find_one(doc! { "policyId": policy }).await?;
    let found = found.ok_or_else(|| Failure::Refused("the policy is missing".to_owned()))?;
    let mut copy = found.clone();
    copy.remove("_id");
    revisions.insert_one(copy).await?;
    let mut items = found.get_array("itemsInsured").cloned().unwrap_or_default();
    items.push(item.into());
    let revision = found.get_i32("revision").unwrap_or_default() + 1;
    let set = doc! { "$set": { "itemsInsured": items, "revision": revision, "dateSet": DateTime::now() } };
    current.update_one(doc! { "policyId": policy }, set).await?;
    Ok(())
}

pub(super) async fn check(source: Source, database: &Database, ledger: &Ledger) -> Result<Hazards> {
    let (current, revisions) = (all(database, CURRENT).await?, all(database, REVISIONS).await?);
    hazards(source != Source::AgentSkills, &current, &revisions, ledger)
}

/// A revision is doubled if its number is stored twice, and a gap if it is not stored. A policy is stale if its newest
/// revision differs from it. Revisions beyond that of the current document, and those of no policy, are wrong.
fn hazards(stores_newest: bool, current: &[Document], revisions: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut times = Times::default();
    let mut of_policies: BTreeMap<i64, BTreeMap<i64, Vec<&Document>>> = BTreeMap::new();
    for revision in revisions {
        let of_policy = of_policies.entry(integer(revision, "policyId")?).or_default();
        of_policy
            .entry(integer(revision, "revision")?)
            .or_default()
            .push(revision);
    }
    let (mut doubled, mut stale, mut gaps, mut wrong) = (0, 0, 0, 0);
    for policy in current {
        for item in elements(policy, "itemsInsured")?.iter().filter_map(Bson::as_i64) {
            times.add(item);
        }
        let newest = integer(policy, "revision")?;
        let copies = of_policies.remove(&integer(policy, "policyId")?).unwrap_or_default();
        let last = if stores_newest { newest } else { newest - 1 };
        gaps += (1..=last).filter(|number| !copies.contains_key(number)).count() as u64;
        doubled += copies.values().map(|copies| copies.len() as u64 - 1).sum::<u64>();
        wrong += copies.keys().filter(|number| **number > last).count() as u64;
        let is_newest = |copy: &&Document| content(copy) == content(policy);
        stale += u64::from(stores_newest && !copies.get(&newest).is_some_and(|copies| copies.iter().any(is_newest)));
    }
    wrong += of_policies.values().map(|copies| copies.len() as u64).sum::<u64>();
    Ok(Hazards {
        lost: times.lost(ledger, |_| true),
        doubled: times.doubled() + doubled,
        stale: Some(stale),
        gaps: Some(gaps),
        wrong,
    })
}

fn content(document: &Document) -> Document {
    let mut content = document.clone();
    content.remove("_id");
    content
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    /// Returns a revision of policy 0 with items from 0.
    fn revision(number: i32) -> Document {
        let items: Vec<Bson> = (0..i64::from(number) - 1).map(|n| (n * POLICIES).into()).collect();
        doc! { "_id": ObjectId::new(), "policyId": 0_i64, "revision": number, "itemsInsured": items }
    }

    fn found(current: i32, numbers: impl IntoIterator<Item = i32>) -> Hazards {
        let revisions: Vec<Document> = numbers.into_iter().map(revision).collect();
        let mut fates = [Fate::Unknown; 17];
        (fates[0], fates[8]) = (Fate::Acknowledged, Fate::Acknowledged);
        hazards(true, &[revision(current)], &revisions, &Ledger::of(&fates)).unwrap()
    }

    fn none() -> Hazards {
        Hazards {
            stale: Some(0),
            gaps: Some(0),
            ..Hazards::default()
        }
    }

    #[test]
    fn all_revisions_once_are_correct() {
        assert_eq!(found(3, 1..=3), none());
    }

    #[test]
    fn each_hazard_is_found() {
        assert_eq!(found(2, 1..=2), Hazards { lost: 1, ..none() });
        let gap = Hazards {
            gaps: Some(1),
            ..none()
        };
        assert_eq!(found(3, [1, 3]), gap);
        assert_eq!(found(3, [1, 2, 2, 3]), Hazards { doubled: 1, ..none() });
        assert_eq!(found(3, 1..=4), Hazards { wrong: 1, ..none() });
        let newest_missing = Hazards {
            gaps: Some(1),
            stale: Some(1),
            ..none()
        };
        assert_eq!(found(3, 1..=2), newest_missing);
    }
}
