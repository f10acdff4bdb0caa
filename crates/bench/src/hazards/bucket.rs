//! Trades of a few customers, with ten on each page.

use std::collections::HashMap;

use anyhow::Result;
use mongo_patterns_bucket::BucketRepository;
use mongo_patterns_core::Repository;
use mongodb::Database;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, elements, integer};

const COLLECTION: &str = "trades";
const CUSTOMERS: u64 = 8;
const PAGE_SIZE: u32 = 10;

type Trades = BucketRepository<u32, Document>;

fn trades(database: &Database) -> Result<Trades> {
    let builder = Trades::builder(database.collection::<Document>(COLLECTION))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .item_id_field("trade_id")
        .page_size(PAGE_SIZE);
    Ok(builder.build()?)
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    database.create_collection(COLLECTION).await?;
    if source == Source::Ours {
        trades(database)?.ensure_indexes().await?;
    }
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let (database, trades) = (database.clone(), trades(database)?);
        Ok(write(move |number| {
            let (database, trades) = (database.clone(), trades.clone());
            async move {
                let customer = (number % CUSTOMERS) as u32;
                let trade = doc! {
                    "trade_id": number as i64, "type": "buy", "ticker": "MDB", "qty": 42, "date": DateTime::now(),
                };
                match source {
                    Source::AgentSkills => find_and_upsert(&database, customer, trade).await?,
                    Source::Ours => drop(trades.append(&customer, &trade).await?),
                    _ => {
                        upsert(&database, customer, trade).await?;
                    }
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

/// Returns the filter and the update of both recipes.
fn filter_and_update(customer: u32, trade: Document) -> (Document, Document) {
    let second = DateTime::now().timestamp_millis().div_euclid(1000);
    let update = doc! {
        "$push": { "history": trade },
        "$inc": { "count": 1 },
        "$setOnInsert": { "_id": format!("{customer}_{second}"), "customerId": i64::from(customer) },
    };
    let ids = doc! { "$regex": format!("^{customer}_") };
    (doc! { "_id": ids, "count": { "$lt": PAGE_SIZE } }, update)
}

/// Follows the manual, "Group Data with the Bucket Pattern".
async fn upsert(database: &Database, customer: u32, trade: Document) -> Result<(), Failure> {
    let (filter, update) = filter_and_update(customer, trade);
    let trades = database.collection::<Document>(COLLECTION);
    trades.update_one(filter, update).upsert(true).await?;
    Ok(())
}

/// Follows `mongodb/agent-skills`, `mongodb-schema-design/references/pattern-bucket.md`: the same, on the newest bucket.
async fn find_and_upsert(database: &Database, customer: u32, trade: Document) -> Result<(), Failure> {
    let (filter, update) = filter_and_update(customer, trade);
    let trades = database.collection::<Document>(COLLECTION);
    let upsert = trades.find_one_and_update(filter, update).upsert(true);
    upsert.sort(doc! { "_id": -1 }).await?;
    Ok(())
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    hazards(&all(database, COLLECTION).await?, ledger)
}

/// A bucket is stale if its count is not the number of its trades, and wrong if it exceeds the page, or has a trade of
/// another customer. Each partial page of a customer except one is a gap.
fn hazards(buckets: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut times = Times::default();
    let (mut stale, mut wrong) = (0, 0);
    let mut partial: HashMap<i64, u64> = HashMap::new();
    for bucket in buckets {
        let customer = integer(bucket, "customerId")?;
        let history = elements(bucket, "history")?;
        let mut is_wrong = history.len() > PAGE_SIZE as usize;
        for trade in history.iter().filter_map(Bson::as_document) {
            let number = integer(trade, "trade_id")?;
            times.add(number);
            is_wrong |= number % CUSTOMERS as i64 != customer;
        }
        wrong += u64::from(is_wrong);
        stale += u64::from(integer(bucket, "count")? != history.len() as i64);
        if history.len() < PAGE_SIZE as usize {
            *partial.entry(customer).or_default() += 1;
        }
    }
    Ok(Hazards {
        lost: times.lost(ledger, |_| true),
        doubled: times.doubled(),
        stale: Some(stale),
        gaps: Some(partial.values().map(|buckets| buckets - 1).sum()),
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    fn bucket(customer: i64, numbers: impl IntoIterator<Item = i64>) -> Document {
        let history: Vec<Document> = numbers
            .into_iter()
            .map(|number| doc! { "trade_id": number * 8 + customer })
            .collect();
        doc! { "_id": format!("{customer}_1"), "customerId": customer, "count": history.len() as i32, "history": history }
    }

    fn found(buckets: &[Document]) -> Hazards {
        hazards(buckets, &Ledger::of(&[Fate::Acknowledged, Fate::Unknown])).unwrap()
    }

    fn none() -> Hazards {
        Hazards {
            stale: Some(0),
            gaps: Some(0),
            ..Hazards::default()
        }
    }

    #[test]
    fn full_pages_and_one_partial_page_are_correct() {
        let buckets = [bucket(0, 0..10), bucket(0, 10..13), bucket(1, 1..3)];
        assert_eq!(found(&buckets), none());
    }

    #[test]
    fn each_hazard_is_found() {
        let lost = [bucket(0, 1..11)];
        assert_eq!(found(&lost), Hazards { lost: 1, ..none() });
        let doubled = [bucket(0, 0..10), bucket(0, [3])];
        assert_eq!(found(&doubled), Hazards { doubled: 1, ..none() });
        let partial = [bucket(0, 0..9), bucket(0, 9..12), bucket(0, [12])];
        assert_eq!(
            found(&partial),
            Hazards {
                gaps: Some(2),
                ..none()
            }
        );
        let long = [bucket(0, 0..11)];
        assert_eq!(found(&long), Hazards { wrong: 1, ..none() });
        let mut of_another = bucket(0, 0..10);
        of_another.insert("customerId", 3);
        assert_eq!(found(&[of_another]), Hazards { wrong: 1, ..none() });
        let mut miscounted = bucket(0, 0..10);
        miscounted.insert("count", 9);
        assert_eq!(
            found(&[miscounted]),
            Hazards {
                stale: Some(1),
                ..none()
            }
        );
    }
}
