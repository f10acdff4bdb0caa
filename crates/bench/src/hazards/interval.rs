//! Prices, and the intervals in which they are valid.

use std::collections::BTreeMap;

use anyhow::Result;
use mongo_patterns_core::Repository;
use mongo_patterns_intervals::IntervalRepository;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{ClientSession, Collection, Database, IndexModel};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, integer};

const ITEMS: i64 = 8;
const COLLECTION: &str = "prices";
/// 1900-01-01 and 9999-01-01, as in the manual.
const BEGIN: DateTime = DateTime::from_millis(-2_208_988_800_000);
const END: DateTime = DateTime::from_millis(253_370_764_800_000);

fn prices(database: &Database) -> Result<IntervalRepository<Document>> {
    let builder = IntervalRepository::builder(database.collection::<Document>(COLLECTION));
    Ok(builder.id_field("item").build()?)
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    database.create_collection(COLLECTION).await?;
    let stored = database.collection::<Document>(COLLECTION);
    let price = |item: i64| doc! { "item": item, "price": -1_i64, "validFrom": BEGIN, "validTo": END, "isValid": true };
    match source {
        Source::Ours => drop(prices(database)?.ensure_indexes().await?),
        _ => {
            let keys = doc! { "item": 1, "validFrom": 1 };
            stored.create_index(IndexModel::builder().keys(keys).build()).await?;
        }
    }
    stored.insert_many((0..ITEMS).map(price)).await?;
    Ok(())
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let (ours, stored) = (prices(database)?, database.collection(COLLECTION));
        Ok(write(move |number| {
            let (ours, stored) = (ours.clone(), stored.clone());
            async move {
                let (item, price) = (number as i64 % ITEMS, number as i64);
                match source {
                    Source::Ours => drop(ours.update(item, doc! { "$set": { "price": price } }).await?),
                    Source::Repaired => close_and_insert_together(&stored, item, price).await?,
                    _ => close_and_insert(&stored, item, price).await?,
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

fn new_price(item: i64, price: i64, now: DateTime) -> Document {
    doc! { "item": item, "price": price, "validFrom": now, "validTo": END, "isValid": true }
}

/// Follows the manual, "Slowly Changing Dimensions", whose filter does not match the valid document.
async fn close_and_insert(prices: &Collection<Document>, item: i64, price: i64) -> Result<(), Failure> {
    let now = DateTime::now();
    let filter = doc! { "item": item, "$or": [{ "isValid": false }, { "isValid": null }] };
    let close = doc! { "$set": { "validFrom": BEGIN, "validTo": now, "isValid": false } };
    prices.update_one(filter, close).await?;
    prices.insert_one(new_price(item, price, now)).await?;
    Ok(())
}

/// Closes the valid document, and does both in a transaction.
async fn close_and_insert_together(prices: &Collection<Document>, item: i64, price: i64) -> Result<(), Failure> {
    let mut session = prices.client().start_session().await?;
    let prices = prices.clone();
    let both = async move |session: &mut ClientSession| {
        let now = DateTime::now();
        let filter = doc! { "item": item, "$or": [{ "isValid": true }, { "isValid": null }] };
        let close = doc! { "$set": { "validTo": now, "isValid": false } };
        prices.update_one(filter, close).session(&mut *session).await?;
        prices.insert_one(new_price(item, price, now)).session(session).await?;
        Ok(())
    };
    Ok(session.start_transaction().and_run2(both).await?)
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    hazards(&all(database, COLLECTION).await?, ledger)
}

/// A valid price beside another one of its item is doubled. An interval is wrong if it overlaps the next one, and a gap is between
/// two that do not meet.
fn hazards(prices: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let (mut times, mut of_items) = (
        Times::default(),
        BTreeMap::<i64, Vec<(DateTime, DateTime, bool)>>::new(),
    );
    for price in prices {
        times.add(integer(price, "price")?);
        let time = |field: &str| price.get_datetime(field).copied();
        let interval = (time("validFrom")?, time("validTo")?, price.get_bool("isValid")?);
        of_items.entry(integer(price, "item")?).or_default().push(interval);
    }
    let (mut doubled, mut gaps, mut wrong) = (0, 0, 0);
    for intervals in of_items.values_mut() {
        intervals.sort_unstable();
        let valid = intervals.iter().filter(|(_, _, is_valid)| *is_valid).count() as u64;
        doubled += valid.saturating_sub(1);
        gaps += u64::from(valid == 0);
        for two in intervals.windows(2) {
            wrong += u64::from(two[0].1 > two[1].0);
            gaps += u64::from(two[0].1 < two[1].0);
        }
    }
    Ok(Hazards {
        lost: times.lost(ledger, |_| true),
        doubled,
        stale: None,
        gaps: Some(gaps),
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    /// Returns a price, which is valid if it has no end.
    fn price(price: i64, from: i64, to: Option<i64>) -> Document {
        let mut document = new_price(0, price, DateTime::from_millis(from));
        if let Some(to) = to {
            document.extend(doc! { "validTo": DateTime::from_millis(to), "isValid": false });
        }
        document
    }

    fn found(prices: &[Document]) -> Hazards {
        hazards(prices, &Ledger::of(&[Fate::Acknowledged])).unwrap()
    }

    #[test]
    fn intervals_that_meet_are_correct_and_each_hazard_is_found() {
        let none = Hazards {
            gaps: Some(0),
            ..Hazards::default()
        };
        assert_eq!(found(&[price(0, 1, Some(2)), price(8, 2, None)]), none);
        assert_eq!(found(&[price(8, 2, None)]), Hazards { lost: 1, ..none });
        let gap = Hazards { gaps: Some(1), ..none };
        assert_eq!(found(&[price(0, 1, Some(2)), price(8, 3, None)]), gap);
        assert_eq!(found(&[price(0, 1, Some(2))]), gap);
        assert_eq!(
            found(&[price(0, 1, Some(4)), price(8, 3, None)]),
            Hazards { wrong: 1, ..none }
        );
        let two = Hazards {
            doubled: 1,
            wrong: 1,
            ..none
        };
        assert_eq!(found(&[price(0, 1, None), price(8, 3, None)]), two);
    }
}
