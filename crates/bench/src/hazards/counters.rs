//! Views of articles, which are counted in the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use mongo_patterns_counters::Counters;
use mongodb::bson::{Document, doc};
use mongodb::{Collection, Database};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use super::load::{Answer, END, Failure, Fate, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{all, integer};
use crate::bucket::scatter;

const COLLECTION: &str = "articles";
const ARTICLES: u64 = 10;
/// From how many views the recipe writes.
const THRESHOLD: i64 = 100;

/// Returns the article that an operation views. Few have most of the views.
fn viewed(number: u64) -> i64 {
    let random = scatter(number) % 1000;
    (random * random * ARTICLES / 1_000_000) as i64
}

pub(super) async fn prepare(database: &Database) -> Result<()> {
    let new = (0..ARTICLES as i64).map(|id| doc! { "_id": id, "title": "News" });
    database.collection::<Document>(COLLECTION).insert_many(new).await?;
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let articles = database.collection(COLLECTION);
        match source {
            Source::Ours => flushed(articles),
            _ => Ok(by_threshold(articles)),
        }
    };
    databases.iter().map(of_client).collect()
}

fn flushed(articles: Collection<Document>) -> Result<Write> {
    let interval = Duration::from_millis(200);
    let views = Counters::builder(articles)
        .field("views")
        .upsert()
        .interval(interval)
        .build()?;
    let (shutdown, flushing) = (Arc::new(Notify::new()), views.clone());
    let ended = Arc::clone(&shutdown);
    let running = tokio::spawn(async move { flushing.run().until(ended.notified()).await.map(drop) });
    let running: Arc<Mutex<Option<JoinHandle<_>>>> = Arc::new(Mutex::new(Some(running)));
    Ok(write(move |number| {
        let (views, shutdown, running) = (views.clone(), Arc::clone(&shutdown), Arc::clone(&running));
        async move {
            if number != END {
                views.add(viewed(number), 1)?;
                return Ok(Answer::Done);
            }
            shutdown.notify_one();
            let running = running.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(running) = running {
                running.await.map_err(|error| Failure::Refused(error.to_string()))??;
            }
            Ok(Answer::Done)
        }
    }))
}

/// Follows the agent skills, "Approximation Pattern": "When the local counter reaches the threshold, the application issues a
/// single `$inc` by the threshold amount". A request does not wait for it.
fn by_threshold(articles: Collection<Document>) -> Write {
    let local = Arc::new(Mutex::new((HashMap::<i64, i64>::new(), JoinSet::new())));
    write(move |number| {
        let (local, articles) = (Arc::clone(&local), articles.clone());
        async move {
            if number == END {
                let mut writes = std::mem::take(&mut local.lock().unwrap_or_else(PoisonError::into_inner).1);
                while writes.join_next().await.is_some() {}
                return Ok(Answer::Done);
            }
            let (counts, writes) = &mut *local.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(viewed(number)).or_default();
            *count += 1;
            if *count == THRESHOLD {
                *count = 0;
                let update = doc! { "$inc": { "views": THRESHOLD }, "$currentDate": { "lastSyncedAt": true } };
                writes.spawn(async move { articles.update_one(doc! { "_id": viewed(number) }, update).await });
            }
            Ok(Answer::Done)
        }
    })
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    hazards(&all(database, COLLECTION).await?, ledger)
}

fn hazards(articles: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut views = HashMap::<i64, (u64, u64)>::new();
    for (number, fate) in ledger.all() {
        let (acknowledged, unknown) = views.entry(viewed(number)).or_default();
        match fate {
            Fate::Acknowledged => *acknowledged += 1,
            _ => *unknown += 1,
        }
    }
    let mut found = Hazards::default();
    for article in articles {
        let stored = match article.contains_key("views") {
            true => integer(article, "views")? as u64,
            false => 0,
        };
        let (acknowledged, unknown) = views.remove(&integer(article, "_id")?).unwrap_or_default();
        found.lost += acknowledged.saturating_sub(stored);
        found.doubled += stored.saturating_sub(acknowledged + unknown);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hazard_is_found() {
        let ledger = Ledger::of(&[Fate::Acknowledged; 3]);
        let id = viewed(0);
        let of = (0..3).filter(|number| viewed(*number) == id).count() as i64;
        let found = |views: i64| hazards(&[doc! { "_id": id, "views": views }], &ledger).unwrap();
        let none = Hazards::default();
        assert_eq!(found(of), none);
        assert_eq!(found(of - 1), Hazards { lost: 1, ..none });
        assert_eq!(found(of + 2), Hazards { doubled: 2, ..none });
        let never = hazards(&[doc! { "_id": id }], &ledger).unwrap();
        assert_eq!(never.lost, of as u64);
    }
}
